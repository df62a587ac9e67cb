package drivertest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
)

// testRaggedInvariant has rows of C keep their bits whatever rows are beside them, in programs for few rows
// and for many.
func (s *suite) testRaggedInvariant(t *testing.T) {
	const groups = 4
	want := map[[2]int][]float32{}
	for _, m := range []int{groups, 70, 300} {
		l := wide.of(s.of).ends(planner.Ragged{Form: planner.EndsOfRows, Groups: groups, M: m, N: 72, K: 144,
			TransB: true})
		j := s.prepareRagged(t, l, planner.Options{Invariant: true, Tile: s.forced})
		few, one := make([]int32, groups), make([]int32, groups)
		for g := range groups {
			few[g], one[g] = int32(g+1), int32(m-groups+1+g) // all but three in the first group
		}
		for _, sizes := range [][]int32{few, one, l.sets[0]} {
			b, refused := j.batch(sizes)
			c := j.run(t, sizes, s.sameRows(b, l.lens))
			require.Equal(t, refused, j.status(t))
			for g := range b {
				for row := range b[g].M {
					at := b[g].C.Offset + row*b[g].C.LD
					got, key := c[at:][:b[g].N], [2]int{g, row}
					if want[key] == nil {
						want[key] = got
					}
					require.True(t, sameBits(want[key], got), "row %d of group %d, bound %d", row, g, m)
				}
			}
		}
	}
}

// sameRows returns operands in which row i of a group has the same numbers in every batch.
func (s *suite) sameRows(b planner.Batch, lens [3]int) operands {
	o := fill(b, lens, func([]float32) {})
	for g := range b {
		q := &b[g]
		for row := range q.M {
			eachRow(o.a, planner.Matrix{Offset: q.A.Offset + row*q.A.LD, LD: q.A.LD}, 1, q.K,
				uniform(uint64(g*1000+row)))
		}
		if q.M > 0 {
			rows, cols := q.ShapeB()
			eachRow(o.b, q.B, rows, cols, uniform(uint64(1e6+g)))
		}
	}
	return s.typed(o)
}
