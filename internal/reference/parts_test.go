package reference

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
)

// TestSplit: the parts of large problems are their rows, each once and in order. A mismatch in a part is
// reported for the whole problem.
func TestSplit(t *testing.T) {
	big := planner.GEMM(5, 1<<12, 1<<12) // two rows in each part
	transposed := big
	transposed.TransA, transposed.Alpha = true, planner.Scale(0.5)
	b, err := planner.Pack(planner.GEMM(3, 2, 4), big, planner.GEMM(0, 7, 7), transposed)
	require.NoError(t, err)
	parts := split(b, &planner.Epilogue{})
	require.Len(t, parts, 1+3+0+3)
	next := map[int]int{}
	for _, p := range parts {
		whole := &b[p.index]
		require.Equal(t, next[p.index], p.first)
		next[p.index] += p.M
		stepA := whole.A.LD
		if whole.TransA {
			stepA = 1
		}
		require.Equal(t, whole.A.Offset+p.first*stepA, p.A.Offset)
		require.Equal(t, whole.C.Offset+p.first*whole.C.LD, p.C.Offset)
		require.Equal(t, [3]int{whole.N, whole.K, whole.B.Offset}, [3]int{p.N, p.K, p.B.Offset})
	}
	require.Equal(t, map[int]int{0: 3, 1: 5, 3: 5}, next)

	m := parts[len(parts)-1].in(&Mismatch{Row: 0, Col: 9, Got: 1})
	require.Equal(t, [3]int{3, 4, 9}, [3]int{m.Problem, m.Row, m.Col})
	require.ErrorContains(t, m, "problem 3 (5x4096x4096, transA true, transB false, alpha 0.5, beta 0): "+
		"C[4,9]")
}

// TestSplitGated: two products are twice the work, so parts have half as many rows.
func TestSplitGated(t *testing.T) {
	b, err := planner.Pack(planner.GEMM(8, 1<<12, 1<<11)) // four rows in each part
	require.NoError(t, err)
	require.Len(t, split(b, &planner.Epilogue{}), 2)
	require.Len(t, split(b, &planner.Epilogue{Gated: true}), 4)
}

// TestNothingToDo: problems without rows, columns or products, in buffers with room only for what is read
// and written.
func TestNothingToDo(t *testing.T) {
	for sizes := range 8 {
		for kind := range 8 {
			p := planner.GEMM(3*(sizes&1), 3*(sizes>>1&1), 3*(sizes>>2&1))
			p.TransA, p.TransB, p.Alpha, p.Beta = kind&1 == 1, kind&2 == 2, planner.Scale(float64(kind>>2)), 2
			b, err := planner.Pack(p, planner.GEMM(0, 2, 2))
			require.NoError(t, err)
			need := b.Lengths(planner.Epilogue{})
			x, y, before, after := make([]float32, need.A), make([]float32, need.B), make([]float32, need.C),
				make([]float32, need.C)
			for i := range after {
				before[i], after[i] = 1, 2 // x and y are 0
			}
			require.NoError(t, CheckExact(b, x, y, before, after), "%+v", p)
			_, err = CheckIn(Arithmetic{Compute: planner.ComputeTF32}, b, x, y, before, after)
			require.NoError(t, err, "%+v", p)
			largest, _ := Relative(b, x, y, before, after)
			require.Zero(t, largest, "%+v", p)
			if need.C > 0 {
				after[need.C-1]++
				require.Error(t, CheckExact(b, x, y, before, after), "%+v", p)
			}
		}
	}
}

// TestSplitDegenerate: problems without elements have no parts, and those without products have few.
func TestSplitDegenerate(t *testing.T) {
	const most = planner.MaxDim
	require.Empty(t, split(planner.Batch{planner.GEMM(most, 0, most), planner.GEMM(0, most, most),
		planner.GEMM(0, 0, 0)}, &planner.Epilogue{}))
	scaled := planner.GEMM(1000, 1, most)
	scaled.Alpha = planner.Scale(0)
	require.Len(t, split(planner.Batch{scaled}, &planner.Epilogue{}), 1)
	require.NoError(t, CheckExact(planner.Batch{planner.GEMM(most, 0, most)}, nil, nil, nil, nil))
}

func TestRelative(t *testing.T) {
	for _, tc := range []struct {
		name          string
		change        func(b planner.Batch, before, after []float32)
		largest, mean float64
	}{
		{"exact", func(planner.Batch, []float32, []float32) {}, 0, 0},
		// Sums of terms: 7, 10, 15, 22, and with beta*C 2.5 + 20, 5.5 + 40.
		{"first problem", func(_ planner.Batch, _, after []float32) { after[4] += 1.5 }, 1.5 / 15, 0.1 / 6},
		{"beta", func(_ planner.Batch, _, after []float32) { after[7] -= 9 }, 9 / 22.5, 0.4 / 6},
		{"no terms", func(b planner.Batch, _, after []float32) {
			b[0].Alpha = planner.Scale(0)
			after[1] = 5
		}, 0, 0},
		{"overflow", func(_ planner.Batch, before, after []float32) {
			before[7], before[8] = math.MaxFloat32, math.MaxFloat32
			after[7], after[8], after[1] = float32(math.Inf(1)), float32(math.Inf(1)), 14
		}, 1, 1.0 / 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, x, y, before, after := batch()
			tc.change(b, before, after)
			largest, mean := Relative(b, x, y, before, after)
			require.InDelta(t, tc.largest, largest, 1e-12)
			require.InDelta(t, tc.mean, mean, 1e-12)
		})
	}
}
