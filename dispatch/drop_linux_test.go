package dispatch

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/drivertest"
	"github.com/batchgemm/batchgemm/internal/hostmem/memtest"
	"github.com/batchgemm/batchgemm/webgpu"
)

func threads(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	return len(list)
}

//go:noinline
func openWebGPU(t *testing.T) *Device {
	d, err := Open(t.Context(), WithBackend("webgpu"))
	require.NoError(t, err)
	return d
}

// Memory of dropped buffers and threads of dropped devices are released.
func TestDroppedOnWebGPU(t *testing.T) {
	drivertest.Open(t, webgpu.Driver()) // skips without an adapter
	log := captureLog(t)
	const buffers, size = 40, 16 << 20 // bytes each
	t.Run("buffers", func(t *testing.T) {
		d := openWebGPU(t)
		data := make([]float32, size/4)
		buffer(t, d, len(data), data...)
		before := memtest.Resident(t)
		for i := range buffers {
			buffer(t, d, len(data), data...)
			collect(t, func() bool { return log.count("object=buffer") > i })
		}
		require.Less(t, memtest.Resident(t)-before, buffers*size/4, "bytes more")
		require.NoError(t, d.Close())
	})
	t.Run("devices", func(t *testing.T) {
		const devices = 8
		before := threads(t)
		for i := range devices {
			use(t, openWebGPU(t))
			collect(t, func() bool { return log.count("object=device") > i })
		}
		collect(t, func() bool { return threads(t)-before < 2*devices }) // each has 6
	})
}
