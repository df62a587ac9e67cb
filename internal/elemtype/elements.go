// Package elemtype has what the library itself asks of types of elements.
package elemtype

import (
	"math"

	"github.com/batchgemm/batchgemm/planner/element"
)

// precision is what errors depend on.
type precision struct {
	mantissa int // bits, the leading one included
	least    int // exponent of the least normal number
	most     int // of the largest number
}

var table = [...]precision{
	element.F32:  {24, -126, 127},
	element.BF16: {8, -126, 127},
	element.F16:  {11, -14, 15},
	element.E4M3: {4, -6, 8},
	element.Int8: {8, 7, 7}, // as if -128 alone were normal: below it numbers are 1 apart
	element.Int4: {4, 3, 3},
}

// Unit is the largest relative error of rounding to a normal number: half of the distance
// between 1 and the next number.
func Unit(t element.Type) float64 { return math.Ldexp(1, -table[t].mantissa) }

// Tiny is the distance between numbers below the least normal one.
func Tiny(t element.Type) float64 { return math.Ldexp(1, table[t].least-table[t].mantissa+1) }

// Overflow is the least number that rounds to infinity; types of 8 bits have none.
func Overflow(t element.Type) float64 {
	if t.Bytes() == 1 {
		return math.Inf(1)
	}
	return math.Ldexp(2-Unit(t), table[t].most)
}

// Scaled reports whether elements of A and B may have scales of rows, columns or tensors: those of 8 bits do.
func Scaled(t element.Type) bool { return t.Bytes() == 1 }

// Line is how many elements 16 bytes have.
func Line(t element.Type) int { return 4 * t.PerWord() }

// List names types, with last, such as " or ", in front of the last one.
func List(types []element.Type, last string) string {
	list := types[0].String()
	for i, t := range types[1:] {
		if i == len(types)-2 {
			list += last + t.String()
		} else {
			list += ", " + t.String()
		}
	}
	return list
}

// Show names the types of A, B and C; b may be element.F32 where that of B is a's.
func Show(a, b, c element.Type) string {
	if b == element.F32 || b == a {
		return a.String() + ", C of " + c.String()
	}
	return a.String() + ", B of " + b.String() + ", C of " + c.String()
}
