package reference

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
)

// What tensor cores drop beside a large term passes if sums are narrow, and nothing more. Each case is a
// product of one row and one column with mostly ones, and its result on an H200, except in the last cases.
func TestNarrowSums(t *testing.T) {
	for _, c := range []struct {
		name  string
		k     int
		large map[int]float32 // elements of the row
		small float32         // all others
		got   float32
		ok    bool
	}{
		{"nothing is cut beside 2^11", 32, map[int]float32{0: 1 << 11}, 0, 1 << 11, true},
		{"small ones beside 2^12", 32, map[int]float32{0: 1 << 12}, 0.765625, 1<<12 + 15.5, true},
		{"all of them beside 2^13", 32, map[int]float32{0: 1 << 13}, 0.765625, 1 << 13, true},
		{"more than is cut", 32, map[int]float32{0: 1 << 11}, 0.765625, 1<<11 + 14, false},
		{"beside what another instruction left", 64, map[int]float32{0: 1 << 12, 1: 1 << 12}, 0.25,
			1 << 13, true},
		{"not beside another group's", 160, map[int]float32{0: 1 << 13, 1: -(1 << 13)}, 0.25, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := planner.Pack(planner.GEMM(1, 1, c.k))
			require.NoError(t, err)
			x, y := make([]float32, c.k), make([]float32, c.k)
			for k := range x {
				x[k], y[k] = c.small, 1
				if large, ok := c.large[k]; ok {
					x[k] = large
				}
			}
			_, err = CheckIn(Arithmetic{NarrowSums: true}, b, x, y, []float32{0}, []float32{c.got})
			require.Equal(t, c.ok, err == nil, err)
			if c.small != 0 {
				_, err = CheckIn(Arithmetic{}, b, x, y, []float32{0}, []float32{c.got})
				require.Error(t, err, "of sums in fp32")
			}
		})
	}
}
