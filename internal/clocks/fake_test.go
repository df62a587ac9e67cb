//go:build cgo && !nocuda && linux && (amd64 || arm64)

package clocks

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/dl/dltest"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/devices"
)

// TestOnFake runs TestMeasure in a process with the libcuda of native/cuda/testdata/fakecuda.c, which fills
// the clocks as described there.
func TestOnFake(t *testing.T) {
	dir := t.TempDir()
	dltest.CompileCUDA(t, "../../native/cuda/testdata/fakecuda.c", filepath.Join(dir, "libcuda.so.1"))
	cmd := exec.Command(os.Args[0], "-test.run=^TestMeasure$", "-test.v")
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, "BATCHGEMM_FAKE=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "--- PASS: TestMeasure/clusters")
}

func TestMeasure(t *testing.T) {
	if os.Getenv("BATCHGEMM_FAKE") == "" {
		t.Skip("TestOnFake runs this")
	}
	device, err := devices.Lookup("h200")
	require.NoError(t, err)
	for _, tc := range []struct {
		name    string
		problem planner.Problem
		options planner.Options
	}{
		{"data-parallel", planner.GEMM(300, 200, 1),
			planner.Options{Tile: "small", Schedule: planner.ScheduleDataParallel}},
		{"split-k", planner.GEMM(20, 20, 700),
			planner.Options{Tile: "small", Schedule: planner.ScheduleSplitK}},
		{"clusters", planner.GEMM(33, 20, 256),
			planner.Options{Tile: "tensor-32x32", Schedule: planner.ScheduleCluster}},
		{"nothing to do", planner.GEMM(0, 5, 5), planner.Options{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			batch, err := planner.Pack(tc.problem)
			require.NoError(t, err)
			plan, err := planner.New(device).Plan(t.Context(), batch, tc.options)
			require.NoError(t, err)
			need := batch.Lengths(planner.Epilogue{})
			groups, err := Measure(t.Context(), 0, plan, make([]float32, need.A), make([]float32, need.B),
				make([]float32, need.C))
			require.NoError(t, err)
			require.Len(t, groups, groupsOf(plan))
			start := 0.0
			at := 0
			for i := range plan.Launches {
				l := &plan.Launches[i]
				n := groupsOfLaunch(l)
				workers := map[int]int{}
				for j, g := range groups[at : at+n] {
					require.Equal(t, i, g.Launch)
					require.Equal(t, j%132, g.Unit)
					require.InDelta(t, start+float64(j/132), g.Start, 0.1)
					require.InDelta(t, 1, g.End-g.Start, 0.001)
					workers[g.Worker]++
				}
				require.Len(t, workers, l.Count)
				for w, groups := range workers {
					require.GreaterOrEqual(t, w, l.First)
					require.Less(t, w, l.First+l.Count)
					require.Equal(t, n/l.Count, groups)
				}
				at += n
				start += float64((n+131)/132) + 0.5
			}
		})
	}
	t.Run("too many groups", func(t *testing.T) {
		batch, err := planner.Pack(planner.GEMM(16*257, 16*257, 1))
		require.NoError(t, err)
		plan, err := planner.New(device).Plan(t.Context(), batch,
			planner.Options{Tile: "small", Schedule: planner.ScheduleDataParallel})
		require.NoError(t, err)
		_, err = Measure(t.Context(), 0, plan, nil, nil, nil)
		require.ErrorIs(t, err, hardware.ErrUnavailable)
		require.ErrorContains(t, err, "66049 thread groups, the clocks hold 65536")
	})
	t.Run("another GPU", func(t *testing.T) {
		t.Setenv("FAKECUDA_MAJOR", "8")
		batch, err := planner.Pack(planner.GEMM(5, 5, 5))
		require.NoError(t, err)
		plan, err := planner.New(device).Plan(t.Context(), batch, planner.Options{Tile: "small"})
		require.NoError(t, err)
		_, err = Measure(t.Context(), 0, plan, make([]float32, 100), make([]float32, 100),
			make([]float32, 100))
		require.ErrorIs(t, err, hardware.ErrUnavailable)
	})
}
