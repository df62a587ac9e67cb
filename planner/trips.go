package planner

import (
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Lavapipe ends all loops of a thread after Device.MaxTrips iterations, without an error. It counts each loop
// once more than it iterates, also in a branch that is not taken. Its shaders have a loop over items and one
// over K steps, and in that one loops over the k of a step and, for fp32, over the loads of A and of B: see
// wgsl.Limits.Short.

// tripLimit is the limit for kernels with some options.
type tripLimit struct {
	most     int // 0: none
	products int // of an item
	loads    bool
}

func (o *Options) tripLimit(d *Device) tripLimit {
	return tripLimit{d.MaxTrips, o.Epilogue.kernel().Products(), o.TypeA == element.F32}
}

const (
	// itemTrips bounds the iterations for an item, besides those of its K steps: of the loop over items, and
	// of those that store up to 8 rows of a thread, with their ends.
	itemTrips = 32
	// leastTrips allows a worker one step of each shape that WebGPU has.
	leastTrips = 96
)

// step bounds the iterations for a K step.
func (l tripLimit) step(t *tile.Shape) int {
	n := 4 + t.TK/t.Groups()
	if l.loads {
		n += ceilDiv(t.TM*t.TK, t.Threads) + ceilDiv(t.TN*t.TK, t.Threads)
	}
	return n
}

// segment bounds those for a segment with that K.
func (l tripLimit) segment(t *tile.Shape, depth int) int {
	return l.products * (itemTrips + ceilDiv(depth, t.TK)*l.step(t))
}

// depth returns the largest K of a segment.
func (l tripLimit) depth(t *tile.Shape) int {
	if l.most == 0 {
		return MaxDim
	}
	return max((l.most/l.products-itemTrips)/l.step(t), 1) * t.TK
}

// steps returns how many K steps a worker may have. In the worst case each is a segment of its own.
func (l tripLimit) steps(t *tile.Shape) int {
	if l.most == 0 {
		return MaxDim
	}
	return max(l.most/(itemTrips+l.step(t)), 1)
}
