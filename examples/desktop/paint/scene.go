package paint

import (
	"context"
	"errors"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// scene is the mixture on a device: three ragged programs, which read for each picture how many rows every
// expert has. Only biases and routing change. Everything lives as long as its device.
type scene struct {
	device          *dispatch.Device
	programs        [layers]*dispatch.Program
	weights, biases [layers]*dispatch.Buffer
	rows            [layers + 1]*dispatch.Buffer // of places, between layers, and of the picture
	routed, ends    *dispatch.Buffer
	mixture         *mixture
}

// newScene reports how many of the programs are ready, because WebGPU compiles their kernels. (Device.Warm
// would compile those of all plans. These programs stay, and have all that they need for any sizes.)
func newScene(ctx context.Context, device *dispatch.Device, progress func(ready, all int)) (*scene, error) {
	s := &scene{device: device, mixture: newMixture(1)}
	if err := s.prepare(ctx, progress); err != nil {
		return nil, err
	}
	for _, b := range []struct {
		to   **dispatch.Buffer
		len  int
		data []float32
	}{
		{&s.rows[0], pixels * inputs, s.mixture.places}, {&s.rows[1], pixels * hidden, nil},
		{&s.rows[2], pixels * hidden, nil},
		{&s.rows[3], pixels * outputs, nil}, {&s.routed, 2 * pixels, nil}, {&s.ends, Experts, nil},
		{&s.weights[0], len(s.mixture.weights[0]), s.mixture.weights[0]},
		{&s.biases[0], len(s.mixture.biases[0]), nil},
		{&s.weights[1], len(s.mixture.weights[1]), s.mixture.weights[1]},
		{&s.biases[1], len(s.mixture.biases[1]), s.mixture.biases[1]},
		{&s.weights[2], len(s.mixture.weights[2]), s.mixture.weights[2]},
		{&s.biases[2], len(s.mixture.biases[2]), s.mixture.biases[2]},
	} {
		var err error
		if *b.to, err = device.NewBuffer(element.F32, b.len); err != nil {
			return nil, err
		}
		if err := dispatch.Write(ctx, (*b.to), 0, b.data); err != nil {
			return nil, err
		}
	}
	progress(layers, layers)
	return s, nil
}

// prepare prepares the programs at the same time: software adapters compile their kernels on all cores.
func (s *scene) prepare(ctx context.Context, progress func(ready, all int)) (err error) {
	progress(0, layers)
	ready := make(chan error)
	for l := range layers {
		go func() {
			var err error
			s.programs[l], err = s.device.PrepareRagged(ctx, perExpert(columns[l+1], columns[l]),
				planner.Options{Epilogue: epilogue(l)})
			ready <- err
		}()
	}
	for n := range layers {
		err = errors.Join(err, <-ready)
		if n < layers-1 {
			progress(n+1, layers)
		}
	}
	return err
}

// perExpert describes rows of length k, one for each pixel, times the n columns of their expert. All pixels
// are always painted, so the plan needs no second tile shape for fewer.
func perExpert(n, k int) planner.Ragged {
	return planner.Ragged{
		Form: planner.EndsOfRows, Groups: Experts,
		M: pixels, N: n, K: k, Mean: planner.Sizes{M: pixels / Experts},
		A: planner.Matrix{LD: k}, B: planner.Matrix{LD: n}, C: planner.Matrix{LD: n},
		StrideB: k * n, StrideBias: n,
		Weights: pixels,
	}
}

// epilogue returns that of a layer. The first layer finds the rows of each expert among those of all pixels.
// The last one puts them back, with their brightness.
func epilogue(layer int) planner.Epilogue {
	switch layer {
	case 0:
		return planner.Epilogue{Activation: planner.SiLU, Bias: true, GatherRows: pixels}
	case layers - 1:
		return planner.Epilogue{Activation: planner.ReLU, Bias: true, ScatterRows: pixels, Weights: true}
	}
	return planner.Epilogue{Activation: planner.SiLU, Bias: true}
}

// start queues the picture of a time, and returns without waiting. The picture is in light when the reading
// is done.
func (s *scene) start(ctx context.Context, time float64, r *routing, light []float32) (*dispatch.Reading,
	error) {
	r.route(time)
	s.mixture.move(time)
	if err := dispatch.Write(ctx, s.routed, 0, r.rows); err != nil {
		return nil, err
	}
	if err := dispatch.Write(ctx, s.ends, 0, r.ends); err != nil {
		return nil, err
	}
	if err := dispatch.Write(ctx, s.biases[0], 0, s.mixture.biases[0]); err != nil {
		return nil, err
	}
	runs := make([]dispatch.Run, layers)
	for l := range runs {
		runs[l] = s.programs[l].With(dispatch.Operands{A: s.rows[l], B: s.weights[l], C: s.rows[l+1],
			Bias: s.biases[l], Sizes: s.ends})
		if e := epilogue(l); e.UsesRows() {
			runs[l].Rows = s.routed
		}
	}
	if err := s.device.Run(ctx, runs...); err != nil {
		return nil, err
	}
	return dispatch.ReadAsync(ctx, s.rows[layers], 0, light), nil
}
