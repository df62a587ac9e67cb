package backend

import (
	"math"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Words reinterprets 32-bit words as the elements of buffers.
func Words[T int32 | uint32](words []T) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(words))), len(words))
}

// ToWords returns numbers as words of a buffer of a type.
func ToWords(of element.Type, numbers []float32) []float32 {
	switch of {
	case element.F32:
		return numbers
	case element.F64:
		return DoubleWords(numbers)
	}
	words := make([]uint32, elemtype.Words(of, len(numbers)))
	bits, at, shift := 8*of.Bytes(), 0, 0
	for _, x := range numbers {
		words[at] |= uint32(elemtype.Bits(of, x)) << shift
		if shift += bits; shift == 32 {
			at, shift = at+1, 0
		}
	}
	return Words(words)
}

// FromWords returns n numbers from words of a buffer. Those of F64 are rounded.
func FromWords(of element.Type, words []float32, n int) []float32 {
	if of == element.F32 {
		return words
	}
	numbers := make([]float32, n)
	for i := range numbers {
		if of == element.F64 {
			low, high := math.Float32bits(words[2*i]), math.Float32bits(words[2*i+1])
			numbers[i] = float32(math.Float64frombits(uint64(high)<<32 | uint64(low)))
			continue
		}
		at := i * of.Bytes()
		bits := math.Float32bits(words[at/4]) >> (at % 4 * 8)
		numbers[i] = elemtype.Float(of, uint16(bits&(1<<(8*of.Bytes())-1)))
	}
	return numbers
}

// DoubleWords returns numbers as words of a buffer, lower halves first.
func DoubleWords[T float32 | float64](numbers []T) []float32 {
	words := make([]float32, 0, 2*len(numbers))
	for _, x := range numbers {
		bits := math.Float64bits(float64(x))
		words = append(words, math.Float32frombits(uint32(bits)), math.Float32frombits(uint32(bits>>32)))
	}
	return words
}
