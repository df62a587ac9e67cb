package element

import (
	"fmt"
	"math"

	"github.com/batchgemm/batchgemm/internal/invalid"
)

// Int4Panel is the k's of B that lie together: a matrix of K x N elements of Int4 with a leading dimension
// ld, a multiple of 8, is panels of 64 k's, one after the other, in which each column j has 8 words of 8
// k's: word k/64*8*ld + 8*j + k%64/8. In a word the two of a pair that tensor cores take are 16 bits apart:
//
//	bits  31..28  27..24  23..20  19..16  15..12  11..8  7..4  3..0
//	k        7       5       3       1       6      4      2     0
//
// Elements are whole numbers from 0 to 15. Each group of 64 or 128 k's of a column has a word beside, of
// which the upper 28 bits are those of a scale in fp32, and the lower 4 a zero point; the number that an
// element q stands for is scale * (q - zero). Scales of bf16 and fp16 lose nothing there; others keep 20
// bits.
const Int4Panel = 64

// places are the shifts of the eight numbers of a word.
var places = [8]int{0, 16, 4, 20, 8, 24, 12, 28}

// Int4LD is the least leading dimension of n columns.
func Int4LD(n int) int { return (n + 7) / 8 * 8 }

// PackInt4 lays out B of which the k numbers of each column follow those of the one before, as weights of a
// layer have a row for each output: n*k numbers from 0 to 15, of which the lower 4 bits are taken, become the
// k*Int4LD(n)/8 words of a B with that leading dimension. Columns that do not exist are of zeros. k is a
// multiple of Int4Panel. n and k may be 0; what is wrong with sizes, or slices that are too short, is a panic
// before anything is written, here and below.
func PackInt4(words []uint32, numbers []uint8, n, k int) {
	words, numbers = words[:int4Words(n, k):len(words)], numbers[:n*k:len(numbers)]
	clear(words)
	eachWord(n, k, func(word, column, first int) {
		for i, x := range numbers[column*k+first:][:8] {
			words[word] |= uint32(x&15) << places[i]
		}
	})
}

// UnpackInt4 is what PackInt4 took.
func UnpackInt4(numbers []uint8, words []uint32, n, k int) {
	words, numbers = words[:int4Words(n, k):len(words)], numbers[:n*k:len(numbers)]
	eachWord(n, k, func(word, column, first int) {
		for i, at := range places {
			numbers[column*k+first+i] = uint8(words[word] >> at & 15)
		}
	})
}

// int4Words is the words of a B of n columns.
func int4Words(n, k int) int {
	if n < 0 || k < 0 || k%Int4Panel != 0 {
		panic(fmt.Sprintf("element: n is %d and k %d: neither may be negative, and k is a multiple of %d", n,
			k, Int4Panel))
	}
	return k / 8 * Int4LD(n)
}

// eachWord calls for each word of a B with its column and first k.
func eachWord(n, k int, of func(word, column, first int)) {
	for first := 0; first < k; first += 8 {
		for column := range n {
			of(first/Int4Panel*8*Int4LD(n)+8*column+first%Int4Panel/8, column, first)
		}
	}
}

// GroupWord is the word of a group with a scale, rounded to 20 bits, and a zero point, of which the lower 4
// bits are taken: 8 where numbers from -8 to 7 were made larger by that.
func GroupWord(scale float32, zero int) uint32 {
	bits := math.Float32bits(scale)
	if scale != scale {
		bits = 0x7fc00000
	} else if bits&0x7fffffff < 0x7f800000-8 { // else it would round to infinity
		bits += 7 + bits>>4&1
	}
	return bits&^15 | uint32(zero)&15
}

// GroupOf is the scale and the zero point of a group's word.
func GroupOf(word uint32) (scale float32, zero int) {
	return math.Float32frombits(word &^ 15), int(word & 15)
}

// QuantizeInt4 makes a B, as PackInt4 does, and the words of its groups, k/group rows of Int4LD(n), of
// numbers: each group has the zero point 8 and the scale that makes its largest number -8 or 7, whichever
// errs less in sum of squares. k is a multiple of the group. NaN and infinities are an error that names row
// and column of the n x k numbers, before anything is written.
func QuantizeInt4(words, groups []uint32, numbers []float32, n, k, group int) error {
	words = words[:int4Words(n, k):len(words)]
	if group < 1 || k%group != 0 {
		panic(fmt.Sprintf("element: groups of %d, of which k %d is no multiple", group, k))
	}
	groups, numbers = groups[:k/group*Int4LD(n):len(groups)], numbers[:n*k:len(numbers)]
	for i, x := range numbers[:n*k] {
		if x-x != 0 {
			return invalid.Errorf("row %d, column %d is %g, for which %s has no number", i/k, i%k, x, Int4)
		}
	}
	clear(groups)
	packed := make([]uint8, n*k)
	for column := range n {
		for first := 0; first < k; first += group {
			at := column*k + first
			groups[first/group*Int4LD(n)+column] = quantize4(packed[at:][:group], numbers[at:][:group])
		}
	}
	PackInt4(words, packed, n, k)
	return nil
}

// quantize4 makes elements of a group, and returns its word.
func quantize4(elements []uint8, numbers []float32) (word uint32) {
	least := math.Inf(1)
	for _, by := range symmetric(numbers) {
		with := GroupWord(by, 8)
		scale, _ := GroupOf(with)
		sum := 0.0
		for _, x := range numbers {
			d := float64(x) - float64(scale)*float64(nearest4(x, scale))
			sum += d * d
		}
		if sum < least {
			least, word = sum, with
		}
	}
	scale, _ := GroupOf(word)
	for i, x := range numbers {
		elements[i] = uint8(nearest4(x, scale) + 8)
	}
	return word
}

// symmetric are the scales by which the number of largest size becomes 7 or -8.
func symmetric(numbers []float32) [2]float32 {
	most := float32(0)
	for _, x := range numbers {
		if math.Abs(float64(x)) > math.Abs(float64(most)) {
			most = x
		}
	}
	return [2]float32{float32(math.Abs(float64(most))) / 7, -most / 8}
}

// nearest4 is the number from -8 to 7 that is nearest to x in terms of a scale; 0 where that is 0.
func nearest4(x, scale float32) int {
	if scale == 0 || x != x {
		return 0
	}
	return int(min(max(math.RoundToEven(float64(x)/float64(scale)), -8), 7))
}
