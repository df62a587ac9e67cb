package drivertest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Each case runs with some pair of types, of those that groups are tested with and of those of 8 bits.
func TestTurn(t *testing.T) {
	t.Setenv(sample.Variable, "")
	for _, types := range [][]element.Type{{element.BF16, element.F16}, {element.E4M3}, {element.Int8}} {
		for n := range 3 {
			ran := 0
			for _, of := range types {
				for _, ofC := range of.TypesC() {
					if s := (&suite{oneTile: "of a fake", of: of, ofC: ofC}); s.turn(n) {
						ran++
					}
				}
			}
			require.Positive(t, ran, "%v %d", types, n)
		}
	}
}
