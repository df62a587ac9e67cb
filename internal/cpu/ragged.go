package cpu

import (
	"context"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/hostmem"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// ragged plans each run of a program when it is executed, because its sizes are final only then. Whoever has
// the device may use it. Once it has seen batches as large, it allocates nothing.
type ragged struct {
	planner.Ragged
	planner *planner.Planner
	options planner.Options
	batch   planner.Batch
	plan    planner.Plan
	refused int // first refused group since Status; -1: none
}

func newRagged(p *planner.Plan) *ragged {
	r := &ragged{Ragged: *p.Ragged, planner: planner.New(p.Device).Within(hostmem.Check),
		options: p.Options, refused: -1}
	// Workers take tiles dynamically, so no schedule is needed that splits K. Such schedules need memory,
	// and a run cannot report that there is none.
	r.options.Schedule, r.options.Invariant = planner.ScheduleDataParallel, false
	r.options.Kernels = nil // groups without rows are of any transposition
	return r
}

// runRagged plans the batch of a run and executes it. If problems cannot be planned together, because C of
// records overlap or memory has no room, it does one after the other. A problem that cannot be planned alone
// is refused like one whose sizes do not fit.
func (c *crew) runRagged(e *entry, helpers int) {
	r := e.image.ragged
	refused := r.read(e.sizes.data, e.extent)
	if r.draw(e.image, r.batch) == nil {
		c.run(e, helpers)
	} else {
		for i := range r.batch {
			if r.draw(e.image, r.batch[i:i+1]) != nil {
				refused = min(i, r.Groups-1) // before those that did not fit
				break
			}
			c.run(e, helpers)
		}
	}
	if r.refused < 0 {
		r.refused = refused
	}
}

// read makes the batch from the sizes, which a buffer holds as bits, and the extent.
func (r *ragged) read(words []float32, extent int) (refused int) {
	sizes := unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(words))), len(words))
	there := r.Within(extent)
	r.batch, refused = there.Batch(r.batch, sizes, r.options)
	for i := range r.batch {
		q := &r.batch[i]
		switch { // records may say anything about operands that are not read; planning checks them
		case q.M == 0 || q.N == 0:
			*q = planner.Problem{}
		case !q.Reads():
			q.K, q.A, q.B, q.B2, q.TransA, q.TransB = 0, planner.Matrix{}, planner.Matrix{},
				planner.Matrix{}, false, true
			if elemtype.Bits4(r.options.TypeB) { // it cannot be transposed
				q.B.LD, q.B2.LD, q.TransB = element.Int4LD(q.N), element.Int4LD(q.N), false
			}
		}
	}
	return refused
}

// draw makes an image of a batch.
func (r *ragged) draw(m *image, b planner.Batch) error {
	if err := r.planner.Replan(context.Background(), &r.plan, b, r.options); err != nil {
		return err
	}
	if n := r.plan.Words; n > cap(m.words) {
		if err := hostmem.Check(hostmem.Size(n)); err != nil {
			return err
		}
	}
	m.launches = append(m.launches[:0], r.plan.Launches...)
	m.words = r.plan.Encode(m.words)
	return nil
}
