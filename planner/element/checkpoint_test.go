package element_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/invalid"
	. "github.com/batchgemm/batchgemm/planner/element"
)

// stored returns qweight and qzeros, word by word, as AutoAWQ and AutoGPTQ store weights [k][n] and zero
// points [k/group][n].
func stored(format string, weights, zeros [][]uint32) (qweight, qzeros []uint32) {
	order := []int{0, 1, 2, 3, 4, 5, 6, 7}
	if format == "awq" {
		order = []int{0, 2, 4, 6, 1, 3, 5, 7} // AutoAWQ's order_map
	}
	pack := func(of func(i int) uint32) (word uint32) {
		for i, from := range order {
			word |= of(from) << (4 * i)
		}
		return word
	}
	byColumns := func(x [][]uint32, less uint32) (words []uint32) {
		for _, row := range x {
			for c := 0; c < len(row); c += 8 {
				words = append(words, pack(func(i int) uint32 { return row[c+i] - less }))
			}
		}
		return words
	}
	if format == "awq" {
		return byColumns(weights, 0), byColumns(zeros, 0)
	}
	for k := 0; k < len(weights); k += 8 {
		for c := range weights[k] {
			qweight = append(qweight, pack(func(i int) uint32 { return weights[k+i][c] }))
		}
	}
	less := map[string]uint32{"gptq": 1}[format]
	return qweight, byColumns(zeros, less)
}

func TestCheckpoints(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	draw := func(rows, n, least int) [][]uint32 {
		x := make([][]uint32, rows)
		for i := range x {
			x[i] = make([]uint32, n)
			for j := range x[i] {
				x[i][j] = uint32(least + rng.IntN(16-least))
			}
		}
		return x
	}
	for _, format := range []string{"awq", "gptq", "gptq_v2"} {
		for _, c := range []struct{ n, k, group int }{{8, 64, 64}, {24, 128, 128}, {16, 384, 64},
			{0, 128, 64}, {8, 0, 64}} {
			t.Run(fmt.Sprintf("%s/%dx%d/%d", format, c.n, c.k, c.group), func(t *testing.T) {
				weights, zeros := draw(c.k, c.n, 0), draw(c.k/c.group, c.n, 1)
				qweight, qzeros := stored(format, weights, zeros)
				scales := make([]float32, len(zeros)*c.n)
				numbers, wantWords := make([]uint8, c.n*c.k), make([]uint32, c.n*c.k/8)
				var wantGroups []uint32
				for i := range scales {
					scales[i] = Nearest[Float16](rng.Float32()).Float32()
					wantGroups = append(wantGroups, GroupWord(scales[i], int(zeros[i/c.n][i%c.n])))
				}
				for i := range numbers {
					numbers[i] = uint8(weights[i%c.k][i/c.k])
				}
				PackInt4(wantWords, numbers, c.n, c.k)
				const canary = 0xabcdef01
				words, groups := canaries(len(wantWords), canary), canaries(len(scales), canary)
				require.NoError(t, PackCheckpoint(format, words, groups, qweight, qzeros, scales, c.n, c.k,
					c.group))
				require.Equal(t, append(wantWords, canary), words)
				require.Equal(t, append(wantGroups, canary), groups)
				backW, backZ := canaries(len(qweight), canary), canaries(len(qzeros), canary)
				backS := append(make([]float32, len(scales)), -9)
				require.NoError(t, UnpackCheckpoint(format, backW, backZ, backS, words, groups, c.n, c.k,
					c.group))
				require.Equal(t, append(qweight, canary), backW)
				require.Equal(t, append(qzeros, canary), backZ)
				require.Equal(t, append(scales, -9), backS)
			})
		}
	}
}

// canaries returns n words and one more.
func canaries(n int, word uint32) []uint32 {
	x := make([]uint32, n+1)
	for i := range x {
		x[i] = word
	}
	return x
}

// What is refused writes nothing.
func TestCheckpointsRefuse(t *testing.T) {
	high := []uint32{0x0f000000} // the zero point of column 6 is 15, or 15 stored less 1
	for _, c := range []struct {
		name, format, err string
		n, k, group       int
	}{
		{"format", "int4", `format "int4": must be awq, gptq or gptq_v2`, 8, 64, 64},
		{"group", "awq", "group 32: must be 64 or 128", 8, 64, 32},
		{"columns", "gptq", "n 12 is no multiple of 8", 12, 64, 64},
		{"no columns", "gptq", "n -8 is no multiple of 8", -8, 64, 64},
		{"depth", "gptq_v2", "k 64 is no multiple of 128, the group", 8, 64, 128},
		{"zero point", "gptq", "gptq: the zero point of group 0, column 6 is 16", 8, 64, 64},
	} {
		t.Run(c.name, func(t *testing.T) {
			words, groups := canaries(64, 7), canaries(8, 7)
			err := PackCheckpoint(c.format, words, groups, make([]uint32, 64), high, make([]float32, 8), c.n,
				c.k, c.group)
			require.ErrorIs(t, err, invalid.Err)
			require.ErrorContains(t, err, c.err)
			require.Equal(t, canaries(64, 7), words)
			require.Equal(t, canaries(8, 7), groups)
			err = UnpackCheckpoint(c.format, words, groups, make([]float32, 8), words, make([]uint32, 8), c.n,
				c.k, c.group)
			require.ErrorIs(t, err, invalid.Err)
			require.Equal(t, canaries(64, 7), words)
		})
	}
	err := UnpackCheckpoint("gptq", make([]uint32, 64), make([]uint32, 1), make([]float32, 8),
		make([]uint32, 64), []uint32{1, 1, 1, 0x3f800000, 1, 1, 1, 1}, 8, 64, 64)
	require.ErrorContains(t, err, "gptq: the zero point of group 0, column 3 is 0, which it cannot store")
	words := canaries(64, 7)
	require.Panics(t, func() {
		groups := make([]uint32, 7)
		_ = PackCheckpoint("awq", words, groups, make([]uint32, 64), high, make([]float32, 8), 8, 64, 64)
	})
	require.Equal(t, canaries(64, 7), words)
}
