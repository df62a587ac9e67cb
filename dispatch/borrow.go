package dispatch

import (
	"context"
	"fmt"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/invalid"
)

// Addresses are the operands of a run in the caller's memory, as in a Run: memory of the GPU, or with the
// CPU memory of the host outside of Go. Each address is a multiple of 16, or 0 if the program has no such
// operand.
type Addresses struct {
	A, B, C, Sizes, B2, Bias, Rows uintptr
	// Extent is how much of a ragged program's bound exists in this run (planner.Ragged.Within). 0 is all of
	// it. Groups beyond it are refused, and nothing beyond it is read or written. With
	// PrepareRouting and PrepareCombine it counts tokens.
	Extent int
}

// RunAt queues one execution on the caller's memory and stream. It costs the host less than Wrap and
// OnStream, but does not check what they check. Operands must be as long as the problems reach, and with
// ragged programs as bounds and extent of the run say. C must not share memory with another operand. Kernels
// may read all of the 16-byte line that holds the last element. Memory and stream must stay until the work
// is done.
//
// Runs of a program share its workspace. If runs are queued on two streams, the caller must order them, and
// call Device.Wait between Prepare and the first one. The stream belongs to the GPU, as for OnStream. RunAt
// only queues launches there, so the caller may capture it in a graph. The CPU has stream 0; Wait waits for
// its work. WebGPU does not support RunAt.
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
	if err := p.plan.CheckExtent(at.Extent); err != nil {
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
			given[i] = borrower.At(address, wordsOf(arg.of, arg.need))
		}
	}
	run := driverRun(p, &given)
	run.Extent = at.Extent
	return borrower.SubmitOn(ctx, stream, &run)
}
