package workload

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/npz"
	"github.com/batchgemm/batchgemm/internal/npz/npztest"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// TestDoubles: arrays of float64 keep their bits, others are widened, and results are float64 too.
func TestDoubles(t *testing.T) {
	f64 := planner.Options{TypeA: element.F64, TypeC: element.F64}
	path := npztest.Write(t,
		npztest.Array{Name: "A0", Shape: []int{1, 2}, Data: []float64{0.1, 1e300}},
		npztest.Array{Name: "B0", Shape: []int{2, 1}, Data: []float32{3, 0.5}},
		npztest.Array{Name: "C0", Shape: []int{1, 1}, Data: []float64{1. / 3}})
	w, err := LoadOf(path, nil, &f64)
	require.NoError(t, err)
	require.Equal(t, []float64{0.1, 1e300}, Doubles(w.Operands.A))
	require.Equal(t, []float64{3, 0.5}, Doubles(w.Operands.B))
	require.Equal(t, []float64{1. / 3}, Doubles(w.Operands.C))
	_, err = LoadOf(path, nil, &planner.Options{})
	require.ErrorContains(t, err, "A0 is of float64, not elements of f32: choose f64")

	to := filepath.Join(t.TempDir(), "out.npz")
	file, err := npz.Create(to)
	require.NoError(t, err)
	require.NoError(t, WriteNPZ(file, w.Batch, element.F64, w.Operands.C))
	raw, err := os.Open(to)
	require.NoError(t, err)
	defer raw.Close()
	info, err := raw.Stat()
	require.NoError(t, err)
	arrays, err := npz.List(raw, info.Size())
	require.NoError(t, err)
	require.Equal(t, npz.Float64, arrays[0].DType)
	got := make([]float64, 1)
	require.NoError(t, arrays[0].ReadDoubles(got))
	require.Equal(t, []float64{1. / 3}, got)
}
