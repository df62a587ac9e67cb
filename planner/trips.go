package planner

import "github.com/batchgemm/batchgemm/internal/tile"

// Lavapipe ends all loops of a thread after Device.MaxTrips iterations, without an error. It counts each loop
// once more than it iterates, also in a branch that is not taken. Its shaders have a loop over items, one
// over K steps, and in that one loops over the k of a step (wgsl.Limits.Short).

// itemTrips bounds the iterations for an item, besides those of its K steps: of the loop over items, and of
// those that store up to 8 rows of a thread, with their ends.
const itemTrips = 32

// stepTrips bounds the iterations for a K step.
func stepTrips(t *tile.Shape) int { return 4 + t.TK/t.Groups() }

// trips bounds the iterations for a segment with that K.
func trips(t *tile.Shape, depth int) int { return itemTrips + ceilDiv(depth, t.TK)*stepTrips(t) }

// leastTrips allows a worker one step of each shape that WebGPU has.
const leastTrips = 67

// maxDepth returns the largest K of a segment with that many products, under the device's loop limit.
func (d *Device) maxDepth(t *tile.Shape, products int) int {
	if d.MaxTrips == 0 {
		return MaxDim
	}
	return max((d.MaxTrips/products-itemTrips)/stepTrips(t), 1) * t.TK
}

// tripSteps returns how many K steps a worker may have under that limit. In the worst case each is a segment
// of its own.
func (d *Device) tripSteps(t *tile.Shape) int {
	if d.MaxTrips == 0 {
		return MaxDim
	}
	return max(d.MaxTrips/(itemTrips+stepTrips(t)), 1)
}
