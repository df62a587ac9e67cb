package element_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/invalid"
	. "github.com/batchgemm/batchgemm/planner/element"
)

func TestInt4Facts(t *testing.T) {
	require.Equal(t, 0, Int4.Bytes())
	require.Equal(t, 8, Int4.PerWord())
	require.Equal(t, 32, elemtype.Line(Int4))
	require.Equal(t, []int{0, 1, 1, 2, 4, 5}, []int{Int4.Size(0), Int4.Size(1), Int4.Size(2), Int4.Size(3),
		Int4.Size(8), Int4.Size(9)})
	require.Equal(t, math.MaxInt/2+1, Int4.Size(math.MaxInt), "no overflow on the way")
	require.Empty(t, elemtype.TypesC(Int4))
	require.False(t, elemtype.Scaled(Int4))
}

func TestPackInt4(t *testing.T) {
	numbers := make([]uint8, 64)
	for k := range numbers {
		numbers[k] = uint8(k) & 7
	}
	words := make([]uint32, 64)
	PackInt4(words, numbers, 1, 64)
	require.Equal(t, uint32(0x75316420), words[0], "pairs of k's are 16 bits apart")
	require.Equal(t, words[0], words[7])
	require.Equal(t, make([]uint32, 56), words[8:], "columns that are none")

	const n, k = 11, 192
	numbers, back := make([]uint8, n*k), make([]uint8, n*k)
	for i := range numbers {
		numbers[i] = uint8(i * 7 % 16)
	}
	require.Equal(t, 16, Int4LD(n))
	words = make([]uint32, k*16/8)
	PackInt4(words, numbers, n, k)
	UnpackInt4(back, words, n, k)
	require.Equal(t, numbers, back)
	const j, at = 3, 130 // in the third panel
	require.Equal(t, uint32(numbers[j*k+at]), words[2*8*16+8*j]>>4&15)
	numbers[0] |= 0xf0
	PackInt4(words, numbers, n, k)
	UnpackInt4(back, words, n, k)
	require.Equal(t, numbers[0]&15, back[0], "the lower 4 bits")
}

// Sizes may be 0. Wrong sizes write nothing.
func TestInt4Sizes(t *testing.T) {
	for _, c := range []struct{ n, k int }{{0, 64}, {5, 0}, {0, 0}} {
		PackInt4(nil, nil, c.n, c.k)
		UnpackInt4(nil, nil, c.n, c.k)
		QuantizeInt4(nil, nil, nil, c.n, c.k, 64)
	}
	widenInt4(nil, nil, 0)
	words, groups, numbers, floats := make([]uint32, 64), make([]uint32, 8), make([]uint8, 64),
		make([]float32, 64)
	for i := range numbers {
		words[i], numbers[i], floats[i] = 7, 5, 3
	}
	groups[7] = 9
	for _, c := range []struct {
		name        string
		n, k, group int
	}{
		{"negative columns", -1, 64, 64}, {"negative rows", 1, -64, 64}, {"part of a panel", 1, 32, 32},
		{"several columns", 2, 64, 64},
		{"no group", 1, 64, 0}, {"negative group", 1, 64, -64}, {"part of a group", 1, 64, 48},
		{"longer group", 1, 64, 128},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.group == 64 || c.k == 32 {
				require.Panics(t, func() { PackInt4(words, numbers, c.n, c.k) })
				require.Panics(t, func() { UnpackInt4(numbers, words, c.n, c.k) })
			}
			require.Panics(t, func() { QuantizeInt4(words, groups, floats, c.n, c.k, c.group) })
			require.Equal(t, slices.Repeat([]uint32{7}, 64), words)
			require.Equal(t, slices.Repeat([]uint8{5}, 64), numbers)
			require.Equal(t, []uint32{0, 0, 0, 0, 0, 0, 0, 9}, groups)
		})
	}
	require.Panics(t, func() { PackInt4(words[:63], numbers, 1, 64) })
	require.Panics(t, func() { widenInt4(floats[:15], words[:2], 0) })
	require.Equal(t, uint32(7), words[0])
	require.EqualValues(t, 3, floats[0])
}

// widenInt4 converts words of a column, up to a panel, to numbers.
func widenInt4(dst []float32, words []uint32, group uint32) {
	g := elemtype.GroupsOf(Int4, group, 0, 0)
	elemtype.Widen4(Int4, dst, words, &g)
}

func TestGroupWord(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		scale float32
		zero  int
		want  float32
	}{
		{1, 8, 1},
		{-0.5, 0, -0.5},
		{0, 15, 0},
		{elemtype.Float(BF16, 0x3eab), 3, elemtype.Float(BF16, 0x3eab)},
		{elemtype.Float(F16, 0x2a55), 3, elemtype.Float(F16, 0x2a55)},
		{elemtype.Float(F16, 1), 3, elemtype.Float(F16, 1)},
		{1 + 0x1p-20, 1, 1}, // a tie, to even
		{1 + 0x1p-20 + 0x1p-23, 1, 1 + 0x1p-19},
		{1 + 3*0x1p-20, 1, 1 + 0x1p-18},
		{math.MaxFloat32, 8, math.Float32frombits(0x7f7ffff0)},
		{inf, 8, inf},
		{-inf, 1, -inf},
		{0x1p-149, 8, 0},
		{0x1p-140, 8, 0x1p-140},
	} {
		scale, zero := GroupOf(GroupWord(c.scale, c.zero))
		require.Equal(t, c.want, scale, c)
		require.Equal(t, c.zero, zero, c)
	}
	scale, zero := GroupOf(GroupWord(float32(math.NaN()), 5))
	require.True(t, scale != scale)
	require.Equal(t, 5, zero)
	require.Equal(t, GroupWord(1, 1), GroupWord(1, 17))
}

func TestQuantizeInt4(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	const n, k, group = 5, 256, 128
	numbers := make([]float32, n*k)
	for i := range numbers {
		numbers[i] = float32(rng.NormFloat64())
	}
	clear(numbers[:group])
	words, groups := make([]uint32, k), make([]uint32, k/group*8)
	dequantised := func() []float32 {
		back, elements := make([]float32, n*k), make([]uint8, n*k)
		UnpackInt4(elements, words, n, k)
		for j := range n {
			for i := range k {
				scale, zero := GroupOf(groups[i/group*8+j])
				require.Equal(t, 8, zero)
				back[j*k+i] = scale * float32(int(elements[j*k+i])-zero)
				require.InDelta(t, numbers[j*k+i], back[j*k+i], 1.01*math.Abs(float64(scale))+1e-6)
			}
		}
		return back
	}
	require.NoError(t, QuantizeInt4(words, groups, numbers, n, k, group))
	got := make([]float32, 64)
	widenInt4(got, words[8:][:8], groups[1]) // column 1, the first panel
	require.Equal(t, dequantised()[k:][:64], got)
	require.Zero(t, groups[7], "columns that are none")

	for i := range numbers { // existing content stays
		if numbers[i] = 0.25 * float32(rng.IntN(16)-8); i%group == 0 {
			numbers[i] = -2
		}
	}
	require.NoError(t, QuantizeInt4(words, groups, numbers, n, k, group))
	require.Equal(t, numbers, dequantised())
}

// TestQuantizeInt4Refuses: a number that is not finite is an error, wherever it is, and nothing is written.
func TestQuantizeInt4Refuses(t *testing.T) {
	const n, k, group = 3, 128, 64
	inf := float32(math.Inf(1))
	for _, tc := range []struct {
		name     string
		row, col int
		x        float32
		want     string
	}{
		{"NaN", 0, 0, float32(math.NaN()), "row 0, column 0 is NaN, for which int4 has no number"},
		{"infinite", 1, 70, inf, "row 1, column 70 is +Inf, for which int4 has no number"},
		{"minus infinite, the last", 2, 127, -inf, "row 2, column 127 is -Inf, for which int4 has no number"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			numbers := make([]float32, n*k)
			words, groups := slices.Repeat([]uint32{7}, k/8*Int4LD(n)),
				slices.Repeat([]uint32{7}, k/group*Int4LD(n))
			numbers[tc.row*k+tc.col] = tc.x
			err := QuantizeInt4(words, groups, numbers, n, k, group)
			require.ErrorIs(t, err, invalid.Err)
			require.EqualError(t, err, tc.want)
			require.Equal(t, slices.Repeat([]uint32{7}, len(words)+len(groups)), append(words, groups...))
		})
	}
	large, words, groups := slices.Repeat([]float32{-math.MaxFloat32}, 64), make([]uint32, 64),
		make([]uint32, 8)
	require.NoError(t, QuantizeInt4(words, groups, large, 1, 64, 64), "what is large is finite")
}

// Numbers from -7 to 7 times a scale are exact: mapping the largest to 7 has the smaller error.
func TestQuantizeInt4Symmetric(t *testing.T) {
	const n, k, group = 1, 64, 64
	numbers := make([]float32, n*k)
	for i := range numbers {
		numbers[i] = 0.25 * float32(i%15-7)
	}
	words, groups := make([]uint32, k/8*Int4LD(n)), make([]uint32, k/group*Int4LD(n))
	require.NoError(t, QuantizeInt4(words, groups, numbers, n, k, group))
	scale, zero := GroupOf(groups[0])
	require.Equal(t, float32(0.25), scale)
	elements := make([]uint8, n*k)
	UnpackInt4(elements, words, n, k)
	for i, x := range numbers {
		require.Equal(t, x, scale*float32(int(elements[i])-zero), i)
	}
}
