package main

import (
	"context"
	"math"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/planner"
)

// hostRouted is the layer where the host routes. It reads the router's choices, which waits for the device,
// and writes lists of rows. Each product of each expert is a program of its own. Two things favour it: the
// programs are prepared before, for the rows that the experts have, and the router's weights are at hand.
type hostRouted struct {
	*layerMethod
	lists, between, results *dispatch.Buffer
	runs                    []dispatch.Run
}

func (l *layer) byHost(ctx context.Context) (method, error) {
	return l.method(ctx, func(ctx context.Context, m *layerMethod) (err error) {
		h, choices := &hostRouted{layerMethod: m}, len(l.Index)
		for _, b := range []struct {
			buffer **dispatch.Buffer
			n      int
		}{{&h.lists, 3 * choices}, {&h.between, choices * l.Layer.Intermediate},
			{&h.results, choices * l.Layer.Hidden}} {
			if *b.buffer, err = written(ctx, l.device, &m.held, make([]int32, b.n)); err != nil {
				return err
			}
		}
		m.run = h.queue
		return h.prepare(ctx)
	})
}

// queue routes and queues the products.
func (h *hostRouted) queue(ctx context.Context) error {
	index := make([]int32, len(h.Index))
	if err := dispatch.Read(ctx, h.with.Index, 0, index); err != nil {
		return err
	}
	if err := dispatch.Write(ctx, h.lists, 0, h.route(index)); err != nil {
		return err
	}
	return h.device.Run(ctx, h.runs...)
}

// route returns three lists, with a word for each row in the order of experts: its token, its choice, and the
// bits of its weight.
func (h *hostRouted) route(index []int32) []int32 {
	next := make([]int, h.Layer.Experts) // row of each expert
	for e := range next[1:] {
		next[e+1] = next[e] + h.rows[e]
	}
	lists := make([]int32, 3*len(index))
	tokens, choices, weights := lists[:len(index)], lists[len(index):2*len(index)], lists[2*len(index):]
	for i, e := range index {
		row := next[e]
		next[e]++
		tokens[row], choices[row] = int32(i/h.Layer.TopK), int32(i)
		weights[row] = int32(math.Float32bits(h.Weights[i]))
	}
	return lists
}

// prepare makes the runs: of the first products, of the second ones, and of the sums.
func (h *hostRouted) prepare(ctx context.Context) error {
	of, all := &h.Layer, len(h.Index)
	n, k := of.Intermediate, of.Hidden
	var first, second planner.Batch
	row := 0
	for e, rows := range h.rows {
		between := planner.Matrix{Offset: row * n, LD: n}
		first = append(first, planner.Problem{M: rows, N: n, K: k, TransB: true, RowsA: row,
			A: planner.Matrix{LD: k}, B: planner.Matrix{Offset: 2 * e * n * k, LD: k},
			B2: planner.Matrix{Offset: (2*e + 1) * n * k, LD: k}, C: between})
		second = append(second, planner.Problem{M: rows, N: k, K: n, TransB: true, RowsC: all + row,
			Weights: 2*all + row, A: between, B: planner.Matrix{Offset: e * n * k, LD: n},
			C: planner.Matrix{LD: k}})
		row += rows
	}
	if err := h.add(ctx, first, planner.Epilogue{Activation: of.Activation, Gated: true,
		GatherRows: of.Tokens}, dispatch.Operands{A: h.with.X, B: h.with.GateUp, B2: h.with.GateUp,
		C: h.between, Rows: h.lists}); err != nil {
		return err
	}
	if err := h.add(ctx, second, planner.Epilogue{ScatterRows: all, Weights: true}, dispatch.Operands{
		A: h.between, B: h.with.Down, C: h.results, Rows: h.lists}); err != nil {
		return err
	}
	sum, err := h.device.PrepareStep(ctx, planner.Combine{Choices: of.Choices, Hidden: k})
	if err != nil {
		return err
	}
	h.hold(sum, dispatch.Operands{A: h.results, C: h.with.Y, Sizes: h.with.Index})
	return nil
}

// add prepares a program for each problem that has rows.
func (h *hostRouted) add(ctx context.Context, problems planner.Batch, e planner.Epilogue,
	with dispatch.Operands) error {
	o := planner.Options{Schedule: planner.ScheduleDataParallel, Epilogue: e}
	for i := range problems {
		if problems[i].M == 0 {
			continue
		}
		h.state("routing on the host: preparing expert %d of %d", i+1, len(problems))
		plan, err := h.device.Plan(ctx, problems[i:i+1], o)
		if err != nil {
			return err
		}
		program, err := h.device.Prepare(ctx, plan)
		if err != nil {
			return err
		}
		h.hold(program, with)
	}
	return nil
}

func (h *hostRouted) hold(p *dispatch.Program, with dispatch.Operands) {
	h.held = append(h.held, p)
	h.runs = append(h.runs, p.With(with))
	h.count += len(p.Plan().Launches)
}
