// Package elemtype has properties of element types that only the library needs.
package elemtype

import (
	"math"

	"github.com/batchgemm/batchgemm/planner/element"
)

// precision determines rounding errors.
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
	element.Int8: {8, 7, 7}, // as if only -128 were normal: below it numbers are 1 apart
	element.Int4: {4, 3, 3}, element.MXFP4: {2, 0, 2}, element.NVFP4: {2, 0, 2},
	element.F64: {53, -1022, 1023},
}

// Unit returns the largest relative error of rounding to a normal number: half of the distance between 1 and
// the next number.
func Unit(t element.Type) float64 { return math.Ldexp(1, -table[t].mantissa) }

// Tiny returns the distance between subnormal numbers.
func Tiny(t element.Type) float64 { return math.Ldexp(1, table[t].least-table[t].mantissa+1) }

// Overflow returns the least number that rounds to infinity. 8-bit types have none.
func Overflow(t element.Type) float64 {
	if t.Bytes() == 1 {
		return math.Inf(1)
	}
	return math.Ldexp(2-Unit(t), table[t].most)
}

// Scaled reports whether elements of A and B may have scales of rows, columns or tensors: only 8-bit
// elements may.
func Scaled(t element.Type) bool { return t.Bytes() == 1 }

// Known reports whether t is a valid type.
func Known(t element.Type) bool { return int(t) < len(table) }

// Whole reports whether the type has only integers, without NaN, infinities, subnormals and -0. Products of
// two integers are exact in fp32. So are sums while the sum of magnitudes stays within 2^24: for Int8 always
// up to 1024 products.
func Whole(t element.Type) bool { return t == element.Int8 }

// Float returns the number that bits of a 16-bit or 8-bit type represent, as element.Widen has it.
func Float(t element.Type, bits uint16) float32 {
	var number [1]float32
	element.Widen(t, number[:], []uint16{bits})
	return number[0]
}

// Bits returns the bits of a 16-bit or 8-bit type that are nearest to a number, as element.Narrow has them.
func Bits(t element.Type, number float32) uint16 {
	var bits [1]uint16
	element.Narrow(t, bits[:], []float32{number})
	return bits[0]
}

// TypesA lists the types that A may have: all but those of 4 bits.
func TypesA() []element.Type {
	return []element.Type{element.F32, element.BF16, element.F16, element.E4M3, element.Int8, element.F64}
}

// TypesC lists the types that C may have if A and B, or only A, have this type. The usual one is first.
func TypesC(t element.Type) []element.Type {
	switch t {
	case element.F32, element.F64:
		return []element.Type{t}
	case element.E4M3, element.Int8:
		return []element.Type{element.BF16, element.F16, element.F32}
	case element.Int4, element.MXFP4, element.NVFP4:
		return nil
	}
	return []element.Type{t, element.F32}
}

// Line returns the number of elements in 16 bytes.
func Line(t element.Type) int { return PerBytes(t, 16) }

// PerBytes returns the number of elements in that many bytes, a multiple of 8.
func PerBytes(t element.Type, bytes int) int { return 2 * bytes / t.Size(2) }

// Words returns how many 32-bit words n elements take.
func Words(t element.Type, n int) int {
	switch per := t.PerWord(); {
	case per == 0:
		return 2 * n
	case n%per > 0:
		return n/per + 1
	default:
		return n / per
	}
}

// Sums returns the type in which products of elements of a type are summed, and scaled by alpha and beta.
func Sums(t element.Type) element.Type {
	if t == element.F64 {
		return t
	}
	return element.F32
}

// List joins the names of types, with last, such as " or ", before the last one.
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

// Show returns the types of A, B and C as text. b may be element.F32 if B has the type of A.
func Show(a, b, c element.Type) string {
	if b == element.F32 || b == a {
		return a.String() + ", C of " + c.String()
	}
	return a.String() + ", B of " + b.String() + ", C of " + c.String()
}
