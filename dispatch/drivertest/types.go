package drivertest

import (
	"math"
	"testing"

	"github.com/batchgemm/batchgemm/planner/element"
)

// testTypes runs what jobs are tested with on elements of the types that the device takes
// beside F32, with C of the same type and of F32.
func (s *suite) testTypes(t *testing.T) {
	for _, of := range s.device.Info().Planner.Types {
		for _, ofC := range []element.Type{of, element.F32} {
			t.Run(of.String()+"/"+ofC.String(), func(t *testing.T) {
				typed := *s
				typed.of, typed.ofC = of, ofC
				if of == ofC {
					t.Run("Tiles", typed.testTiles)
				}
				t.Run("Mixed", typed.testMixed)
				t.Run("NonFinite", typed.testNonFinite)
				t.Run("Scalars", typed.testScalars)
				t.Run("Subnormals", typed.testSubnormals)
				t.Run("Empty", typed.testEmpty)
				t.Run("Reuse", typed.testReuse)
			})
		}
	}
}

// typed are operands whose numbers the suite's types have.
func (s *suite) typed(o operands) operands {
	round(s.of, o.a)
	round(s.of, o.b)
	round(s.ofC, o.c)
	return o
}

// canary16 is the canary of types that do not reach so far.
const canary16 = 3e4

func round(of element.Type, numbers []float32) {
	if of == element.F32 {
		return
	}
	for i, x := range numbers {
		if x == canary && of.Overflow() < canary {
			x = canary16
		}
		numbers[i] = of.Float(of.Bits(x))
	}
}

// wordsOf is how many words of a buffer have so many elements.
func wordsOf(of element.Type, elements int) int { return (elements*of.Bytes() + 3) / 4 }

// toWords are numbers as a buffer has them.
func toWords(of element.Type, numbers []float32) []float32 {
	if of == element.F32 {
		return numbers
	}
	words := make([]float32, wordsOf(of, len(numbers)))
	for i := range words {
		low, high := uint32(of.Bits(numbers[2*i])), uint32(0)
		if 2*i+1 < len(numbers) {
			high = uint32(of.Bits(numbers[2*i+1]))
		}
		words[i] = math.Float32frombits(low | high<<16)
	}
	return words
}

// fromWords are so many numbers of a buffer's words.
func fromWords(of element.Type, words []float32, n int) []float32 {
	if of == element.F32 {
		return words
	}
	numbers := make([]float32, n)
	for i := range numbers {
		numbers[i] = of.Float(uint16(math.Float32bits(words[i/2]) >> (16 * (i % 2))))
	}
	return numbers
}
