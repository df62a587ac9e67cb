package hostgemm

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// maxPrograms is how many batches GEMM remembers.
const maxPrograms = 32

// task is one call.
type task struct {
	batch   planner.Batch
	options planner.Options
	Operands
	have   planner.Lengths // of the operands
	places places          // for a device in the host
}

// newTask checks the arguments of a call, except the batch.
func newTask(batch planner.Batch, o planner.Options, x Operands) (t task, err error) {
	if o.TypeA != element.F32 || o.TypeC != element.F32 {
		return t, invalid.Errorf("operands on the host are of %s, not %s and %s", element.F32, o.TypeA,
			o.TypeC)
	}
	t = task{batch: batch, options: o, Operands: x, have: x.Lengths()}
	return t, CheckEpilogue(&o, t.have)
}

// session is what GEMM keeps between calls on some devices. The holder of all their turns owns it.
type session struct {
	hosts   []*Host
	entries []*entry     // most recently used first
	plan    planner.Plan // the last one
}

// entry is a batch made ready with some options.
type entry struct {
	batch   planner.Batch // a copy
	options planner.Options
	places  places
	extents planner.Lengths // least lengths of operands
	parts   [][]*part       // for each device
	results int             // elements of all results
	inPlace bool            // one part, of the whole batch, for a device in the host
}

// run computes the batch on the session's only device.
func (s *session) run(ctx context.Context, t *task) error {
	e, err := s.findInPlace(ctx, t)
	if e == nil && err == nil {
		e, err = s.packed(ctx, t)
	}
	if err != nil {
		return err
	}
	return s.execute(ctx, e, t)
}

// packed remembers a checked batch in parts.
func (s *session) packed(ctx context.Context, t *task) (*entry, error) {
	parts, err := cut(ctx, t.batch, &t.options.Epilogue, everything(t.batch))
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 { // no plan checks the options
		if _, err := s.hosts[0].planner.Plan(ctx, nil, t.options); err != nil {
			return nil, err
		}
	}
	return s.remember(ctx, t, &entry{parts: [][]*part{parts}})
}

func everything(batch planner.Batch) []int {
	all := make([]int, len(batch))
	for i := range all {
		all[i] = i
	}
	return all
}

// find returns the task's entry if it is remembered. Otherwise it checks the batch and the lengths, and
// returns nil. Comparing batches ends at the first difference, so no hash is needed.
func (s *session) find(ctx context.Context, t *task) (*entry, error) {
	for i, e := range s.entries {
		if e.options != t.options || e.places != t.places || !slices.Equal(e.batch, t.batch) {
			continue
		}
		if !enough(t.have, e.extents) {
			break
		}
		copy(s.entries[1:i+1], s.entries[:i])
		s.entries[0] = e
		return e, nil
	}
	if err := roomToPack(t.batch); err != nil {
		return nil, err
	}
	return nil, t.batch.Check(ctx, t.options.Epilogue, t.have)
}

// enough reports whether operands are as long as they must be.
func enough(have, need planner.Lengths) bool {
	return have.A >= need.A && have.B >= need.B && have.C >= need.C && have.B2 >= need.B2 &&
		have.Bias >= need.Bias && have.Rows >= need.Rows
}

// remember makes the parts of a task ready. If there are too many entries, it forgets the least recently
// used one.
func (s *session) remember(ctx context.Context, t *task, e *entry) (*entry, error) {
	e.batch, e.options, e.places = slices.Clone(t.batch), t.options, t.places
	e.extents = t.batch.Lengths(t.options.Epilogue)
	options := t.options
	if !e.inPlace {
		options.Epilogue = onDevice(options.Epilogue)
	}
	old := s.oldest()
	for i, own := range e.parts {
		for n, p := range own {
			p.first = e.results
			e.results += p.sizes[operandC]
			if i < len(old.parts) && n < len(old.parts[i]) {
				p.program, old.parts[i][n].program = old.parts[i][n].program, nil
			}
			if err := p.prepare(ctx, s.hosts[i], &s.plan, options); err != nil {
				_ = errors.Join(e.close(), old.close()) // the first error counts
				return nil, s.name(i, err)
			}
		}
	}
	s.entries = slices.Insert(s.entries, 0, e)
	return e, old.close()
}

// oldest removes the least recently used entry if there is no room for one more. A new entry can reuse its
// programs.
func (s *session) oldest() *entry {
	last := len(s.entries) - 1
	if len(s.entries) < maxPrograms {
		return new(entry)
	}
	old := s.entries[last]
	s.entries = slices.Delete(s.entries, last, last+1)
	return old
}

// prepare gives the part's program its batch, or makes a program, with a plan in reused memory.
func (p *part) prepare(ctx context.Context, h *Host, plan *planner.Plan, o planner.Options) error {
	batch := p.batch
	p.batch = nil         // the program has it
	if p.program != nil { // batches change
		if err := h.planner.Renew(ctx, plan, batch, o); err != nil {
			return err
		}
		return p.program.Update(ctx, plan)
	}
	err := h.planner.Replan(ctx, plan, batch, o)
	if err == nil {
		p.program, err = h.device.Prepare(ctx, plan)
	}
	return err
}

func (e *entry) close() (err error) {
	for _, own := range e.parts {
		for _, p := range own {
			if p.program == nil {
				continue
			}
			if failed := p.program.Close(); err == nil {
				err = failed
			}
		}
	}
	return err
}

// execute computes the parts. Unless that is done in place, results are staged in host memory: when nothing
// can fail any more, it copies them to c.
func (s *session) execute(ctx context.Context, e *entry, t *task) error {
	if err := ctx.Err(); err != nil || e.results == 0 {
		return err
	}
	defer s.trim()
	if err := s.room(e, t); err != nil {
		return fmt.Errorf("memory for the results: %w", err)
	}
	if e.inPlace {
		return s.hosts[0].device.(backend.InHost).Compute(ctx, e.parts[0][0].program, t.all())
	}
	results, err := staged.take(e.results)
	if err != nil {
		return fmt.Errorf("memory for the results: %w", err)
	}
	defer staged.give(results)
	if len(e.parts) > 1 || len(e.parts[0]) > 1 {
		return s.executeParts(ctx, e, t, results)
	}
	h, p := s.hosts[0], e.parts[0][0]
	if err := h.lanes[0].compute(ctx, h.device, p, t, results); err != nil {
		return err
	}
	p.scatter(results, t.C, t.Rows)
	return nil
}

func (s *session) executeParts(ctx context.Context, e *entry, of *task, results []float32) error {
	t := *of // so that callers need not allocate it
	err := s.each(ctx, e, func(ctx context.Context, h *Host, l *lane, p *part) error {
		return l.compute(ctx, h.device, p, &t, results)
	})
	if err != nil {
		return err
	}
	return s.each(context.WithoutCancel(ctx), e, func(_ context.Context, _ *Host, _ *lane, p *part) error {
		p.scatter(results, t.C, t.Rows)
		return nil
	})
}

// each does the work for every part, on the lanes of all devices at once. The first error ends it.
func (s *session) each(ctx context.Context, e *entry, work func(context.Context, *Host, *lane,
	*part) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		group sync.WaitGroup
		once  sync.Once
		first error
	)
	lanes := s.lanes()
	for i, parts := range e.parts {
		next := new(atomic.Int64)
		for l := range min(lanes, len(parts)) {
			group.Go(func() {
				for ctx.Err() == nil {
					n := int(next.Add(1)) - 1
					if n >= len(parts) {
						return
					}
					if err := work(ctx, s.hosts[i], &s.hosts[i].lanes[l], parts[n]); err != nil {
						once.Do(func() { first = s.name(i, err) })
						cancel()
						return
					}
				}
			})
		}
	}
	group.Wait()
	if first != nil {
		return first
	}
	return ctx.Err()
}

// lanes returns how many lanes a device uses.
func (s *session) lanes() int { return max(1, min(maxLanes, runtime.GOMAXPROCS(0)/len(s.hosts))) }

// name adds to an error which of several devices failed.
func (s *session) name(i int, err error) error {
	if err == nil || len(s.hosts) == 1 {
		return err
	}
	info := s.hosts[i].device.Info()
	return fmt.Errorf("device %d (%s): %w", info.Index, info.Name, err)
}

func (s *session) trim() {
	for _, h := range s.hosts {
		h.trim()
	}
}
