package element

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// All bits have their value in two's complement.
func TestEveryInt8(t *testing.T) {
	bits, numbers, back := make([]uint8, 256), make([]float32, 256), make([]uint8, 256)
	for i := range bits {
		bits[i] = uint8(i)
	}
	Widen(Int8, numbers, bits)
	Narrow(Int8, back, numbers)
	require.Equal(t, bits, back)
	for i, x := range bits {
		want := float32(i)
		if i >= 128 {
			want -= 256
		}
		require.Equal(t, want, numbers[i], "%#x", x)
		require.Equal(t, int8(x), Nearest[int8](want), "%#x", x)
	}
}

func TestRoundingInt8(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, tc := range []struct {
		name string
		x    float32
		want int8
	}{
		{"0", 0, 0},
		{"-0", float32(math.Copysign(0, -1)), 0},
		{"less than half", math.Nextafter32(0.5, 0), 0},
		{"half", 0.5, 0},
		{"more than half", math.Nextafter32(0.5, 1), 1},
		{"three halves", 1.5, 2},
		{"minus half", -0.5, 0},
		{"minus three halves", -1.5, -2},
		{"tiny", -0x1p-149, 0},
		{"to the largest", 127.49, 127},
		{"between it and the next", 127.5, 127},
		{"too large", 128, 127},
		{"much too large", 1e30, 127},
		{"the largest of f32", math.MaxFloat32, 127},
		{"infinite", inf, 127},
		{"the least", -128, -128},
		{"to the least", -127.5, -128},
		{"not to the least", -127.49, -127},
		{"too small", -129, -128},
		{"much too small", -1e30, -128},
		{"minus infinite", -inf, -128},
		{"NaN", float32(math.NaN()), 0},
		{"NaN with a sign", math.Float32frombits(0xffc00001), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.EqualValues(t, tc.want, Nearest[int8](tc.x))
			var bits [1]uint8
			Narrow(Int8, bits[:], []float32{tc.x})
			require.Equal(t, uint8(tc.want), bits[0])
		})
	}
}

// FuzzInt8: every number becomes the nearest value in range, the even one of two.
func FuzzInt8(f *testing.F) {
	for _, x := range []float32{0, 0.5, -0.5, 2.5, 126.5, 127.5, -127.5, -128.5, 1e30, float32(math.NaN())} {
		f.Add(math.Float32bits(x))
	}
	f.Fuzz(func(t *testing.T, bits uint32) {
		x, want := float64(math.Float32frombits(bits)), 0.0
		if x == x {
			want = math.RoundToEven(min(max(x, -128), 127))
		}
		require.Equal(t, int8(want), Nearest[int8](float32(x)), "%v", x)
	})
}

func TestSumColumns(t *testing.T) {
	b := []int8{1, 2, 3, 99, -128, 127, 5, 99} // rows of 3, 4 apart
	sums := []int32{7, 7, 7}
	SumColumns(sums, b, 2, 4, false)
	require.Equal(t, []int32{-127, 129, 8}, sums)
	SumColumns(sums[:2], b, 3, 4, true)
	require.Equal(t, []int32{6, 4}, sums[:2])
	SumColumns(nil, nil, 2, 4, false)
	SumColumns(nil, nil, 2, 4, true)
	SumColumns(sums, nil, 0, 0, true)
	require.Equal(t, []int32{0, 0, 0}, sums)
	SumColumns(nil, nil, 2, 1, false)
	SumColumns(nil, nil, 2, 2, true)
	b = make([]int8, 131071)
	for i := range b {
		b[i] = -128
	}
	SumColumns(sums[:1], b, len(b), 1, false)
	require.EqualValues(t, float32(sums[0]), -128*len(b))
}
