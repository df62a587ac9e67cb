package element

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// valueE4M3 is the value of bits by OCP's definition (OFP8, table 1), in float64.
func valueE4M3(bits uint8) float64 {
	exponent, fraction := int(bits>>3&0xf), float64(bits&7)
	sign := 1 - 2*float64(bits>>7)
	switch {
	case bits&0x7f == 0x7f:
		return math.NaN()
	case exponent == 0:
		return sign * fraction * 0x1p-9
	}
	return sign * math.Ldexp(1+fraction/8, exponent-7)
}

// All bits have the value of the definition. Numbers that have bits keep them; NaN keeps its sign.
func TestEveryE4M3(t *testing.T) {
	bits, numbers, back := make([]uint8, 256), make([]float32, 256), make([]uint8, 256)
	for i := range bits {
		bits[i] = uint8(i)
	}
	Widen(E4M3, numbers, bits)
	Narrow(E4M3, back, numbers)
	require.Equal(t, bits, back)
	for i, x := range bits {
		want := valueE4M3(x)
		require.Equal(t, math.Float32bits(numbers[i]), math.Float32bits(Float8E4M3(x).Float32()), "%#x", x)
		if math.IsNaN(want) {
			require.True(t, math.IsNaN(float64(numbers[i])), "%#x", x)
			continue
		}
		require.Equal(t, math.Float64bits(want), math.Float64bits(float64(numbers[i])), "%#x", x)
	}
}

func bitsE4M3(x float32) uint16 { return uint16(Nearest[Float8E4M3](x)) }

// A number between two values goes to the nearer one, and from their middle to the even one.
func TestRoundingE4M3(t *testing.T) {
	for low := range uint8(mostE4M3) {
		middle := float32((valueE4M3(low) + valueE4M3(low+1)) / 2)
		for sign := range uint8(2) {
			flip := float32(1 - 2*int(sign))
			require.Equal(t, uint16(sign<<7|(low+low&1)), bitsE4M3(flip*middle), "%#x and the next", low)
			require.Equal(t, uint16(sign<<7|low), bitsE4M3(flip*math.Nextafter32(middle, 0)), "after %#x",
				low)
			require.Equal(t, uint16(sign<<7|(low+1)), bitsE4M3(flip*math.Nextafter32(middle, 1000)),
				"before the one after %#x", low)
		}
	}
}

func TestExtremesOfE4M3(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, tc := range []struct {
		name string
		x    float32
		want uint16
	}{
		{"the largest", 448, 0x7e},
		{"after it", 449, 0x7e},
		{"half of a step after it", 464, 0x7e},
		{"a step after it", 480, 0x7e},
		{"large", 1e30, 0x7e},
		{"the largest of f32", math.MaxFloat32, 0x7e},
		{"infinite", inf, 0x7e},
		{"minus infinite", -inf, 0xfe},
		{"negative", -1e30, 0xfe},
		{"NaN", float32(math.NaN()), 0x7f},
		{"NaN with a sign", math.Float32frombits(0xffc00001), 0xff},
		{"signalling NaN", math.Float32frombits(0x7f800001), 0x7f},
		{"least normal", 0x1p-6, 0x08},
		{"largest subnormal", 0x1.cp-7, 0x07},
		{"between the two", 0x1.ep-7, 0x08},
		{"smallest", 0x1p-9, 0x01},
		{"more than half of it", 0x1.000002p-10, 0x01},
		{"half of it", 0x1p-10, 0},
		{"tiny", -0x1p-149, 0x80},
		{"0", 0, 0},
		{"-0", float32(math.Copysign(0, -1)), 0x80},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, bitsE4M3(tc.x)) })
	}
}

// FuzzE4M3: every number becomes the nearest value, the even one of two, and at most 448.
func FuzzE4M3(f *testing.F) {
	for _, x := range []uint32{0, 1, 1 << 31, 0x7f800000, 0x7fc00000, 0x3a800000, 0x43e00000, 0x43e80000,
		0x3c8fffff} {
		f.Add(x)
	}
	f.Fuzz(func(t *testing.T, bits uint32) {
		x := math.Float32frombits(bits)
		got := bitsE4M3(x)
		require.Less(t, got, uint16(256))
		if x != x {
			require.Equal(t, uint16(nanE4M3), got&0x7f)
			return
		}
		require.Equal(t, math.Signbit(float64(x)), got&0x80 != 0)
		size := min(math.Abs(float64(x)), 448)
		away := func(bits uint16) float64 { return math.Abs(valueE4M3(uint8(bits)) - size) }
		for other := range uint16(nanE4M3) {
			if this := got & 0x7f; other != this {
				require.True(t, away(this) < away(other) || away(this) == away(other) && this%2 == 0,
					"%v became %#x, not %#x", x, got, other)
			}
		}
	})
}
