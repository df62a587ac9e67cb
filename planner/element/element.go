// Package element has the types of matrix elements, and converts numbers to and from them.
package element

import (
	"strings"

	"github.com/batchgemm/batchgemm/internal/invalid"
)

// Type is the type of a matrix's elements. The zero value is F32.
type Type uint8

const (
	F32  Type = iota // IEEE binary32
	BF16             // bfloat16: the upper half of binary32
	F16              // IEEE binary16
	// OCP's 8-bit type with 4 exponent and 3 fraction bits, without infinities (e4m3fn); only for A and B
	E4M3
	Int8 // integers from -128 to 127, two's complement; only for A and B
	// integers from 0 to 15, eight in a word (PackInt4), with scales of groups; only for B
	Int4
	// OCP's 4-bit type with 2 exponent bits and 1 fraction bit (e2m1), with a scale for each 32 k, a power of
	// two; eight in a word (PackFP4); only for B
	MXFP4
	NVFP4 // e2m1 too, with a scale of E4M3 for each 16 k and one of fp32 for each column; only for B
	F64   // IEEE binary64, in two words of 32 bits; A, B and C have it together, and alpha and beta too
)

// facts are the properties of a type.
type facts struct {
	name string
	bits int
}

var table = [...]facts{F32: {"f32", 32}, BF16: {"bf16", 16}, F16: {"f16", 16}, E4M3: {"e4m3", 8},
	Int8: {"int8", 8},
	Int4: {"int4", 4}, MXFP4: {"mxfp4", 4}, NVFP4: {"nvfp4", 4}, F64: {"f64", 64}}

// parse reads a name as users write it, such as "bf16"; "" is F32. It fails for unknown names.
func parse(name string) (Type, error) {
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

func (t Type) known() bool { return int(t) < len(table) }

// String returns the name of the type, such as "bf16".
func (t Type) String() string {
	if !t.known() {
		return "unknown"
	}
	return table[t].name
}

// MarshalText and UnmarshalText write and read names, as users and JSON have them: "bf16"; "" is F32.
func (t Type) MarshalText() ([]byte, error) {
	if !t.known() {
		return nil, invalid.Errorf("unknown element type %d", uint8(t))
	}
	return []byte(t.String()), nil
}

func (t *Type) UnmarshalText(text []byte) (err error) {
	*t, err = parse(string(text))
	return err
}

// Bytes returns the size of an element; 0 for types of 4 bits, which have two elements in a byte.
func (t Type) Bytes() int { return table[t].bits / 8 }

// PerWord returns the number of elements in a 32-bit word; 0 for F64, each element of which takes two.
func (t Type) PerWord() int { return 32 / table[t].bits }

// Size returns the bytes of n elements, rounded up to whole bytes.
func (t Type) Size(n int) int { return n/8*table[t].bits + (n%8*table[t].bits+7)/8 }

// Widen converts elements of a 16-bit or 8-bit type, as bits, to numbers. Different NaN bits give different
// NaNs. dst must be at least as long as src.
func Widen[T ~uint8 | ~uint16](of Type, dst []float32, src []T) {
	dst = dst[:len(src)]
	switch of {
	case BF16:
		for i, x := range src {
			dst[i] = bf16(uint16(x))
		}
	case E4M3:
		for i, x := range src {
			dst[i] = numbersE4M3[uint8(x)]
		}
	case Int8:
		for i, x := range src {
			dst[i] = float32(int8(x))
		}
	default:
		for i, x := range src {
			dst[i] = f16(uint16(x))
		}
	}
}

// Narrow converts numbers to the nearest elements of a 16-bit or 8-bit type; ties go to even. NaN becomes a
// NaN if the type has any. E4M3 saturates: larger numbers and infinities become 448, as in NVIDIA's
// conversions with satfinite (PyTorch gives NaN from 465 on). Int8 saturates at 127 and -128, and NaN becomes
// 0. dst must be at least as long as src.
func Narrow[T ~uint8 | ~uint16](of Type, dst []T, src []float32) {
	dst = dst[:len(src)]
	switch of {
	case BF16:
		for i, x := range src {
			dst[i] = T(bf16Bits(x))
		}
	case E4M3:
		for i, x := range src {
			dst[i] = T(e4m3Bits(x))
		}
	case Int8:
		for i, x := range src {
			dst[i] = T(int8Bits(x))
		}
	default:
		for i, x := range src {
			dst[i] = T(f16Bits(x))
		}
	}
}
