package main

import (
	"math/rand/v2"

	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
)

// randomPacked makes words of B of 4 bits, after the existing ones.
func randomPacked(rng *rand.Rand, packed []uint32, from int) {
	for i := from; i < len(packed); i++ {
		packed[i] = rng.Uint32()
	}
}

// randomGroups makes group words, of int4 with scales from 1/16 to 3/16 and any zero points.
func randomGroups(rng *rand.Rand, of planner.Scaling, groups []int32) {
	for i := range groups {
		groups[i] = reference.GroupWord(rng, of, (0.5+rng.Float32())/8)
	}
}

// finish4 puts the workload's group words where placeEpilogue has placed them, and computes the numbers
// of B and B2.
func finish4(ops *workload.Operands, b planner.Batch, e *planner.Epilogue) {
	groups := ops.Groups
	for i := range b {
		p := &b[i]
		if p.M == 0 || p.N == 0 {
			continue
		}
		to := ops.Rows[p.ScaleB:]
		one := e.ScaleB.GroupWords(p.K, p.B.LD)
		n := min(one, len(groups))
		for j, word := range groups[:n] {
			to[j] = int32(word)
		}
		groups = groups[n:]
		if !p.Reads() {
			continue
		}
		reference.Widen4(ops.B, ops.Packed, p, p.B, to, e.ScaleB)
		if e.Gated {
			reference.Widen4(ops.B, ops.Packed, p, p.B2, to[one:], e.ScaleB)
		}
	}
}
