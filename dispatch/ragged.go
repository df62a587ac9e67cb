package dispatch

import (
	"context"

	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner"
)

// PrepareRagged makes a program whose sizes are on the device when it runs. Each run reads them from a
// buffer, so the host does not wait for them. An example is a layer of experts whose rows a router assigns.
// The description has the bounds of the sizes, and in which of three forms they come. The program is planned
// once, for expected sizes.
//
// These are errors that wrap ErrInvalid: a description that no sizes can make right, options that do not pass
// Check, and options that need sizes on the host. Otherwise it fails as Prepare does.
//
// Operands.Sizes of a run has at least as many 32-bit words as the plan's ExtentSizes. The run reads them
// after the work queued before. Sizes that do not fit are no error of the run: Status reports them. Several
// goroutines may queue runs of one program, each with its own sizes or with the same.
func (d *Device) PrepareRagged(ctx context.Context, r planner.Ragged, o planner.Options) (*Program, error) {
	plan, err := d.planner.PlanRagged(r, o)
	if err != nil {
		return nil, err
	}
	return d.Prepare(ctx, plan)
}

// Status waits for queued work. It returns nil, or an error if sizes of a run since the last call of Status
// did not fit what the program was prepared for. The error is a *planner.ProblemError with the first group
// that the first such run refused; it wraps ErrInvalid. That run computed the groups before it, but neither
// that group nor later ones. A program that is not ragged refuses nothing. Of concurrent calls, one gets the
// error.
func (p *Program) Status(ctx context.Context) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.leave()
	if !p.Plan().Takes().Sizes {
		return nil
	}
	select {
	case p.asking <- struct{}{}:
		defer func() { <-p.asking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	group, err := p.driver.Status(ctx)
	if err != nil || group < 0 {
		return err
	}
	return &planner.ProblemError{Index: group, Arg: "sizes",
		Reason: "do not fit what the program was prepared for; it and the groups after it were not computed"}
}

// checkSizes checks everything about a run's sizes except the buffer itself.
func (r *Run) checkSizes(plan *planner.Plan) error {
	switch {
	case plan.Layer != nil && r.Sizes == nil:
		return invalid.Errorf("Sizes is nil: it has the experts' numbers")
	case plan.Takes().Sizes && r.Sizes == nil:
		return invalid.Errorf("Sizes is nil: the program is ragged, its sizes are on the device")
	case !plan.Takes().Sizes && r.Sizes != nil:
		return invalid.Errorf("Sizes is not nil: the program is not ragged, its plan has the sizes")
	}
	return nil
}

// checkExtent names what is wrong with the extent of a run of a plan: see RunOn.Extent.
func checkExtent(plan *planner.Plan, extent int) error {
	r, most := plan.Ragged, 0
	switch {
	case plan.Layer != nil:
		if most = plan.Layer.Tokens; extent < 0 || extent > most {
			return invalid.Errorf("extent %d is not in [0, %d], the tokens that there may be", extent, most)
		}
		return nil
	case extent == 0:
		return nil
	case !plan.Takes().Sizes:
		return invalid.Errorf("extent %d is not 0: the program is not ragged, its plan has the sizes", extent)
	case r.Form == planner.Records:
		return invalid.Errorf("ragged batch: extent %d is not 0: records have sizes of their own", extent)
	case r.Form == planner.EndsOfDepth:
		most = r.K
	default:
		most = r.M
	}
	if extent < 0 || extent > most {
		return invalid.Errorf("ragged batch: extent %d is not in [0, %d]", extent, most)
	}
	return nil
}
