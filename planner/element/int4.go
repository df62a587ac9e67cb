package element

import "math"

// Int4 weights are whole numbers from 0 to 15, eight a word of 32 bits, along K:
//
//	bits  31..28  27..24  23..20  19..16  15..12  11..8  7..4  3..0
//	k        7       5       3       1       6      4      2     0
//
// so that the two of a pair that tensor cores take are 16 bits apart. Each group of 64 or 128 k's of a column has a word
// beside, of which the upper 28 bits are those of a scale in fp32, and the lower 4 a zero point; the number that a weight q
// stands for is scale * (q - zero). Scales of bf16 and fp16 lose nothing there; others keep 20 bits.

// places are the shifts of the eight numbers of a word.
var places = [8]int{0, 16, 4, 20, 8, 24, 12, 28}

// PackInt4 packs numbers from 0 to 15, of which the lower 4 bits are taken, into words of eight: len(words) is at least
// len(numbers)/8, and numbers behind the last whole eight are left.
func PackInt4(words []uint32, numbers []uint8) {
	for i := range len(numbers) / 8 {
		word := uint32(0)
		for j, x := range numbers[8*i:][:8] {
			word |= uint32(x&15) << places[j]
		}
		words[i] = word
	}
}

// UnpackInt4 takes eight numbers out of each word: len(numbers) is at least 8*len(words).
func UnpackInt4(numbers []uint8, words []uint32) {
	for i, word := range words {
		for j, at := range places {
			numbers[8*i+j] = uint8(word >> at & 15)
		}
	}
}

// GroupWord is the word of a group with a scale, rounded to 20 bits, and a zero point, of which the lower 4 bits are taken:
// 8 where numbers from -8 to 7 were made larger by that.
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

// QuantizeInt4 makes packed weights and the words of groups of rows of numbers: of rows of k numbers, a multiple of the
// group, each group has the zero point 8 and the scale that makes its largest number -8 or 7, whichever errs less in sum of
// squares. len(words) is len(numbers)/8, len(groups) len(numbers)/group.
func QuantizeInt4(words, groups []uint32, numbers []float32, group int) {
	packed := make([]uint8, group)
	for i := range groups {
		part := numbers[i*group:][:group]
		least, error := float32(0), math.Inf(1)
		for _, scale := range symmetric(part) {
			scale, _ = GroupOf(GroupWord(scale, 8))
			sum := 0.0
			for _, x := range part {
				d := float64(x) - float64(scale)*float64(nearest4(x, scale))
				sum += d * d
			}
			if sum < error {
				least, error = scale, sum
			}
		}
		for j, x := range part {
			packed[j] = uint8(nearest4(x, least) + 8)
		}
		groups[i] = GroupWord(least, 8)
		PackInt4(words[i*group/8:], packed)
	}
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

// WidenInt4 makes numbers of words of one group.
func WidenInt4(dst []float32, words []uint32, group uint32) {
	scale, zero := GroupOf(group)
	for i, word := range words {
		to := dst[8*i:][:8]
		for j, at := range places {
			to[j] = scale * float32(int(word>>at&15)-zero)
		}
	}
}
