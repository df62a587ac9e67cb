// Package element lists the types that elements of matrices have.
package element

import (
	"math"

	"github.com/batchgemm/batchgemm/internal/invalid"
)

// Type is the type of a matrix's elements. The zero value is F32.
type Type uint8

const (
	F32  Type = iota // IEEE binary32
	BF16             // the upper half of binary32
	F16              // IEEE binary16
	E4M3             // OCP's 8 bits with 4 of exponent and 3 of fraction, without infinities (e4m3fn): for A and B alone
)

// facts are what tells types apart.
type facts struct {
	name     string
	bytes    int
	mantissa int // bits, the leading one included
	least    int // exponent of the least normal number
	most     int // of the largest number
}

var table = [...]facts{
	F32:  {"f32", 4, 24, -126, 127},
	BF16: {"bf16", 2, 8, -126, 127},
	F16:  {"f16", 2, 11, -14, 15},
	E4M3: {"e4m3", 1, 4, -6, 8},
}

// Types lists all.
func Types() []Type { return []Type{F32, BF16, F16, E4M3} }

// TypesC lists the types that C may have where A and B have this one, the usual one first.
func (t Type) TypesC() []Type {
	switch t {
	case F32:
		return []Type{F32}
	case E4M3:
		return []Type{BF16, F16, F32}
	}
	return []Type{t, F32}
}

// List names types, with last, such as " or ", in front of the last one.
func List(types []Type, last string) string {
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

// Parse reads a name as users write it; "" is F32.
func Parse(name string) (Type, error) {
	if name == "" {
		return F32, nil
	}
	for t := range table {
		if table[t].name == name {
			return Type(t), nil
		}
	}
	return F32, invalid.Errorf("unknown element type %q (known: %s)", name, List(Types(), ", "))
}

// Known reports whether the type is one of Types.
func (t Type) Known() bool { return int(t) < len(table) }

// String is the name.
func (t Type) String() string {
	if !t.Known() {
		return "unknown"
	}
	return table[t].name
}

// MarshalText and UnmarshalText are for JSON, by name.
func (t Type) MarshalText() ([]byte, error) {
	if !t.Known() {
		return nil, invalid.Errorf("unknown element type %d", uint8(t))
	}
	return []byte(t.String()), nil
}

func (t *Type) UnmarshalText(text []byte) (err error) {
	*t, err = Parse(string(text))
	return err
}

// Bytes is the size of an element.
func (t Type) Bytes() int { return table[t].bytes }

// Unit is the largest relative error of rounding to a normal number: half of the distance
// between 1 and the next number.
func (t Type) Unit() float64 { return math.Ldexp(1, -table[t].mantissa) }

// Tiny is the distance between numbers below the least normal one.
func (t Type) Tiny() float64 { return math.Ldexp(1, table[t].least-table[t].mantissa+1) }

// Overflow is the least number that rounds to infinity; E4M3 has none.
func (t Type) Overflow() float64 {
	if t == E4M3 {
		return math.Inf(1)
	}
	return math.Ldexp(2-t.Unit(), table[t].most)
}

// Float is the number that bits of a type of 16 bits, or of 8, stand for. Bits of NaN stay apart.
func (t Type) Float(bits uint16) float32 {
	switch t {
	case BF16:
		return math.Float32frombits(uint32(bits) << 16)
	case E4M3:
		return e4m3(uint8(bits))
	}
	const (
		exponent = 0x1f << 23             // of F16, where that of F32 begins
		rebias   = (127 - 15) << 23       // of exponents
		least    = 1<<23 | rebias         // 2^-14, the least normal number
		infinite = (255 - 31 - 112) << 23 // from what rebias makes of it
		sign     = 1 << 31
	)
	x := uint32(bits&0x7fff) << 13
	switch x & exponent {
	case exponent:
		x += rebias + infinite
	case 0: // as fraction of 2^-14, from which 2^-14 is taken
		x = math.Float32bits(math.Float32frombits(x+least) - math.Float32frombits(least))
	default:
		x += rebias
	}
	return math.Float32frombits(x | uint32(bits)<<16&sign)
}

// Bits are those of a type of 16 bits, or of 8, that are nearest to a number, of two as near the
// even ones. Those of NaN are of a NaN. E4M3 has 448 for what is larger, infinities among it, as
// NVIDIA's conversions with satfinite do; PyTorch's give NaN from 465 on.
func (t Type) Bits(number float32) uint16 {
	x := math.Float32bits(number)
	size := x &^ (1 << 31)
	sign := uint16(x>>16) & 0x8000
	switch {
	case t == E4M3:
		return sign>>8 | uint16(e4m3Bits(size))
	case t == BF16 && size > 0x7f800000:
		return uint16(x>>16) | 0x40 // quiet
	case t == BF16:
		return uint16((x + 0x7fff + x>>16&1) >> 16)
	}
	const (
		infinite = 0x7f800000
		overflow = (127+16)<<23 - 1<<12 // 65520
		normal   = (127 - 14) << 23     // 2^-14
		half     = 126 << 23            // 0.5, in which numbers are 2^-24 apart
	)
	switch {
	case size > infinite:
		return sign | 0x7e00 | uint16(size>>13)&0x3ff
	case size >= overflow:
		return sign | 0x7c00
	case size < normal:
		return sign | uint16(math.Float32bits(math.Float32frombits(size)+0.5)-half)
	}
	return sign | uint16((size-(127-15)<<23+0xfff+size>>13&1)>>13)
}

// Widen makes numbers of bits, of a type of 16 bits.
func (t Type) Widen(dst []float32, src []uint16) {
	dst = dst[:len(src)]
	if t == BF16 {
		for i, x := range src {
			dst[i] = math.Float32frombits(uint32(x) << 16)
		}
		return
	}
	for i, x := range src {
		dst[i] = t.Float(x)
	}
}

// Narrow makes bits of numbers, of a type of 16 bits.
func (t Type) Narrow(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = t.Bits(x)
	}
}
