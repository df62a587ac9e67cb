package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/hostmem"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
)

// layerForm is a layer of gated experts, as the page asks for it.
type layerForm struct {
	Tokens       int     `json:"tokens"`
	Experts      int     `json:"experts"`
	Top          int     `json:"top"`
	Hidden       int     `json:"hidden"`
	Intermediate int     `json:"intermediate"`
	Skew         float64 `json:"skew"`
}

// layerView is a planned layer for the page.
type layerView struct {
	Micros float64     `json:"micros"` // time of planning
	GFLOP  float64     `json:"gflop"`
	Layer  layerCounts `json:"layer"`
}

type layerCounts struct {
	Experts  int      `json:"experts"`
	Busy     int      `json:"busy"` // experts that have rows
	Rows     int      `json:"rows"`
	Most     int      `json:"most"`  // rows of an expert
	Tiles    []string `json:"tiles"` // of both products; none: chosen in each run
	Launches int      `json:"launches"`
}

// layer is a layer of experts with its operands.
type layer struct {
	*session
	reference.Experts
	rows     []int // of each expert
	launches int   // of its plans
}

// plannedLayer opens the device, plans a layer, and draws its numbers.
func (s *session) plannedLayer(ctx context.Context, r *request) (*layerView, error) {
	s.job = nil
	f := r.Layer
	if f.Top > f.Experts {
		return nil, fmt.Errorf("a token cannot have %d of %d experts", f.Top, f.Experts)
	}
	if err := s.open(ctx, r.Backend); err != nil {
		return nil, err
	}
	info := s.device.Info()
	l := &layer{session: s, Experts: reference.Experts{FlushesSubnormals: info.FlushesSubnormals,
		Layer: planner.Experts{Choices: planner.Choices{Tokens: f.Tokens, TopK: f.Top, Experts: f.Experts},
			Hidden: f.Hidden, Intermediate: f.Intermediate, TransB: true, Gated: true,
			Activation: planner.SiLU}}}
	start := time.Now()
	plan, err := planner.New(&info.Planner).PlanExperts(l.Layer, planner.Options{})
	if err != nil {
		return nil, err
	}
	took := time.Since(start)
	if err := l.draw(f.Skew); err != nil {
		return nil, err
	}
	v := l.view(plan.Steps)
	v.Micros = float64(took.Nanoseconds()) / 1e3
	s.job = l
	return v, nil
}

// view counts what the layer and its plans have.
func (l *layer) view(plans []*planner.Plan) *layerView {
	v := &layerView{GFLOP: l.flops() / 1e9}
	c := &v.Layer
	c.Experts, c.Rows, c.Tiles = len(l.rows), len(l.Index), []string{}
	for _, n := range l.rows {
		c.Busy += min(n, 1)
		c.Most = max(c.Most, n)
	}
	for _, plan := range plans {
		c.Launches += max(len(plan.Launches), 1) // the CPU plans its products in each run
		for _, launch := range plan.Launches {
			if t := launch.Tile; t != nil && !slices.Contains(c.Tiles, t.Name) {
				c.Tiles = append(c.Tiles, t.Name)
			}
		}
	}
	l.launches = c.Launches
	return v
}

// draw makes the router's choices and the numbers.
func (l *layer) draw(skew float64) error {
	of, rng := &l.Layer, rand.New(rand.NewPCG(1, 0))
	tokens, weights := of.Tokens*of.Hidden, of.Experts*of.Intermediate*of.Hidden
	if err := hostmem.Check(hostmem.Size(tokens, tokens, 3*weights)); err != nil {
		return fmt.Errorf("the layer: %w", err)
	}
	l.Index = workload.Choices(of.Experts, of.TopK, of.Tokens, skew, 1)
	l.rows = make([]int, of.Experts)
	for _, e := range l.Index {
		l.rows[e]++
	}
	for _, operand := range []struct {
		numbers *[]float32
		n       int
	}{{&l.X, tokens}, {&l.Weights, len(l.Index)}, {&l.GateUp, 2 * weights}, {&l.Down, weights}} {
		*operand.numbers = make([]float32, operand.n)
		reference.Uniform(rng, *operand.numbers)
	}
	return nil
}

func (l *layer) methods() []maker {
	return []maker{{"batchgemm", l.atOnce}, {"routing on the host", l.byHost}}
}

// flops are those of three products.
func (l *layer) flops() float64 {
	return 6 * float64(len(l.Index)) * float64(l.Layer.Hidden) * float64(l.Layer.Intermediate)
}

func (l *layer) check(y []float32) (reference.Errors, error) { return l.Check(y) }

// layerMethod runs the layer. A run queues work, and may wait.
type layerMethod struct {
	*layer
	held
	with  dispatch.ExpertOperands
	run   func(context.Context) error
	count int // dispatches of a run
}

func (m *layerMethod) once(ctx context.Context) ([]float32, error) {
	if err := m.run(ctx); err != nil {
		return nil, err
	}
	y := make([]float32, m.with.Y.Len())
	return y, dispatch.Read(ctx, m.with.Y, 0, y)
}

func (m *layerMethod) time(ctx context.Context, runs int) (time.Duration, error) {
	start := time.Now()
	for range runs {
		if err := m.run(ctx); err != nil {
			return 0, err
		}
	}
	err := m.device.Wait(ctx)
	return time.Since(start), err
}

func (m *layerMethod) dispatches() int { return m.count }

// method makes a method that has the operands. prepare sets its run.
func (l *layer) method(ctx context.Context, prepare func(context.Context, *layerMethod) error) (_ method,
	err error) {
	m := &layerMethod{layer: l}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	for _, operand := range []struct {
		buffer  **dispatch.Buffer
		numbers []float32
	}{{&m.with.X, l.X}, {&m.with.Weights, l.Weights}, {&m.with.GateUp, l.GateUp}, {&m.with.Down, l.Down},
		{&m.with.Y, make([]float32, len(l.X))}} {
		if *operand.buffer, err = written(ctx, l.device, &m.held, operand.numbers); err != nil {
			return nil, err
		}
	}
	index := make([]int32, len(l.Index))
	for i, e := range l.Index {
		index[i] = int32(e)
	}
	if m.with.Index, err = written(ctx, l.device, &m.held, index); err != nil {
		return nil, err
	}
	return m, prepare(ctx, m)
}

// atOnce is the layer in one submission, which knows nothing of the router's choices.
func (l *layer) atOnce(ctx context.Context) (method, error) {
	return l.method(ctx, func(ctx context.Context, m *layerMethod) error {
		experts, err := l.device.PrepareExperts(ctx, l.Layer, planner.Options{})
		if err != nil {
			return err
		}
		m.held = append(m.held, experts)
		m.run = func(ctx context.Context) error { return experts.Run(ctx, m.with) }
		m.count = l.launches
		return nil
	})
}
