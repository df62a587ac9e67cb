package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/bench"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

const (
	repeats = 5                     // samples, whose median counts
	sample  = 40 * time.Millisecond // least duration of a sample, if a run is shorter
	mostOf  = 4096                  // dispatches in a submission
)

// job is what the page computes: a batch or a layer.
type job interface {
	methods() []maker
	flops() float64
	check(c []float32) (reference.Errors, error) // against float64
}

// maker prepares a method. The first of a job is the library's.
type maker struct {
	name string
	make func(context.Context) (method, error)
}

// method is one way to compute a job.
type method interface {
	// once computes C, or y of a layer, from its initial contents, and returns it.
	once(ctx context.Context) ([]float32, error)
	// time returns the duration of that many runs, including the wait for their end.
	time(ctx context.Context, runs int) (time.Duration, error)
	// dispatches returns the number of dispatches in a run.
	dispatches() int
	io.Closer
}

// resultView is the measurement of a method.
type resultView struct {
	Name       string  `json:"name"`
	Dispatches int     `json:"dispatches"`
	Runs       int     `json:"runs"` // in a sample
	Micros     float64 `json:"micros"`
	Min        float64 `json:"min"`
	Max        float64 `json:"max"`
	GFLOPs     float64 `json:"gflops"` // per second
	Worst      float64 `json:"worst"`  // error, relative to its bound
	Wrong      string  `json:"wrong"`  // what verification found
}

func (b *batch) methods() []maker {
	return []maker{{"batchgemm", b.batched}, {"one dispatch per problem", b.single},
		{"a naive kernel", b.naive}}
}

func (b *batch) flops() float64 { return b.plan.Batch.FLOPs() }

func (b *batch) check(c []float32) (reference.Errors, error) {
	how := reference.Arithmetic{FlushesSubnormals: b.device.Info().FlushesSubnormals}
	return reference.CheckIn(how, b.plan.Batch, b.A, b.B, b.C, c)
}

// measured runs the job by all its methods on the same device, verifies each, and measures.
func (s *session) measured(ctx context.Context) (results []resultView, err error) {
	if s.job == nil {
		return nil, errors.New("there is no plan to run")
	}
	var methods []bench.Method
	for _, m := range s.job.methods() {
		s.state("%s: preparing", m.name)
		made, err := m.make(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		defer func() { err = errors.Join(err, made.Close()) }()
		view := resultView{Name: m.name, Dispatches: made.dispatches()}
		if err := s.verify(ctx, made, &view); err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		if view.Runs, err = enough(ctx, made); err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		runs := view.Runs
		methods = append(methods, bench.Method{Name: m.name,
			Sample: func(ctx context.Context) (bench.Sample, error) {
				took, err := made.time(ctx, runs)
				return bench.Sample{Device: took / time.Duration(runs)}, err
			}})
		results = append(results, view)
	}
	s.state("measuring, in turn")
	found, err := bench.Measure(ctx, methods, repeats, 0)
	if err != nil {
		return nil, err
	}
	for i, f := range found {
		r := &results[i]
		r.Micros, r.Min, r.Max = f.Device.Median, f.Device.Min, f.Device.Max
		if r.Micros > 0 {
			r.GFLOPs = s.job.flops() / r.Micros / 1e3
		}
	}
	return results, nil
}

// verify runs a method once and compares with float64.
func (s *session) verify(ctx context.Context, m method, view *resultView) error {
	s.state("%s: running once", view.Name)
	after, err := m.once(ctx)
	if err != nil {
		return err
	}
	s.state("%s: checking against float64", view.Name)
	errs, err := s.job.check(after)
	view.Worst = errs.Worst
	if err != nil {
		view.Wrong = err.Error()
	}
	return nil
}

// enough returns how many runs a sample takes.
func enough(ctx context.Context, m method) (runs int, err error) {
	for runs = 1; ; runs *= 2 {
		took, err := m.time(ctx, runs)
		if err != nil || took >= sample || 2*runs*m.dispatches() > mostOf {
			return runs, err
		}
	}
}

// held is what a method closes, in reverse order.
type held []io.Closer

func (h held) Close() (err error) {
	for _, c := range slices.Backward(h) {
		err = errors.Join(err, c.Close())
	}
	return err
}

// programs are a method of the library for a batch: one program for all problems, or one for each.
type programs struct {
	held
	of   *batch
	runs []dispatch.Run
	c    *dispatch.Buffer
}

func (b *batch) batched(ctx context.Context) (method, error) { return b.prepared(ctx, b.plan) }

// single has a plan of one launch for each problem.
func (b *batch) single(ctx context.Context) (method, error) {
	var plans []*planner.Plan
	for i := range b.plan.Batch {
		plan, err := b.device.Plan(ctx, b.plan.Batch[i:i+1],
			planner.Options{Schedule: planner.ScheduleDataParallel})
		if err != nil {
			return nil, err
		}
		plans = append(plans, plan)
	}
	return b.prepared(ctx, plans...)
}

func (b *batch) prepared(ctx context.Context, plans ...*planner.Plan) (_ method, err error) {
	p := &programs{of: b}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	var with dispatch.Operands
	for _, operand := range []struct {
		buffer  **dispatch.Buffer
		numbers []float32
	}{{&with.A, b.A}, {&with.B, b.B}, {&with.C, b.C}} {
		if *operand.buffer, err = written(ctx, b.device, &p.held, operand.numbers); err != nil {
			return nil, err
		}
	}
	p.c = with.C
	for i, plan := range plans {
		if len(plans) > 1 {
			b.state("one dispatch per problem: preparing %d of %d", i+1, len(plans))
		}
		program, err := b.device.Prepare(ctx, plan)
		if err != nil {
			return nil, err
		}
		p.held = append(p.held, program)
		p.runs = append(p.runs, program.With(with))
	}
	return p, nil
}

// written returns a buffer with numbers.
func written[T float32 | int32](ctx context.Context, d *dispatch.Device, h *held,
	numbers []T) (*dispatch.Buffer, error) {
	b, err := d.NewBuffer(element.F32, len(numbers))
	if err != nil {
		return nil, err
	}
	*h = append(*h, b)
	return b, dispatch.Write(ctx, b, 0, numbers)
}

func (p *programs) once(ctx context.Context) ([]float32, error) {
	if err := p.of.device.Run(ctx, p.runs...); err != nil {
		return nil, err
	}
	c := make([]float32, p.c.Len())
	return c, dispatch.Read(ctx, p.c, 0, c)
}

// time is that of one submission.
func (p *programs) time(ctx context.Context, runs int) (time.Duration, error) {
	t, err := p.of.device.Time(ctx, slices.Repeat(p.runs, runs)...)
	return t.Wall, err
}

func (p *programs) dispatches() int {
	n := 0
	for _, r := range p.runs {
		n += len(r.Program.Plan().Launches)
	}
	return n
}
