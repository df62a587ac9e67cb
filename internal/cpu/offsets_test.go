//go:build linux && (amd64 || arm64)

package cpu

import (
	"fmt"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/drivertest"
	"github.com/batchgemm/batchgemm/internal/hardware"
)

// The large buffers are mappings. Few of their pages are ever touched, and they do not count as memory in
// use.
func TestLargeOffsets(t *testing.T) {
	d := openDevice(t)
	drivertest.LargeOffsets(t, d, func(n int) (driver.Buffer, error) {
		mapping, err := syscall.Mmap(-1, 0, 4*n, syscall.PROT_READ|syscall.PROT_WRITE,
			syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", hardware.ErrOutOfMemory, err)
		}
		t.Cleanup(func() { require.NoError(t, syscall.Munmap(mapping)) })
		return &buffer{device: d, data: unsafe.Slice((*float32)(unsafe.Pointer(&mapping[0])), n)}, nil
	})
}
