package element

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInt4Facts(t *testing.T) {
	require.Equal(t, 0, Int4.Bytes())
	require.Equal(t, 8, Int4.PerWord())
	require.Equal(t, 32, Int4.Line())
	require.Equal(t, []int{0, 1, 1, 2, 4, 5}, []int{Int4.Size(0), Int4.Size(1), Int4.Size(2), Int4.Size(3), Int4.Size(8), Int4.Size(9)})
	require.Equal(t, math.MaxInt/2+1, Int4.Size(math.MaxInt), "no overflow on the way")
	require.Empty(t, Int4.TypesC())
	require.False(t, Int4.Scaled())
}

func TestPackInt4(t *testing.T) {
	words := []uint32{0}
	PackInt4(words, []uint8{0, 1, 2, 3, 4, 5, 6, 7})
	require.Equal(t, []uint32{0x75316420}, words, "pairs of k's are 16 bits apart")
	numbers, back := make([]uint8, 800), make([]uint8, 800)
	for i := range numbers {
		numbers[i] = uint8(i * 7 % 16)
	}
	words = make([]uint32, 100)
	PackInt4(words, numbers)
	UnpackInt4(back, words)
	require.Equal(t, numbers, back)
	words[0] = 0
	PackInt4(words, []uint8{0xf1, 0, 0, 0, 0, 0, 0, 0, 9, 9})
	require.Equal(t, uint32(1), words[0], "the lower 4 bits")
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
		{BF16.Float(0x3eab), 3, BF16.Float(0x3eab)},
		{F16.Float(0x2a55), 3, F16.Float(0x2a55)},
		{F16.Float(1), 3, F16.Float(1)},
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
	const group, n = 64, 40
	numbers := make([]float32, group*n)
	for i := range numbers {
		numbers[i] = float32(rng.NormFloat64())
	}
	clear(numbers[:group])
	words, groups, got := make([]uint32, len(numbers)/8), make([]uint32, n), make([]float32, group)
	QuantizeInt4(words, groups, numbers, group)
	for i, g := range groups {
		scale, zero := GroupOf(g)
		require.Equal(t, 8, zero)
		WidenInt4(got, words[i*group/8:][:group/8], g)
		for j, x := range numbers[i*group:][:group] {
			require.InDelta(t, x, got[j], 1.01*math.Abs(float64(scale))+1e-6)
		}
	}
	for i := range numbers { // what is there already stays
		numbers[i] = 0.25 * float32(rng.IntN(16)-8)
	}
	for i := range n {
		numbers[i*group] = -2
	}
	QuantizeInt4(words, groups, numbers, group)
	for i, g := range groups {
		WidenInt4(got, words[i*group/8:][:group/8], g)
		require.Equal(t, numbers[i*group:][:group], got)
	}
}
