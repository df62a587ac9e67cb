package gonumgemm

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/mat"

	"github.com/batchgemm/batchgemm/dispatch"
)

func open(t testing.TB) *dispatch.Device {
	t.Helper()
	d, err := dispatch.Open(t.Context(), dispatch.WithBackend("cpu"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// general returns a matrix of random numbers with a gap after each row, in its own array or at the end of a
// shared one.
func general(rng *rand.Rand, rows, cols int, in *[]float32) blas32.General {
	stride := cols + rng.IntN(3)
	first := len(*in)
	for range rows*stride + rng.IntN(4) {
		*in = append(*in, rng.Float32()*2-1)
	}
	return blas32.General{Rows: rows, Cols: cols, Stride: max(stride, 1), Data: (*in)[first:len(*in)]}
}

func at(m blas32.General, trans blas.Transpose, i, j int) float64 {
	if trans == blas.Trans {
		i, j = j, i
	}
	return float64(m.Data[i*m.Stride+j])
}

// TestGemm compares products of all transpositions with sums in float64, in separate arrays and as views of
// one.
func TestGemm(t *testing.T) {
	d := open(t)
	for _, shared := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(7, 9))
		array := make([]float32, 0, 1<<16)
		next := func() *[]float32 {
			if shared {
				return &array
			}
			return new([]float32)
		}
		var products []Product[blas32.General]
		for i := range 24 {
			m, n, k := rng.IntN(20), rng.IntN(20), rng.IntN(30)
			p := Product[blas32.General]{Alpha: [...]float64{1, 0.5, 0}[i%3],
				Beta: [...]float64{0, 1, -2}[i/3%3], TransA: [...]blas.Transpose{0, blas.Trans}[i%2],
				TransB: [...]blas.Transpose{blas.NoTrans, blas.Trans}[i/2%2]}
			p.A, p.B, p.C = general(rng, m, k, next()), general(rng, k, n, next()), general(rng, m, n, next())
			if p.TransA == blas.Trans {
				p.A = general(rng, k, m, next())
			}
			if p.TransB == blas.Trans {
				p.B = general(rng, n, k, next())
			}
			products = append(products, p)
		}
		before := make([]blas32.General, len(products))
		for i, p := range products {
			before[i] = p.C
			before[i].Data = slices.Clone(p.C.Data)
		}
		require.NoError(t, Gemm(t.Context(), d, products...))
		for n, p := range products {
			for i := range before[n].Data {
				row, col := i/p.C.Stride, i%p.C.Stride
				was, got := float64(before[n].Data[i]), float64(p.C.Data[i])
				if row >= p.C.Rows || col >= p.C.Cols {
					require.Equal(t, was, got, "product %d: between rows", n)
					continue
				}
				k := p.A.Cols
				if p.TransA == blas.Trans {
					k = p.A.Rows
				}
				sum, size := p.Beta*was, math.Abs(p.Beta*was)
				for l := range k {
					x := p.Alpha * at(p.A, p.TransA, row, l) * at(p.B, p.TransB, l, col)
					sum, size = sum+x, size+math.Abs(x)
				}
				require.InDelta(t, sum, got, 2*float64(k+2)*0x1p-24*size, "product %d, %d, %d", n, row, col)
			}
		}
	}
}

func TestGemmMistakes(t *testing.T) {
	d := open(t)
	one := blas32.General{Rows: 1, Cols: 1, Stride: 1, Data: []float32{3}}
	two := blas32.General{Rows: 2, Cols: 1, Stride: 1, Data: []float32{1, 2}}
	for want, p := range map[string]Product[blas32.General]{
		"product 0: op(A) is 1 x 1, op(B) 2 x 1, C 1 x 1": {A: one, B: two, C: one},
		"product 0: unknown transposition x":              {TransB: 'x', A: one, B: one, C: one},
		"B of product 0 has stride 0, and rows of 1": {A: one, B: blas32.General{Rows: 1, Cols: 1},
			C: one},
	} {
		err := Gemm(t.Context(), d, p)
		require.ErrorIs(t, err, dispatch.ErrInvalid)
		require.EqualError(t, err, want)
	}
	require.Equal(t, []float32{3}, one.Data)
	require.NoError(t, Gemm[blas32.General](t.Context(), d))
}

// TestMultiply compares with gonum's own product in float64.
func TestMultiply(t *testing.T) {
	d := open(t)
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(rows, cols int) mat.Matrix {
		m := mat.NewDense(rows, cols, nil)
		m.Apply(func(int, int, float64) float64 { return rng.Float64()*2 - 1 }, m)
		return m
	}
	a, b := []mat.Matrix{random(9, 17), random(3, 4).T()}, []mat.Matrix{random(17, 5), random(3, 6)}
	got, err := Multiply[float32](t.Context(), d, a, b)
	require.NoError(t, err)
	for i := range a {
		var want mat.Dense
		want.Mul(a[i], b[i])
		require.True(t, mat.EqualApprox(&want, got[i], 1e-5))
	}
	_, err = Multiply[float32](t.Context(), d, a, b[1:])
	require.ErrorIs(t, err, dispatch.ErrInvalid)
	_, err = Multiply[float32](t.Context(), d, a[:1], b[1:])
	require.ErrorIs(t, err, dispatch.ErrInvalid)
}
