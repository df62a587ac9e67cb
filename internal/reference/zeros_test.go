package reference

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Products with zero points are those of numbers of A less its zero points, if words have the sums of
// element.SumColumns.
func TestZeros(t *testing.T) {
	for _, c := range []struct {
		name string
		e    planner.Epilogue
	}{
		{"rows", planner.Epilogue{ScaleA: planner.PerRow, ScaleB: planner.PerRow, ZeroA: true}},
		{"one", planner.Epilogue{ScaleA: planner.PerTensor, ScaleB: planner.PerRow, ZeroA: true}},
		{"gathered", planner.Epilogue{ScaleA: planner.PerRow, ScaleB: planner.PerRow, ZeroA: true,
			GatherRows: 4}},
		{"one, gathered", planner.Epilogue{ScaleA: planner.PerTensor, ScaleB: planner.PerRow, ZeroA: true,
			GatherRows: 4}},
	} {
		for _, transB := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				const m, n, k = 5, 6, 70
				rng := rand.New(rand.NewPCG(1, 2))
				x, y, whole := make([]float32, m*k), make([]float32, n*k), make([]int8, n*k)
				UniformOf(element.Int8, rng, x)
				UniformOf(element.Int8, rng, y)
				for i, v := range y {
					whole[i] = int8(v)
				}
				p := planner.Problem{M: m, N: n, K: k, TransB: transB, Alpha: planner.Scale(-0.5),
					A: planner.Matrix{LD: k}, B: planner.Matrix{LD: n}, C: planner.Matrix{LD: n},
					ScaleA: m, ScaleB: 30}
				if transB {
					p.B.LD = k
				}
				rows := make([]int32, p.ScaleB+2*n)
				copy(rows, []int32{3, -1, 0, 1, 4}) // two do not exist
				for i := range c.e.ScalesA(&p) / 2 {
					rows[p.ScaleA+2*i], rows[p.ScaleA+2*i+1] = int32(math.Float32bits(float32(i+1))),
						int32(rng.IntN(256)-128)
				}
				sums := make([]int32, n)
				element.SumColumns(sums, whole, k, p.B.LD, transB)
				for j := range n {
					rows[p.ScaleB+2*j], rows[p.ScaleB+2*j+1] = int32(math.Float32bits(float32(j-2))), sums[j]
				}
				after := make([]float32, m*n)
				for i := range m {
					from, scale := i, i
					if c.e.GatherRows > 0 {
						if from = int(rows[i]); from < 0 || from >= c.e.GatherRows {
							continue
						}
						scale = from
					}
					if c.e.ScaleA == planner.PerTensor {
						scale = 0
					}
					zero := float64(rows[p.ScaleA+2*scale+1])
					for j := range n {
						sum := 0.0
						for at := range k {
							b := y[at*n+j]
							if transB {
								b = y[j*k+at]
							}
							sum += (float64(x[from*k+at]) - zero) * float64(b)
						}
						after[i*n+j] = float32(-0.5 * sum * float64(scale+1) * float64(j-2))
					}
				}
				how := Arithmetic{Epilogue: Epilogue{Epilogue: c.e, Rows: rows}}
				require.NoError(t, CheckExactIn(how, planner.Batch{p}, x, y, make([]float32, m*n), after))
				rows[p.ScaleA+1]++ // the zero point of row 0 of A
				require.Error(t, CheckExactIn(how, planner.Batch{p}, x, y, make([]float32, m*n), after))
			})
		}
	}
}

// The bound of a product with a zero point explains its roundings and those of the difference, and no more.
func TestZeroBound(t *testing.T) {
	const zero, sum = -127, 1<<24 - 1
	p := planner.Problem{M: 1, N: 1, K: 1, A: planner.Matrix{LD: 1}, B: planner.Matrix{LD: 1},
		C: planner.Matrix{LD: 1}, ScaleB: 2}
	one := int32(math.Float32bits(1))
	how := Arithmetic{Epilogue: Epilogue{Epilogue: planner.Epilogue{ScaleA: planner.PerTensor,
		ScaleB: planner.PerRow, ZeroA: true}, Rows: []int32{one, zero, one, sum}}}
	want := 100*127 - float64(zero)*sum
	for ulps, fits := range map[float64]bool{0: true, 1: true, 20: false, -20: false} {
		got := float32(want + ulps*128)
		_, err := CheckIn(how, planner.Batch{p}, []float32{100}, []float32{127}, []float32{0}, []float32{got})
		require.Equal(t, fits, err == nil, ulps)
	}
}
