package dispatch

import (
	"context"

	"github.com/batchgemm/batchgemm/planner"
)

// PrepareRouting prepares a program that routes tokens to experts. It reads a router's choices on the device.
// In one launch it writes the ends of each expert's rows and the lists of the rows, for ragged programs.
// planner.Routing describes Sizes, A and C of its runs; there is no B. It fails with an error that wraps
// ErrInvalid if the description is invalid, and like Prepare.
//
// A launch takes about as long for twice as many choices where there are more than some 64,000.
func (d *Device) PrepareRouting(ctx context.Context, r planner.Routing) (*Program, error) {
	return prepare(ctx, d, d.planner.PlanRouting, r)
}

// PrepareCombine prepares a program that sums the experts' rows of each token. planner.Combine describes
// Sizes, A and C of its runs; there is no B. It fails like PrepareRouting.
func (d *Device) PrepareCombine(ctx context.Context, c planner.Combine) (*Program, error) {
	return prepare(ctx, d, d.planner.PlanCombine, c)
}

// PrepareGate makes a program for what is between the products of a layer of experts: activation and product
// with up. planner.Gate says what its runs have as Sizes, A and C; there is no B. It fails as PrepareRouting
// does, and with WebGPU.
func (d *Device) PrepareGate(ctx context.Context, g planner.Gate) (*Program, error) {
	return prepare(ctx, d, d.planner.PlanGate, g)
}

// PrepareGateBackward makes a program for the gradients of a gate and of the routing weights.
// planner.GateBackward says what its runs have as Sizes, Rows, A, B and C. It fails as PrepareGate does.
func (d *Device) PrepareGateBackward(ctx context.Context, g planner.GateBackward) (*Program, error) {
	return prepare(ctx, d, d.planner.PlanGateBackward, g)
}

// prepare plans a step of a layer and prepares it.
func prepare[T any](ctx context.Context, d *Device, plan func(T) (*planner.Plan, error), of T) (*Program,
	error) {
	p, err := plan(of)
	if err != nil {
		return nil, err
	}
	return d.Prepare(ctx, p)
}
