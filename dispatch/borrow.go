package dispatch

import (
	"context"
	"fmt"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/invalid"
)

// RunOn is one execution of a program on operands in the caller's memory: memory of the GPU, or with the CPU
// memory of the host outside of Go. Each address is a multiple of 16, or 0 if the program lacks the operand.
type RunOn struct {
	Program                        *Program
	A, B, C, Sizes, B2, Bias, Rows uintptr // as in Operands
	// Extent is how much of a ragged program's bound exists in this run (planner.Ragged.Within). 0 is all of
	// it. Groups beyond it are refused, and nothing beyond it is read or written. With steps of a layer
	// (PrepareStep) it counts tokens.
	Extent int
}

// RunAt queues the runs, in order, as one submission on the caller's memory and stream. It costs the host
// less than Wrap and OnStream, but does not check what they check. Operands must be as long as the problems
// reach, and with ragged programs as bounds and extent of the run say. C must not share memory with another
// operand. Kernels may read all of the 16-byte line that holds the last element. Memory and stream must stay
// until the work is done. All runs are checked before the first is queued. If the driver fails, some of the
// runs may have been queued.
//
// Runs of a program share its workspace. If runs are queued on two streams, the caller must order them, and
// call Device.Wait between Prepare and the first one. The stream belongs to the GPU, as for OnStream. RunAt
// only queues launches there, so the caller may capture it in a graph. The CPU has stream 0; Wait waits for
// its work. WebGPU does not support RunAt.
func (d *Device) RunAt(ctx context.Context, stream uintptr, runs ...RunOn) error {
	s, err := d.newSubmission()
	if err != nil {
		return err
	}
	defer d.end(s)
	for i := range runs {
		if err := s.addAt(d, &runs[i]); err != nil {
			return fmt.Errorf("run %d: %w", i, err)
		}
	}
	return s.submitOn(ctx, d, stream)
}

func (s *submission) submitOn(ctx context.Context, d *Device, stream uintptr) error {
	if len(s.runs) == 0 {
		return ctx.Err()
	}
	return d.driver.(backend.Borrower).SubmitOn(ctx, stream, s.runs)
}

// addAt checks a run and holds its program.
func (s *submission) addAt(d *Device, at *RunOn) error {
	p := at.Program
	if p == nil {
		return invalid.Errorf("the program is nil")
	}
	if err := p.hold(d); err != nil {
		return fmt.Errorf("program: %w", err)
	}
	s.held = append(s.held, p.object)
	borrower, ok := d.driver.(backend.Borrower)
	if !ok {
		return fmt.Errorf("backend %s does not work in memory of its callers", d.info.Backend)
	}
	if err := checkExtent(p.plan, at.Extent); err != nil {
		return err
	}
	args := argumentsOf(p.plan)
	var given [len(args)]driver.Buffer
	for i, address := range [len(args)]uintptr{at.A, at.B, at.C, at.Sizes, at.B2, at.Bias, at.Rows} {
		switch arg := &args[i]; {
		case arg.apart:
		case !arg.used && address != 0:
			return invalid.Errorf("%s is not 0, but the program does not use it", arg.name)
		case address == 0 && arg.need > 0:
			return invalid.Errorf("%s is 0", arg.name)
		case address%backend.BorrowAlign != 0:
			return invalid.Errorf("%s %#x is not a multiple of %d; take an earlier element, and offsets",
				arg.name, address, backend.BorrowAlign)
		case arg.used:
			given[i] = borrower.At(address, elemtype.Words(arg.of, arg.need))
		}
	}
	run := driverRun(p, &given)
	run.Extent = at.Extent
	s.runs = append(s.runs, run)
	return nil
}
