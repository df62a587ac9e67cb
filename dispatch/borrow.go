package dispatch

import (
	"context"
	"fmt"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner"
)

// Addresses are operands of a run in memory of the caller, as in a Run: of the GPU, or, with the CPU, of the
// host outside of Go. Each is a multiple of 16, or 0 where the program has no such operand.
type Addresses struct {
	A, B, C, Sizes, B2, Bias, Rows uintptr
	// Extent is how much of a ragged program's bound is there in this run (planner.Ragged.Within): 0 to the
	// bound, of which 0 is all. Groups beyond it are refused, and nothing beyond it is read or written.
	Extent int
}

// RunAt queues one execution on memory, and on a stream, of the caller, which costs the host less than Wrap
// and OnStream: what they check nobody checks here. Operands are as long as the problems reach, and with
// ragged programs as the bounds and the extent of the run say. C is no other operand. Kernels may read the
// line of 16 bytes that holds the last element whole. Memory and stream stay until the work is done.
//
// Runs of a program share its workspace: those that are queued on two streams must be ordered by the caller,
// and the first one comes after a Wait of the device since Prepare. The stream is one of the GPU, as for
// OnStream, and RunAt does nothing there but queue launches, so that the caller may capture it in a graph;
// the CPU has stream 0, whose work Wait waits for. WebGPU has no such memory.
func (p *Program) RunAt(ctx context.Context, stream uintptr, at Addresses) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.leave()
	d := p.device
	borrower, ok := d.driver.(backend.Borrower)
	if !ok {
		return fmt.Errorf("backend %s does not work in memory of its callers", d.info.Backend)
	}
	d.updates.RLock()
	defer d.updates.RUnlock()
	if err := checkExtent(p.plan, at.Extent); err != nil {
		return err
	}
	args := argumentsOf(p.plan)
	var given [len(args)]driver.Buffer
	for i, address := range [len(args)]uintptr{at.A, at.B, at.C, at.Sizes, at.B2, at.Bias, at.Rows} {
		switch arg := &args[i]; {
		case arg.apart:
		case !arg.used && address != 0:
			return invalid.Errorf("%s is not 0: the program has no use for it", arg.name)
		case address == 0 && arg.need > 0:
			return invalid.Errorf("%s is 0", arg.name)
		case address%backend.BorrowAlign != 0:
			return invalid.Errorf("%s %#x is not a multiple of %d; take an earlier element, and offsets",
				arg.name, address, backend.BorrowAlign)
		case arg.used:
			given[i] = borrower.At(address, wordsOf(arg.of, arg.need))
		}
	}
	run := driverRun(p, &given)
	run.Extent = at.Extent
	return borrower.SubmitOn(ctx, stream, &run)
}

func checkExtent(plan *planner.Plan, extent int) error {
	switch {
	case plan.TakesSizes():
		return plan.Ragged.CheckExtent(extent)
	case extent != 0:
		return invalid.Errorf("extent %d is not 0: the program is not ragged, its plan has the sizes", extent)
	}
	return nil
}
