package reference

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
)

// machine computes in float32, with IEEE arithmetic or with subnormal numbers replaced by 0.
type machine struct{ flushes bool }

func (m machine) value(x float32) float32 {
	if m.flushes && subnormal(x) {
		return 0
	}
	return x
}

func (m machine) mul(x, y float32) float32 { return m.value(m.value(x) * m.value(y)) }
func (m machine) add(x, y float32) float32 { return m.value(m.value(x) + m.value(y)) }

// gemm returns C = alpha*x*y + beta*C for one element.
func (m machine) gemm(p *planner.Problem, x, y []float32, c float32) float32 {
	var sum float32
	for k := range p.K {
		sum = m.add(sum, m.mul(x[k], y[k]))
	}
	return m.add(m.mul(float32(p.Alpha.Value()), sum), m.mul(float32(p.Beta), c))
}

// Results of both machines are within their bounds and come near to them. The IEEE bound finds flushed
// results, and each bound finds errors of twice its size.
func TestSubnormals(t *testing.T) {
	ieee, flushing := Arithmetic{}, Arithmetic{FlushesSubnormals: true}
	for _, c := range []struct {
		name        string
		x, y, c     float32 // magnitudes
		alpha, beta float32
	}{
		{"A", 0x1p-127, 0x1p100, 0, 1, 0},
		{"B", 0x1p100, 0x1p-127, 0, 1, 0},
		{"products", 0x1p-60, 0x1p-65, 0, 1, 0},
		{"products to scale", 0x1p-60, 0x1p-65, 0x1p-39, 0x1p90, 1},
		{"C", 0x1p-80, 0x1p-80, 0x1p-127, 1, 0x1p50},
		{"alpha", 0x1p60, 0x1p60, 0x1p-10, 0x1p-128, 1},
		{"beta", 0x1p-60, 0x1p-60, 0x1p30, 1, 0x1p-128},
		{"results", 0x1p-60, 0x1p-40, 0x1p-90, 0x1p-26, 0x1p-36},
	} {
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(2, 0))
			nearest, found := 0.0, 0
			for k := 1; k < 40; k++ {
				p := planner.GEMM(1, 1, k)
				p.Alpha, p.Beta = planner.Scale(float64(c.alpha)), float64(c.beta)
				b, err := planner.Pack(p)
				require.NoError(t, err)
				x, y, before := scaled(rng, k, c.x), scaled(rng, k, c.y), scaled(rng, 1, c.c)
				whole := []float32{machine{}.gemm(&p, x, y, before[0])}
				flushed := []float32{machine{true}.gemm(&p, x, y, before[0])}

				for _, how := range []Arithmetic{ieee, flushing} {
					_, err = CheckIn(how, b, x, y, before, whole)
					require.NoError(t, err, "%+v, K %d", how, k)
				}
				errs, err := CheckIn(flushing, b, x, y, before, flushed)
				require.NoError(t, err, "K %d", k)
				nearest = max(nearest, errs.Worst)
				if _, err = CheckIn(ieee, b, x, y, before, flushed); err != nil {
					found++
				}
				for _, how := range []Arithmetic{ieee, flushing} {
					var m *Mismatch
					_, err = CheckIn(how, b, x, y, before, []float32{float32(math.NaN())})
					require.ErrorAs(t, err, &m)
					for _, twice := range []float64{-2, 2} {
						_, err = CheckIn(how, b, x, y, before, []float32{float32(m.Want + twice*m.Bound)})
						require.Error(t, err, "%+v, K %d", how, k)
					}
				}
			}
			require.Positive(t, found, "IEEE's bound lets flushed results pass")
			require.Greater(t, nearest, 0.02, "the bound is of the size of real errors")
		})
	}
}

func scaled(rng *rand.Rand, n int, size float32) []float32 {
	s := make([]float32, n)
	Uniform(rng, s)
	for i := range s {
		s[i] *= size
	}
	return s
}

// Numbers of ordinary size have almost the same bound on both machines.
func TestBoundWithoutSubnormals(t *testing.T) {
	b, x, y, before, after := batch()
	after[4] = 16
	var ieee, flushing *Mismatch
	_, err := CheckIn(Arithmetic{}, b, x, y, before, after)
	require.ErrorAs(t, err, &ieee)
	_, err = CheckIn(Arithmetic{FlushesSubnormals: true}, b, x, y, before, after)
	require.ErrorAs(t, err, &flushing)
	require.InEpsilon(t, ieee.Bound, flushing.Bound, 1e-12)
}

// Without a product, alpha does not affect the bound either.
func TestBoundWithoutProducts(t *testing.T) {
	for _, alpha := range []float32{float32(math.NaN()), float32(math.Inf(1)), 0x1p127} {
		b := planner.Batch{{M: 1, N: 1, Alpha: planner.Scale(float64(alpha)), Beta: 0.7,
			C: planner.Matrix{LD: 1}}}
		c := float32(3)
		_, err := Check(b, nil, nil, []float32{c}, []float32{0.7 * c})
		require.NoError(t, err)
		_, err = Check(b, nil, nil, []float32{c}, []float32{2})
		require.Error(t, err)
	}
}
