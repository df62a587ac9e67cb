package dispatch

import (
	"context"

	"github.com/batchgemm/batchgemm/planner"
)

// PrepareRouting makes a program that routes tokens to experts: it writes, in one launch, where the rows of
// each expert end and which they are, as ragged programs take them, from a router's choices on the device.
// planner.Routing says what its runs have as Sizes, A and C; there is no B. It fails where the description
// does not pass its check, which wraps ErrInvalid, and as Prepare does.
//
// A launch takes about as long for twice as many choices where there are more than some 64,000.
func (d *Device) PrepareRouting(ctx context.Context, r planner.Routing) (*Program, error) {
	plan, err := d.planner.PlanRouting(r)
	if err != nil {
		return nil, err
	}
	return d.Prepare(ctx, plan)
}

// PrepareCombine makes a program that sums the rows of each token, which experts left. planner.Combine says
// what its runs have as Sizes, A and C; there is no B. It fails as PrepareRouting does.
func (d *Device) PrepareCombine(ctx context.Context, c planner.Combine) (*Program, error) {
	plan, err := d.planner.PlanCombine(c)
	if err != nil {
		return nil, err
	}
	return d.Prepare(ctx, plan)
}
