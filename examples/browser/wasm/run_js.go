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

// method is one way to compute the batch.
type method interface {
	// once computes C from its initial contents, and returns it.
	once(ctx context.Context) ([]float32, error)
	// time returns the duration of a submission of that many runs, including the wait for its end.
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

// measured runs the plan and its rivals on the same device, verifies each, and measures.
func (s *session) measured(ctx context.Context) (results []resultView, err error) {
	if s.plan == nil {
		return nil, errors.New("there is no plan to run")
	}
	var methods []bench.Method
	for _, m := range []struct {
		name string
		make func(context.Context) (method, error)
	}{
		{"batchgemm", s.batched},
		{"one dispatch per problem", s.single},
		{"naive kernel", s.naive},
	} {
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
			r.GFLOPs = s.plan.Batch.FLOPs() / r.Micros / 1e3
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
	how := reference.Arithmetic{FlushesSubnormals: s.device.Info().FlushesSubnormals}
	o := s.load.Operands
	errs, err := reference.CheckIn(how, s.plan.Batch, o.A, o.B, o.C, after)
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

// programs are a method of the library: one program for all problems, or one for each.
type programs struct {
	s       *session
	runs    []dispatch.Run
	a, b, c *dispatch.Buffer
	closers []io.Closer
}

func (s *session) batched(ctx context.Context) (method, error) {
	return s.prepared(ctx, s.plan)
}

// single has a plan of one launch for each problem.
func (s *session) single(ctx context.Context) (method, error) {
	var plans []*planner.Plan
	for i := range s.plan.Batch {
		plan, err := s.device.Plan(ctx, s.plan.Batch[i:i+1],
			planner.Options{Schedule: planner.ScheduleDataParallel})
		if err != nil {
			return nil, err
		}
		plans = append(plans, plan)
	}
	return s.prepared(ctx, plans...)
}

func (s *session) prepared(ctx context.Context, plans ...*planner.Plan) (_ method, err error) {
	p := &programs{s: s}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	o := s.load.Operands
	for _, operand := range []struct {
		buffer  **dispatch.Buffer
		numbers []float32
	}{{&p.a, o.A}, {&p.b, o.B}, {&p.c, o.C}} {
		if *operand.buffer, err = s.device.NewBuffer(element.F32, len(operand.numbers)); err != nil {
			return nil, err
		}
		p.closers = append(p.closers, *operand.buffer)
		if err = dispatch.Write(ctx, (*operand.buffer), 0, operand.numbers); err != nil {
			return nil, err
		}
	}
	for i, plan := range plans {
		if len(plans) > 1 {
			s.state("one dispatch per problem: preparing %d of %d", i+1, len(plans))
		}
		program, err := s.device.Prepare(ctx, plan)
		if err != nil {
			return nil, err
		}
		p.closers = append(p.closers, program)
		p.runs = append(p.runs, program.With(dispatch.Operands{A: p.a, B: p.b, C: p.c}))
	}
	return p, nil
}

func (p *programs) once(ctx context.Context) ([]float32, error) {
	if err := p.s.device.Run(ctx, p.runs...); err != nil {
		return nil, err
	}
	c := make([]float32, p.c.Len())
	return c, dispatch.Read(ctx, p.c, 0, c)
}

func (p *programs) time(ctx context.Context, runs int) (time.Duration, error) {
	t, err := p.s.device.Time(ctx, slices.Repeat(p.runs, runs)...)
	return t.Wall, err
}

func (p *programs) dispatches() int {
	n := 0
	for _, r := range p.runs {
		n += len(r.Program.Plan().Launches)
	}
	return n
}

// Close closes in reverse order.
func (p *programs) Close() (err error) {
	for _, c := range slices.Backward(p.closers) {
		err = errors.Join(err, c.Close())
	}
	return err
}
