package element

import (
	"fmt"
	"math"

	"github.com/batchgemm/batchgemm/internal/invalid"
)

// Int4Panel is the number of k that lie together in B of 4 bits. A matrix of K x N elements with leading
// dimension ld, a multiple of 8, is a sequence of panels of 64 k. In a panel, each column j has 8 words of 8
// k: word k/64*8*ld + 8*j + k%64/8. Within a word, the two elements of a pair that tensor cores take are 16
// bits apart:
//
//	bits  31..28  27..24  23..20  19..16  15..12  11..8  7..4  3..0
//	k        7       5       3       1       6      4      2     0
//
// Elements of Int4 are integers from 0 to 15. Each group of 64 or 128 k of a column has a word of its own.
// Its upper 28 bits are those of an fp32 scale, its lower 4 bits a zero point. An element q represents scale
// * (q - zero). Scales of bf16 and fp16 are exact there; others keep 20 significant bits.
const Int4Panel = 64

// places are the shifts of the eight elements of a word.
var places = [8]int{0, 16, 4, 20, 8, 24, 12, 28}

// Int4LD returns the least leading dimension of n columns.
func Int4LD(n int) int { return (n + 7) / 8 * 8 }

// PackInt4 packs B. numbers has n*k elements from 0 to 15, whose lower 4 bits count: the k numbers of column
// 0, then those of column 1, like layer weights with a row for each output. words receives k*Int4LD(n)/8
// words, a B with leading dimension Int4LD(n). Missing columns are zero. k must be a multiple of Int4Panel;
// n and k may be 0. Wrong sizes and short slices panic before anything is written, as in the functions
// below.
func PackInt4(words []uint32, numbers []uint8, n, k int) {
	words, numbers = words[:int4Words(n, k):len(words)], numbers[:n*k:len(numbers)]
	clear(words)
	eachWord(n, k, func(word, column, first int) {
		for i, x := range numbers[column*k+first:][:8] {
			words[word] |= uint32(x&15) << places[i]
		}
	})
}

// UnpackInt4 inverts PackInt4.
func UnpackInt4(numbers []uint8, words []uint32, n, k int) {
	words, numbers = words[:int4Words(n, k):len(words)], numbers[:n*k:len(numbers)]
	eachWord(n, k, func(word, column, first int) {
		for i, at := range places {
			numbers[column*k+first+i] = uint8(words[word] >> at & 15)
		}
	})
}

// int4Words returns the number of words of a B of n columns.
func int4Words(n, k int) int {
	if n < 0 || k < 0 || k%Int4Panel != 0 {
		panic(fmt.Sprintf("element: n is %d and k %d: neither may be negative, and k is a multiple of %d", n,
			k, Int4Panel))
	}
	return k / 8 * Int4LD(n)
}

// eachWord calls a function for each word of a B, with its column and first k.
func eachWord(n, k int, of func(word, column, first int)) {
	for first := 0; first < k; first += 8 {
		for column := range n {
			of(first/Int4Panel*8*Int4LD(n)+8*column+first%Int4Panel/8, column, first)
		}
	}
}

// GroupWord returns the word of a group with a scale, rounded to 20 significant bits, and a zero point,
// whose lower 4 bits count. The zero point is 8 if numbers from -8 to 7 were stored with 8 added.
func GroupWord(scale float32, zero int) uint32 {
	bits := math.Float32bits(scale)
	if scale != scale {
		bits = 0x7fc00000
	} else if bits&0x7fffffff < 0x7f800000-8 { // otherwise it would round to infinity
		bits += 7 + bits>>4&1
	}
	return bits&^15 | uint32(zero)&15
}

// GroupOf returns the scale and the zero point of a group's word.
func GroupOf(word uint32) (scale float32, zero int) {
	return math.Float32frombits(word &^ 15), int(word & 15)
}

// QuantizeInt4 quantizes n x k numbers to a B, laid out as by PackInt4, and the words of its groups, k/group
// rows of Int4LD(n). Each group has the zero point 8. Its scale maps the number of largest magnitude to -8
// or 7, whichever has the smaller squared error. k must be a multiple of the group. NaN and infinities are
// an error that names row and column; nothing is written then.
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

// quantize4 quantizes a group, and returns its word.
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

// symmetric returns the scales that map the number of largest magnitude to 7 or to -8.
func symmetric(numbers []float32) [2]float32 {
	most := float32(0)
	for _, x := range numbers {
		if math.Abs(float64(x)) > math.Abs(float64(most)) {
			most = x
		}
	}
	return [2]float32{float32(math.Abs(float64(most))) / 7, -most / 8}
}

// nearest4 returns the integer from -8 to 7 that is nearest to x/scale; 0 if scale is 0.
func nearest4(x, scale float32) int {
	if scale == 0 || x != x {
		return 0
	}
	return int(min(max(math.RoundToEven(float64(x)/float64(scale)), -8), 7))
}
