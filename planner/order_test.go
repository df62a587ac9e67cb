package planner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/occupancy"
	"github.com/batchgemm/batchgemm/internal/tile"
)

// cpuDevice returns a CPU with two cores and the tiles for CPUs.
func cpuDevice() *Device {
	d := &Device{
		Name: "cpu", Occupancy: occupancy.Limits, ComputeUnits: 2, WaveSize: 1, TFLOPS: 0.2, LaunchMicros: 5,
		MaxWaves: 1, MaxGroups: 1, Shared: 1 << 18, MaxThreads: 1, GroupShared: 1 << 18,
		KernelKind: encoding.KernelsCPU,
	}
	for _, s := range tile.Of(tile.SIMD) {
		d.Kernels = append(d.Kernels, KernelFacts{Tile: s})
	}
	return d
}

// TestOrderOnCPU: few problems start with the longest K. Many problems keep their order in memory, except
// long ones.
func TestOrderOnCPU(t *testing.T) {
	d := cpuDevice()
	order := func(n int) (problems []int32) {
		batch := make([]Problem, n)
		for i := range batch {
			batch[i] = GEMM(8, 8, 10+i)
		}
		batch[n-1].K = 5000
		p, err := New(d).Plan(t.Context(), mustPack(t, batch...),
			Options{Tile: "simd-32x32", Schedule: ScheduleDataParallel})
		require.NoError(t, err)
		for _, s := range p.Segments {
			problems = append(problems, s.Problem)
		}
		return problems
	}
	require.Equal(t, []int32{3, 2, 1, 0}, order(4))
	many := order(2 * manyProblems)
	require.Equal(t, []int32{2*manyProblems - 1, 0, 1, 2}, many[:4])
	require.IsIncreasing(t, many[1:])
}

// TestCostOnCPU: a thread that has done its tile takes the next one, so few tiles are no loss as long as
// each thread has some. Of one product, both threads have a share.
func TestCostOnCPU(t *testing.T) {
	batch := make([]Problem, 8)
	for i := range batch {
		batch[i] = GEMM(100, 100, 300)
	}
	p, err := New(cpuDevice()).Plan(t.Context(), mustPack(t, batch...), Options{})
	require.NoError(t, err)
	require.LessOrEqual(t, len(p.Segments), 16, p.Launches[0].Tile)
	p, err = New(cpuDevice()).Plan(t.Context(), mustPack(t, batch[0]), Options{})
	require.NoError(t, err)
	require.Greater(t, len(p.Segments), 1, p.Launches[0].Tile)
}
