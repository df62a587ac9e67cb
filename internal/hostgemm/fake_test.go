package hostgemm

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/fakedriver"
	"github.com/batchgemm/batchgemm/planner"
)

var errBroken = errors.New("broken")

// bare is no epilogue.
var bare planner.Epilogue

func openHost(t *testing.T) (*Host, *fakedriver.Device) {
	g, fakes := openFast(t, 1, 0)
	return g.hosts[0], fakes[0]
}

// openGroup opens devices that are so slow that the batches of the tests are large.
func openGroup(t *testing.T, n int) (*Group, []*fakedriver.Device) { return openFast(t, n, 0.001) }

func openFast(t *testing.T, n int, tflops float64) (*Group, []*fakedriver.Device) {
	t.Helper()
	f := &fakedriver.Driver{TB: t, Backend: "fake", TFLOPS: tflops}
	var hosts []*Host
	for i := range n {
		d, err := f.Open(t.Context(), i)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		info := d.Info()
		hosts = append(hosts, New(d, planner.New(&info.Planner)))
	}
	return NewGroup(hosts), f.Opened
}

// small is C = A*B of sizes 2x2x2 with A = 1 2 3 4.
func small(t *testing.T) planner.Batch {
	t.Helper()
	b, err := planner.Pack(planner.GEMM(2, 2, 2))
	require.NoError(t, err)
	return b
}
