package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// The sizes of the network. Each figure has its own weights, and in a frame as many rows as it has visible
// points.
const (
	figures = 24
	inputs  = 12
	hidden  = 48
	outputs = 3
	maxRows = 64
)

// network is two layers on a device. Intermediate results stay there.
type network struct {
	device        *dispatch.Device
	rng           *rand.Rand
	rows          []int // of each figure
	first, second *dispatch.Program
	x, h, y       *dispatch.Buffer
	up, down      *dispatch.Buffer // slices of one buffer of weights
	points        []float32        // what the host writes for each frame
	result        []float32
}

// layer is a product for each figure.
func layer(rows []int, n, k int) (planner.Batch, error) {
	problems := make([]planner.Problem, len(rows))
	for i, m := range rows {
		problems[i] = planner.GEMM(m, n, k)
	}
	return planner.Pack(problems...)
}

// relu is the epilogue of the first layer.
var relu = planner.Options{Epilogue: planner.Epilogue{Activation: planner.ReLU}}

func newNetwork(ctx context.Context, device *dispatch.Device) (*network, error) {
	n := &network{device: device, rng: rand.New(rand.NewPCG(1, 1)),
		points: make([]float32, figures*maxRows*inputs), result: make([]float32, figures*maxRows*outputs)}
	n.rows = slices.Repeat([]int{maxRows}, figures)
	for _, l := range []struct {
		program **dispatch.Program
		n, k    int
		options planner.Options
	}{{&n.first, hidden, inputs, relu}, {&n.second, outputs, hidden, planner.Options{}}} {
		batch, err := layer(n.rows, l.n, l.k)
		if err != nil {
			return nil, err
		}
		if warmed := device.Warmed(); warmed.Len() > 0 {
			l.options.Kernels = warmed // updates of the program compile nothing
		}
		plan, err := device.Plan(ctx, batch, l.options)
		if err != nil {
			return nil, err
		}
		if *l.program, err = device.Prepare(ctx, plan); err != nil {
			return nil, err
		}
	}
	return n, n.allocate(ctx)
}

// allocate makes buffers for the largest number of rows, and writes the weights, which do not change.
func (n *network) allocate(ctx context.Context) error {
	const lenUp, lenDown = figures * inputs * hidden, figures * hidden * outputs
	const atDown = (lenUp + 63) / 64 * 64 // slices start at multiples of 64 float32
	var weights *dispatch.Buffer
	for _, b := range []struct {
		to **dispatch.Buffer
		n  int
	}{{&weights, atDown + lenDown}, {&n.x, len(n.points)}, {&n.h, figures * maxRows * hidden},
		{&n.y, len(n.result)}} {
		made, err := n.device.NewBuffer(element.F32, b.n)
		if err != nil {
			return err
		}
		*b.to = made
	}
	values := make([]float32, weights.Len())
	for i := range values {
		values[i] = n.rng.Float32() - 0.5
	}
	var err, failed error
	n.up, err = weights.Slice(0, lenUp)
	n.down, failed = weights.Slice(atDown, lenDown)
	return errors.Join(err, failed, dispatch.Write(ctx, weights, 0, values))
}

// resize gives each figure a new number of rows.
func (n *network) resize() {
	for i := range n.rows {
		n.rows[i] = 1 + n.rng.IntN(maxRows)
	}
}

// start computes the network for the figures of a frame and returns without waiting. The result is in
// n.result when the reading is done.
func (n *network) start(ctx context.Context, frame int) (*dispatch.Reading, error) {
	total := 0
	for _, m := range n.rows {
		total += m
	}
	up, err := layer(n.rows, hidden, inputs)
	if err != nil {
		return nil, err
	}
	down, err := layer(n.rows, outputs, hidden)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(n.first.Update(ctx, up), n.second.Update(ctx, down)); err != nil {
		return nil, err
	}
	points := n.points[:total*inputs]
	for i := range points {
		points[i] = float32((i+frame)%17) / 17
	}
	if err := dispatch.Write(ctx, n.x, 0, points); err != nil {
		return nil, err
	}
	if err := n.device.Run(ctx,
		n.first.With(dispatch.Operands{A: n.x, B: n.up, C: n.h}),
		n.second.With(dispatch.Operands{A: n.h, B: n.down, C: n.y})); err != nil {
		return nil, err
	}
	return dispatch.ReadAsync(ctx, n.y, 0, n.result[:total*outputs]), nil
}
