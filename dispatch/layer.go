package dispatch

import (
	"context"

	"github.com/batchgemm/batchgemm/planner"
)

// PrepareStep prepares a program of a step of a layer of experts: a planner.Routing, Combine, Gate or
// GateBackward. Its description says what runs have as Sizes, A, B, C and Rows; a routing reads a router's
// choices on the device. It fails with an error that wraps ErrInvalid if the description is invalid, and like
// Prepare.
//
// A launch of a routing takes about as long for twice as many choices where there are more than some 64,000.
func (d *Device) PrepareStep(ctx context.Context, s planner.Step) (*Program, error) {
	plan, err := d.planner.PlanStep(s)
	if err != nil {
		return nil, err
	}
	return d.Prepare(ctx, plan)
}
