package element_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/invalid"
	. "github.com/batchgemm/batchgemm/planner/element"
)

func TestNames(t *testing.T) {
	for _, x := range append(elemtype.TypesA(), elemtype.Types4()...) {
		var got Type
		err := got.UnmarshalText([]byte(x.String()))
		require.NoError(t, err)
		require.Equal(t, x, got)
		text, err := json.Marshal(x)
		require.NoError(t, err)
		var back Type
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, x, back)
	}
	var none Type
	err := none.UnmarshalText(nil)
	require.NoError(t, err)
	require.Equal(t, F32, none)
	err = none.UnmarshalText([]byte("fp8"))
	require.ErrorIs(t, err, invalid.Err)
	require.EqualError(t, err,
		`unknown element type "fp8" (known: f32, bf16, f16, e4m3, int8, int4, mxfp4, nvfp4, f64)`)
	_, err = json.Marshal(Type(9))
	require.Error(t, err)
	require.Equal(t, "unknown", Type(9).String())
}

func TestShow(t *testing.T) {
	require.Equal(t, "bf16, C of f32", elemtype.Show(BF16, F32, F32))
	require.Equal(t, "bf16, C of bf16", elemtype.Show(BF16, BF16, BF16))
	require.Equal(t, "f16, B of int4, C of f32", elemtype.Show(F16, Int4, F32))
}

// value is the value of bits by the definition of the types, in float64.
func value(of Type, bits uint16) float64 {
	fraction, least := 7, -126
	if of == F16 {
		fraction, least = 10, -14
	}
	exponent, mantissa := int(bits&0x7fff)>>fraction, float64(int(bits)&(1<<fraction-1))
	sign := 1 - 2*float64(bits>>15)
	switch exponent {
	case 1<<(15-fraction) - 1:
		if mantissa > 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	case 0:
		return sign * math.Ldexp(mantissa, least-fraction)
	}
	return sign * math.Ldexp(mantissa+math.Ldexp(1, fraction), exponent-1+least-fraction)
}

// All bits have the value of the definition, and numbers that have bits keep them.
func TestEveryNumber(t *testing.T) {
	for _, of := range []Type{BF16, F16} {
		seen := map[uint32]bool{}
		for i := range 1 << 16 {
			bits := uint16(i)
			got, want := elemtype.Float(of, bits), value(of, bits)
			require.False(t, seen[math.Float32bits(got)], "%s %#x", of, bits)
			seen[math.Float32bits(got)] = true
			if math.IsNaN(want) {
				require.True(t, math.IsNaN(float64(got)), "%s %#x", of, bits)
				back := elemtype.Bits(of, got)
				require.True(t, math.IsNaN(float64(elemtype.Float(of, back))), "%s %#x", of, bits)
				require.Equal(t, bits>>15, back>>15, "%s %#x", of, bits)
				continue
			}
			require.Equal(t, math.Float64bits(want), math.Float64bits(float64(got)), "%s %#x", of, bits)
			require.Equal(t, bits, elemtype.Bits(of, got), "%s %#x", of, bits)
		}
	}
}

// A number between two values goes to the nearer one, and from their middle to the even one.
func TestRounding(t *testing.T) {
	for _, of := range []Type{BF16, F16} {
		infinite := elemtype.Bits(of, float32(math.Inf(1)))
		for low := uint16(0); low < infinite; low++ {
			high := low + 1
			above := value(of, high)
			if high == infinite {
				above = 2*value(of, low) - value(of, low-1) // the same distance again
			}
			middle := float32((value(of, low) + above) / 2)
			even := low + low&1
			for sign := range uint16(2) {
				flip := float32(1 - 2*int(sign))
				bits := func(x float32) uint16 { return elemtype.Bits(of, flip*x) }
				require.Equal(t, sign<<15|even, bits(middle), "%s between %#x and the next", of, low)
				require.Equal(t, sign<<15|low, bits(math.Nextafter32(middle, 0)), "%s after %#x", of, low)
				require.Equal(t, sign<<15|high, bits(math.Nextafter32(middle, float32(math.Inf(1)))),
					"%s before %#x", of, high)
			}
		}
		require.Equal(t, infinite, elemtype.Bits(of, math.MaxFloat32))
		require.Equal(t, infinite, elemtype.Bits(of, float32(elemtype.Overflow(of))))
		require.Equal(t, infinite-1, elemtype.Bits(of, math.Nextafter32(float32(elemtype.Overflow(of)), 0)))
	}
}

func TestFacts(t *testing.T) {
	for _, c := range []struct {
		of         Type
		bytes      int
		unit, tiny float64
	}{{F32, 4, 0x1p-24, 0x1p-149}, {BF16, 2, 0x1p-8, 0x1p-133}, {F16, 2, 0x1p-11, 0x1p-24},
		{E4M3, 1, 0x1p-4, 0x1p-9}, {Int8, 1, 0x1p-8, 1}, {F64, 8, 0x1p-53, 0x1p-1074}} {
		require.Equal(t, c.bytes, c.of.Bytes())
		require.Equal(t, c.unit, elemtype.Unit(c.of))
		require.Equal(t, c.tiny, elemtype.Tiny(c.of))
		require.True(t, elemtype.Known(c.of))
	}
	require.Equal(t, 65520.0, elemtype.Overflow(F16))
	require.Equal(t, math.Inf(1), elemtype.Overflow(E4M3))
	require.Equal(t, math.Inf(1), elemtype.Overflow(Int8))
	require.False(t, elemtype.Known(F64+1))
	require.Equal(t, "f32, bf16, f16, e4m3, int8 or f64", elemtype.List(elemtype.TypesA(), " or "))
	require.Equal(t, "f32", elemtype.List(elemtype.TypesC(F32), " or "))
	require.Equal(t, "f64", elemtype.List(elemtype.TypesC(F64), " or "))
	require.Equal(t, "f16 or f32", elemtype.List(elemtype.TypesC(F16), " or "))
	require.Equal(t, "bf16, f16 or f32", elemtype.List(elemtype.TypesC(E4M3), " or "))
	require.Equal(t, "bf16, f16 or f32", elemtype.List(elemtype.TypesC(Int8), " or "))
	for _, x := range elemtype.TypesA() {
		require.Equal(t, x == E4M3 || x == Int8, elemtype.Scaled(x), x)
		require.Equal(t, x == Int8, elemtype.Whole(x), x)
	}
}

func TestSlices(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	for _, of := range []Type{BF16, F16} {
		bits, numbers, back := make([]uint16, 1000), make([]float32, 1000), make([]uint16, 1000)
		for i := range bits {
			numbers[i] = float32(rng.NormFloat64()) * 1000
		}
		Narrow(of, bits, numbers)
		Widen(of, numbers, bits)
		Narrow(of, back, numbers)
		require.Equal(t, bits, back)
		for i := range bits {
			require.Equal(t, elemtype.Float(of, bits[i]), numbers[i])
		}
	}
}
