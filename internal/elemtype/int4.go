package elemtype

import (
	"math"

	"github.com/batchgemm/batchgemm/planner/element"
)

// places are the shifts of the eight elements of a word: see element.Int4Panel.
var places = [8]int{0, 16, 4, 20, 8, 24, 12, 28}

// Numbers4 are the numbers of the 16 elements of a type of 4 bits, before scales and zero points.
func Numbers4(of element.Type) *[16]float32 {
	if of == element.Int4 {
		return &integers4
	}
	return &numbersE2M1
}

var (
	integers4   = [16]float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	numbersE2M1 = [16]float32{0, 0.5, 1, 1.5, 2, 3, 4, 6,
		float32(math.Copysign(0, -1)), -0.5, -1, -1.5, -2, -3, -4, -6}
)

// Groups4 are the scales and the zero point of a panel of a column: of Int4 one, of MXFP4 two, of NVFP4 four.
type Groups4 struct {
	Scales [4]float32
	Zero   float32
}

// Scales4 are the numbers of a byte as a scale; of Int4 those of zero points.
func Scales4(of element.Type) *[256]float32 {
	switch of {
	case element.MXFP4:
		return &e8m0
	case element.NVFP4:
		return &e4m3
	}
	return &bytes
}

// GroupsOf returns those of the panel in that half of the k of a word. column is the scale of the column,
// which NVFP4 has.
func GroupsOf(of element.Type, word uint32, half int, column float32) (g Groups4) {
	switch of {
	case element.MXFP4:
		word >>= 16 * half
		g.Scales[0], g.Scales[1] = e8m0[word&255], e8m0[word>>8&255]
	case element.NVFP4:
		for i := range g.Scales {
			g.Scales[i] = e4m3[word>>(8*i)&255] * column
		}
	default:
		scale, zero := element.GroupOf(word)
		g.Scales[0], g.Zero = scale, float32(zero)
	}
	return g
}

// e8m0 and e4m3 are the numbers of scales of MXFP4 and NVFP4, bytes those of bytes.
var (
	e8m0 = table256(func(i int) float32 {
		if i == 255 {
			return float32(math.NaN())
		}
		return float32(math.Ldexp(1, i-127))
	})
	e4m3  = table256(func(i int) float32 { return Float(element.E4M3, uint16(i)) })
	bytes = table256(func(i int) float32 { return float32(i) })
)

func table256(number func(int) float32) (all [256]float32) {
	for i := range all {
		all[i] = number(i)
	}
	return all
}

// Widen4 converts the words of a panel of a column to numbers. Each product is rounded once.
func Widen4(of element.Type, dst []float32, words []uint32, g *Groups4) {
	dst = dst[: 8*len(words) : len(dst)]
	each := Words4(of)
	var numbers [16]float32
	for i, word := range words {
		if i%each == 0 {
			for q, x := range Numbers4(of) {
				numbers[q] = g.Scales[i/each] * (x - g.Zero)
			}
		}
		to := dst[8*i:][:8]
		for j, at := range places {
			to[j] = numbers[word>>at&15]
		}
	}
}

// Words4 returns the number of words of a column in a panel that share a scale.
func Words4(of element.Type) int {
	switch of {
	case element.MXFP4:
		return 4
	case element.NVFP4:
		return 2
	}
	return element.Int4Panel / 8
}

// Types4 lists the types of 4 bits, which only B may have.
func Types4() []element.Type { return []element.Type{element.Int4, element.MXFP4, element.NVFP4} }

// Bits4 reports whether a type has 4 bits.
func Bits4(t element.Type) bool { return t.Bytes() == 0 }
