package planner

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every shape cuts the problems of a class like their class. Every problem is in one class.
func TestClasses(t *testing.T) {
	halved := clone(device(t, "h200")) // only tiles whose halves take less
	halved.Name = "halved"
	halved.Kernels = slices.DeleteFunc(halved.Kernels,
		func(k KernelFacts) bool { return k.Tile.Rates.HalfCols == 0 })
	for _, d := range append(known(), halved) {
		t.Run(d.Name, func(t *testing.T) {
			var m model
			require.NoError(t, m.set(d, arithmetic{}, false, only{}))
			batch := randomBatch(t, rand.New(rand.NewPCG(1, 5)), 2000, 0, 300)
			for k := range 1000 { // more classes than places in the table, different only in K
				batch = append(batch, GEMM(5, 5, 16*k))
			}
			var c classes
			c.sort(batch, &Epilogue{}, m.grain)
			members := make([]int32, len(c.all))
			for i := range batch {
				q, at := &batch[i], c.of[i]
				require.Equal(t, q.writes(), at >= 0)
				if at < 0 {
					continue
				}
				members[at]++
				s := &c.all[at]
				like := Problem{M: int(s.m) << m.grain[0], N: int(s.n) << m.grain[1],
					K: int(s.k) << m.grain[2]}
				for id := range m.tiles {
					shape := m.tiles[id].shape
					wantRows, wantCols := grid(shape, &like)
					rows, cols := grid(shape, q)
					require.Equal(t, []int{wantRows * wantCols, steps(shape, &like)},
						[]int{rows * cols, steps(shape, q)}, "%s %+v", shape.Name, q)
					require.InDelta(t, wholeTiles(shape, like.M, like.N), wholeTiles(shape, q.M, q.N), 0,
						"%s %+v", shape.Name, q)
				}
			}
			for i, n := range members {
				require.Equal(t, c.all[i].count, n)
			}
			tiny := randomBatch(t, rand.New(rand.NewPCG(1, 5)), 4096, 9, 16)
			c.sort(tiny, &Epilogue{}, m.grain)
			if m.grain[0] >= 3 {
				require.LessOrEqual(t, len(c.all), 4)
			}
		})
	}
}
