package cpu

import (
	"context"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/hostmem"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// ragged is what a program needs to plan each run when its turn comes: only then are the
// sizes what they shall be. Who has the device uses it. Once it has seen batches as large
// it allocates nothing.
type ragged struct {
	planner.Ragged
	planner *planner.Planner
	options planner.Options
	batch   planner.Batch
	plan    planner.Plan
	refused int // the first group that was since Status told; -1: none
}

func newRagged(p *planner.Plan) *ragged {
	r := &ragged{Ragged: *p.Ragged, planner: planner.New(p.Device).Within(hostmem.Check),
		options: p.Options, refused: -1}
	// Workers take tiles as they come, and no schedule that cuts K needs memory then, of
	// which a run has nobody to tell that there is none.
	r.options.Schedule = planner.ScheduleDataParallel
	return r
}

// runRagged plans the batch of a run and does it. Where problems cannot be planned together,
// because their C overlap, as those of records may, or memory has no room, it does one after the other; one
// that cannot be planned alone is refused as if its sizes did not fit.
func (c *crew) runRagged(e *entry, helpers int) {
	r := e.image.ragged
	refused := r.read(e.sizes.data, e.extent)
	if r.draw(e.image, r.batch) == nil {
		c.run(e, helpers)
	} else {
		for i := range r.batch {
			if r.draw(e.image, r.batch[i:i+1]) != nil {
				refused = min(i, r.Groups-1) // before any that did not fit
				break
			}
			c.run(e, helpers)
		}
	}
	if r.refused < 0 {
		r.refused = refused
	}
}

// read makes the batch of the sizes, whose bits a buffer has, where so much is there.
func (r *ragged) read(words []float32, extent int) (refused int) {
	sizes := unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(words))), len(words))
	there := r.Within(extent)
	r.batch, refused = there.Batch(r.batch, sizes, r.options.Epilogue)
	for i := range r.batch {
		q := &r.batch[i]
		switch { // records say what they like of operands that nobody reads, planning checks them
		case q.M == 0 || q.N == 0:
			*q = planner.Problem{}
		case !q.Reads():
			q.K, q.A, q.B, q.B2, q.TransA, q.TransB = 0, planner.Matrix{}, planner.Matrix{},
				planner.Matrix{}, false, true
			if r.options.TypeB == element.Int4 { // which is not transposed
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
