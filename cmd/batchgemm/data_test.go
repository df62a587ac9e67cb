package main

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/bench"
	"github.com/batchgemm/batchgemm/internal/npz"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// TestDataKinds: the numbers of each kind fill its range.
func TestDataKinds(t *testing.T) {
	want := map[string][2]float64{ // of the absolute values, nearly
		"uniform": {0, 1}, "positive": {0, 1}, "cancelling": {0, 1},
		"mixed": {0x1p-15, 0x1p15}, "tiny": {0, 0x1p-115}, "huge": {0, 0x1p56},
	}
	batch, err := planner.Pack(planner.GEMM(50, 50, 100))
	require.NoError(t, err)
	for _, k := range dataKinds {
		t.Run(k.name, func(t *testing.T) {
			ops, err := k.fill(&workload.Workload{Batch: batch})
			require.NoError(t, err)
			again, err := k.fill(&workload.Workload{Batch: batch})
			require.NoError(t, err)
			require.Equal(t, ops, again)
			least, most, negative := math.Inf(1), 0.0, false
			for _, x := range ops.A {
				least, most, negative = min(least, math.Abs(float64(x))), max(most, math.Abs(float64(x))),
					negative || x < 0
			}
			ends := want[k.name]
			require.GreaterOrEqual(t, least, ends[0])
			require.LessOrEqual(t, most, ends[1])
			require.Greater(t, most, ends[1]/2)
			require.Less(t, least, max(2*ends[0], ends[1]/100))
			require.Equal(t, k.name != "positive", negative)
		})
	}
}

// TestDataCancels: sums are small compared with their terms, for all layouts of matrices; for odd K, except
// the last term.
func TestDataCancels(t *testing.T) {
	for _, tc := range []struct {
		name           string
		transA, transB bool
	}{{"nn", false, false}, {"tt", true, true}} {
		t.Run(tc.name, func(t *testing.T) {
			p := planner.GEMM(6, 5, 40)
			p.TransA, p.TransB = tc.transA, tc.transB
			batch, err := planner.Pack(p)
			require.NoError(t, err)
			k := dataKinds[3]
			require.Equal(t, "cancelling", k.name)
			ops, err := k.fill(&workload.Workload{Batch: batch})
			require.NoError(t, err)
			p = batch[0]
			for i := range p.M {
				for j := range p.N {
					sum, terms := 0.0, 0.0
					for k := range p.K {
						a, b := p.A.Offset+i*p.A.LD+k, p.B.Offset+k*p.B.LD+j
						if p.TransA {
							a = p.A.Offset + k*p.A.LD + i
						}
						if p.TransB {
							b = p.B.Offset + j*p.B.LD + k
						}
						x := float64(ops.A[a]) * float64(ops.B[b])
						sum, terms = sum+x, terms+math.Abs(x)
					}
					require.NotZero(t, sum)
					require.LessOrEqual(t, math.Abs(sum), 0x1p-12*terms)
				}
			}
		})
	}
}

func TestBenchData(t *testing.T) {
	sample.Command.Whole(t)
	for _, k := range dataKinds {
		t.Run(k.name, func(t *testing.T) {
			r := decode[bench.Report](t, "20 30 400\n", "bench", "-", "--repeat", "1", "--data", k.name)
			row := r.Cases[0].Rows[0]
			require.Empty(t, row.Wrong)
			require.NotNil(t, row.Accuracy)
			require.Positive(t, row.Accuracy.Mean)
			require.Less(t, row.Accuracy.Mean, row.Accuracy.Max)
			// The bound of an error is 2*(K+2)*2^-24 of the terms, and a negligible amount for subnormal
			// numbers.
			require.InEpsilon(t, row.Error, row.Accuracy.Max/(2*402*0x1p-24), 1e-3)
		})
	}
	text := succeed(t, "2 3 4\n", "bench", "-", "--repeat", "1", "--data", "mixed")
	require.Regexp(t, `\(max \S+, mean \S+\)`, text)
}

func TestBenchDataErrors(t *testing.T) {
	code, _, stderr := batchgemm(t, "", "bench", "inception-1", "--data", "x")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, `--data "x" is not one of uniform, positive, mixed, cancelling, tiny, huge`)

	file := filepath.Join(t.TempDir(), "a.npz")
	w, err := npz.Create(file)
	require.NoError(t, err)
	for _, name := range []string{"A0", "B0"} {
		require.NoError(t, w.Write(name, element.F32, 1, 1, []float32{1}))
	}
	require.NoError(t, w.Commit())
	code, _, stderr = batchgemm(t, "", "bench", file, "--data", "mixed")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "--data: "+file+" has matrices of its own")
}

// TestBenchRegretOfOneTile: with --tile only that tile is tried.
func TestBenchRegretOfOneTile(t *testing.T) {
	r := decode[bench.Report](t, "64 64 64\n", "bench", "-", "--repeat", "1", "--regret", "--tile", "medium")
	var schedules []planner.Schedule
	for _, f := range r.Cases[0].Regret.Forced {
		require.Equal(t, "medium", f.Tile)
		schedules = append(schedules, planner.Schedule(f.Schedule))
	}
	// the tile has no clusters, and threads of a CPU take tiles from a counter anyway
	none := func(s planner.Schedule) bool {
		return s == planner.ScheduleCluster || s == planner.ScheduleDynamic
	}
	require.ElementsMatch(t, slices.DeleteFunc(planner.Schedules(), none), schedules)
}
