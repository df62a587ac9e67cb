package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/planner/element"
)

// TestWiden: every element has its number, whatever instructions convert it.
func TestWiden(t *testing.T) {
	for _, of := range []element.Type{element.BF16, element.F16, element.E4M3, element.Int8} {
		n := 1 << (8 * of.Bytes())
		words := make([]float32, n*of.Bytes()/4)
		x := narrowOf(of, words)
		for i := range n {
			if of.Bytes() == 1 {
				x.bytes[i] = byte(i)
			} else {
				x.bits()[i] = uint16(i)
			}
		}
		got := make([]float32, n-5)
		x.widen(got, 5)
		for i, v := range got {
			if want := elemtype.Float(of, uint16(i+5)); want == want || v == v {
				require.Equal(t, math.Float32bits(want), math.Float32bits(v), "%s %#x", of, i+5)
			}
		}
	}
}

// TestRound: numbers are rounded as the type does, also those in the middle, NaN and infinities.
func TestRound(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	numbers := make([]float32, 100_003)
	for i := range numbers {
		numbers[i] = math.Float32frombits(rng.Uint32() & (^uint32(0) << (i % 24)))
		if i%3 == 0 {
			numbers[i] = rng.Float32() * float32(math.Ldexp(1, rng.IntN(60)-40))
		}
	}
	for _, of := range []element.Type{element.BF16, element.F16} {
		x := narrowOf(of, make([]float32, len(numbers)))
		x.store(1, numbers)
		for i, v := range numbers {
			require.Equal(t, elemtype.Bits(of, v), x.bits()[1+i], "%s %v %#x", of, v, math.Float32bits(v))
		}
	}
}
