package cuda

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/cublas"
	"github.com/batchgemm/batchgemm/internal/dl/dltest"
	"github.com/batchgemm/batchgemm/internal/drivertest"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
)

// The tests below need a GPU, and skip without one.

func TestConformance(t *testing.T)    { drivertest.Run(t, Driver()) }
func TestSignals(t *testing.T)        { dltest.Signals(t, Driver()) }
func TestTwoProcesses(t *testing.T)   { dltest.TwoProcesses(t, Driver()) }
func TestRandomProblems(t *testing.T) { dltest.RandomProblemsOnGPU(t, Driver()) }

func TestLargeOffsets(t *testing.T) {
	d := drivertest.Open(t, Driver())
	drivertest.LargeOffsets(t, d, d.Alloc)
}

func TestIllegalAddress(t *testing.T) {
	dltest.IllegalAddress(t, Driver(), "CUDA_ERROR_ILLEGAL_ADDRESS")
}

// Two devices on one stream of another library see each other's work in order, in memory of that library.
func TestOnStream(t *testing.T) {
	d := drivertest.Open(t, Driver()).(backend.Wrapper)
	stream, err := cublas.Open(0)
	require.NoError(t, err)
	defer stream.Close()
	batch, err := planner.Pack(planner.GEMM(20, 20, 300))
	require.NoError(t, err)
	n := 20*300 + 300*20 + 20*20
	memory, err := stream.Alloc(4 * n)
	require.NoError(t, err)
	defer func() { require.NoError(t, stream.Free(memory)) }()

	var shared [2]backend.Wrapper
	var buffers [2][3]driver.Buffer
	for i := range shared {
		opened, err := d.OnStream(stream.Native())
		require.NoError(t, err)
		defer opened.Close()
		shared[i] = opened.(backend.Wrapper)
		at := memory
		for j, n := range [...]int{20 * 300, 300 * 20, 20 * 20} {
			buffers[i][j], err = shared[i].Wrap(at, n)
			require.NoError(t, err)
			at += 4 * uintptr(n)
		}
	}
	info := d.Info()
	plan, err := planner.New(&info.Planner).Plan(t.Context(), batch,
		planner.Options{Tile: "small", Schedule: planner.ScheduleSplitK})
	require.NoError(t, err)
	program, err := shared[0].Prepare(t.Context(), plan)
	require.NoError(t, err)
	var host [3][]float32
	for j, b := range buffers[1] {
		host[j] = make([]float32, b.Len())
		reference.Integers(rand.New(rand.NewPCG(1, uint64(j))), host[j], 4)
		require.NoError(t, b.Write(t.Context(), 0, host[j]))
	}
	run := driver.Run{Program: program, A: buffers[0][0], B: buffers[0][1], C: buffers[0][2]}
	require.NoError(t, shared[0].Submit(t.Context(), []driver.Run{run}))
	got := make([]float32, len(host[2]))
	require.NoError(t, buffers[1][2].Read(t.Context(), 0, got))
	require.NoError(t, reference.CheckExact(batch, host[0], host[1], host[2], got))
	_, err = d.Wrap(1<<20, 1)
	require.ErrorContains(t, err, "does not know")
}

func BenchmarkSubmit(b *testing.B)     { dltest.BenchmarkSubmit(b, Driver()) }
func BenchmarkSubmitWait(b *testing.B) { dltest.BenchmarkSubmitWait(b, Driver()) }
func BenchmarkPrepare(b *testing.B)    { dltest.BenchmarkPrepare(b, Driver()) }
func BenchmarkTransfer(b *testing.B)   { dltest.BenchmarkTransfer(b, Driver()) }
