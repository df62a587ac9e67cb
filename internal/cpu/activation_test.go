package cpu

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
)

func TestExp(t *testing.T) {
	for i := range 1 << 20 {
		x := float32(i-1<<19) * (87.0 / (1 << 19))
		want := math.Exp(float64(x))
		unit := math.Max(math.Ldexp(1, math.Ilogb(want)-23), 0x1p-149)
		if got := exp(x); math.Abs(float64(got)-want) > (2+2*math.Abs(float64(x)))*unit {
			t.Fatalf("exp(%v) = %v, want %v", x, got, want)
		}
	}
	require.True(t, math.IsNaN(float64(exp(float32(math.NaN())))))
}

func TestActivate(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, tc := range []struct {
		by      encoding.Activation
		v, want []float32
	}{
		{"", []float32{-1, 2, -inf}, []float32{-1, 2, -inf}},
		{encoding.ReLU, []float32{-1, 2, 0, -inf, inf, -0x1p-149}, []float32{0, 2, 0, 0, inf, 0}},
		{encoding.SiLU, []float32{0, -inf, inf, -100, 100, -3e38}, []float32{0, 0, inf, 0, 100, 0}},
		{encoding.GELU, []float32{0, -inf, inf, -20, 20, -3e38, 3e38}, []float32{0, 0, inf, 0, 20, 0, 3e38}},
	} {
		activate(tc.by, tc.v)
		require.Equal(t, tc.want, tc.v, "%q", tc.by)
		number := []float32{nan, float32(math.Copysign(float64(nan), -1))}
		activate(tc.by, number)
		for _, x := range number {
			require.True(t, math.IsNaN(float64(x)), "%q of NaN", tc.by)
		}
	}
}

// TestActivateWhole: whole vectors give the bits of single numbers.
func TestActivateWhole(t *testing.T) {
	v := make([]float32, 1<<16)
	for i := range v {
		v[i] = math.Float32frombits(uint32(i)<<16 | uint32(i)*0x9e37&0xffff)
	}
	for _, by := range []encoding.Activation{encoding.SiLU, encoding.GELU} {
		all := slices.Clone(v)
		activate(by, all)
		for i, x := range v {
			one := []float32{x}
			activate(by, one)
			if one[0] == one[0] || all[i] == all[i] {
				require.Equal(t, math.Float32bits(one[0]), math.Float32bits(all[i]), "%s of %v", by, x)
			}
		}
	}
}

// BenchmarkActivate times a row of a tile.
func BenchmarkActivate(b *testing.B) {
	from, v := make([]float32, maxSide), make([]float32, maxSide)
	for i := range from {
		from[i] = float32(math.Sin(float64(i * i)))
	}
	for _, by := range []encoding.Activation{encoding.ReLU, encoding.SiLU, encoding.GELU} {
		b.Run(string(by), func(b *testing.B) {
			for b.Loop() {
				copy(v, from)
				activate(by, v)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/maxSide, "ns/number")
		})
	}
}
