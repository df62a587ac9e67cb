package dispatch

import (
	"context"

	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner"
)

// PrepareRagged makes a program whose sizes are on the device when it runs, as a layer of
// experts has them whose rows a router deals out: each run reads them from a buffer, so that
// nobody waits for what the router does. The description says what bounds the sizes and in
// which of three forms they come. The program is planned once, for sizes as they are expected.
//
// It fails where the description or the options do not pass Check, or ask for what needs
// sizes that the host knows, all of which wraps ErrInvalid, and as Prepare does.
//
// Operands.Sizes of a run has as many words as the plan's SizesLen or more, of 32 bits each. The run reads
// them after whatever was queued before. Sizes that do not fit are no error of the run: Status tells of
// them. Runs of one program may be queued from several goroutines, each with sizes of its own or the same.
func (d *Device) PrepareRagged(ctx context.Context, r planner.Ragged, o planner.Options) (*Program, error) {
	plan, err := d.planner.PlanRagged(r, o)
	if err != nil {
		return nil, err
	}
	return d.Prepare(ctx, plan)
}

// Status waits for queued work and returns nil, or what a run since the last call of Status
// did not compute because sizes did not fit what the program was prepared for: a
// *planner.ProblemError, which wraps ErrInvalid, with the first group that the first such
// run refused. That run computed the groups before it, and none from it on. A program that is
// not ragged refuses nothing. Of calls at the same time one gets the error.
func (p *Program) Status(ctx context.Context) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.leave()
	if !p.Plan().TakesSizes() {
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

// checkSizes checks all of a run's sizes but the buffer itself.
func (r *Run) checkSizes(ragged bool) error {
	switch {
	case ragged && r.Sizes == nil:
		return invalid.Errorf("Sizes is nil: the program is ragged, its sizes are on the device")
	case !ragged && r.Sizes != nil:
		return invalid.Errorf("Sizes is not nil: the program is not ragged, its plan has the sizes")
	}
	return nil
}
