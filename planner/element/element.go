// Package element lists the types that elements of matrices have.
package element

import (
	"strings"

	"github.com/batchgemm/batchgemm/internal/invalid"
)

// Type is the type of a matrix's elements. The zero value is F32.
type Type uint8

const (
	F32  Type = iota // IEEE binary32
	BF16             // the upper half of binary32
	F16              // IEEE binary16
	// OCP's 8 bits with 4 of exponent and 3 of fraction, without infinities (e4m3fn): for A and B alone
	E4M3
	Int8 // whole numbers from -128 to 127, two's complement: for A and B alone; see Whole
	// whole numbers from 0 to 15, eight a word (PackInt4), with scales of groups: for B alone
	Int4
)

// facts are what tells types apart.
type facts struct {
	name string
	bits int
}

var table = [...]facts{F32: {"f32", 32}, BF16: {"bf16", 16}, F16: {"f16", 16}, E4M3: {"e4m3", 8},
	Int8: {"int8", 8},
	Int4: {"int4", 4}}

// Types lists those of A: all but Int4.
func Types() []Type { return []Type{F32, BF16, F16, E4M3, Int8} }

// TypesC lists the types that C may have where A and B, or A alone, have this one, the usual one first.
func (t Type) TypesC() []Type {
	switch t {
	case F32:
		return []Type{F32}
	case E4M3, Int8:
		return []Type{BF16, F16, F32}
	case Int4:
		return nil
	}
	return []Type{t, F32}
}

// Whole reports whether all numbers are whole ones, without NaN, infinities, numbers below a least
// normal one and -0. Products of two are exact in fp32, and so are their sums as long as those of
// their sizes stay within 2^24: for Int8 up to 1024 products, whatever the numbers are.
func (t Type) Whole() bool { return t == Int8 }

// Parse reads a name as users write it; "" is F32.
func Parse(name string) (Type, error) {
	if name == "" {
		return F32, nil
	}
	names := make([]string, len(table))
	for t := range table {
		if names[t] = table[t].name; names[t] == name {
			return Type(t), nil
		}
	}
	return F32, invalid.Errorf("unknown element type %q (known: %s)", name, strings.Join(names, ", "))
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

// Bytes is the size of an element; 0 for Int4, of which two take one.
func (t Type) Bytes() int { return table[t].bits / 8 }

// PerWord is how many elements a word of 32 bits has.
func (t Type) PerWord() int { return 32 / table[t].bits }

// Size is the bytes of n elements, the last one whole.
func (t Type) Size(n int) int { return n/8*table[t].bits + (n%8*table[t].bits+7)/8 }

// Float is the number that bits of a type of 16 bits, or of 8, stand for. Bits of NaN stay apart.
func (t Type) Float(bits uint16) float32 {
	switch t {
	case BF16:
		return bf16(bits)
	case E4M3:
		return numbersE4M3[uint8(bits)]
	case Int8:
		return float32(int8(bits))
	}
	return f16(bits)
}

// Bits are those of a type of 16 bits, or of 8, that are nearest to a number, of two as near the even ones.
// Those of NaN are of a NaN, where the type has any. E4M3 has 448 for what is larger, infinities among it, as
// NVIDIA's conversions with satfinite do; PyTorch's give NaN from 465 on. Int8 has 127 for what is larger and
// -128 for what is smaller, and 0 for NaN.
func (t Type) Bits(number float32) uint16 {
	switch t {
	case BF16:
		return bf16Bits(number)
	case E4M3:
		return uint16(e4m3Bits(number))
	case Int8:
		return uint16(int8Bits(number))
	}
	return f16Bits(number)
}

// Widen makes numbers of bits, of a type of 16 bits.
func (t Type) Widen(dst []float32, src []uint16) {
	dst = dst[:len(src)]
	if t == BF16 {
		for i, x := range src {
			dst[i] = bf16(x)
		}
		return
	}
	for i, x := range src {
		dst[i] = f16(x)
	}
}

// Narrow makes bits of numbers, of a type of 16 bits.
func (t Type) Narrow(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	if t == BF16 {
		for i, x := range src {
			dst[i] = bf16Bits(x)
		}
		return
	}
	for i, x := range src {
		dst[i] = f16Bits(x)
	}
}

// WidenBytes makes numbers of bits, of a type of 8 bits.
func (t Type) WidenBytes(dst []float32, src []uint8) {
	dst = dst[:len(src)]
	if t == Int8 {
		for i, x := range src {
			dst[i] = float32(int8(x))
		}
		return
	}
	for i, x := range src {
		dst[i] = numbersE4M3[x]
	}
}

// NarrowBytes makes bits of numbers, of a type of 8 bits, as Bits does.
func (t Type) NarrowBytes(dst []uint8, src []float32) {
	dst = dst[:len(src)]
	if t == Int8 {
		for i, x := range src {
			dst[i] = int8Bits(x)
		}
		return
	}
	for i, x := range src {
		dst[i] = e4m3Bits(x)
	}
}
