//go:build cgo && linux && (amd64 || arm64)

package main

// #include "internal.h"
import "C"

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

//export goPrepareRouting
func goPrepareRouting(mask *C.sigset_t, device C.bg_device, choices *C.bg_choices, name *C.char,
	out *C.bg_program) C.bg_status {
	return call(mask, func() error {
		return prepareStep(device, choices, name, out, func(c planner.Choices, of element.Type) (planner.Step,
			error) {
			return planner.Routing{Choices: c, Weights: of}, nil
		})
	})
}

//export goPrepareCombine
func goPrepareCombine(mask *C.sigset_t, device C.bg_device, choices *C.bg_choices, hidden C.int64_t,
	name *C.char, out *C.bg_program) C.bg_status {
	return call(mask, func() error {
		return prepareStep(device, choices, name, out, func(c planner.Choices, of element.Type) (planner.Step,
			error) {
			return planner.Combine{Choices: c, Hidden: int(hidden), Type: of}, nil
		})
	})
}

// prepareStep makes a program of the step that choices and a type of elements describe.
func prepareStep(device C.bg_device, choices *C.bg_choices, name *C.char, out *C.bg_program,
	describe func(planner.Choices, element.Type) (planner.Step, error)) error {
	return createOn(out, "program", device, func(d *dispatch.Device) (object, error) {
		c, err := choicesOf(choices)
		if err != nil {
			return nil, err
		}
		of, err := typeOf(name)
		if err != nil {
			return nil, err
		}
		step, err := describe(c, of)
		if err != nil {
			return nil, err
		}
		return notNil(d.PrepareStep(context.Background(), step))
	})
}

//export goPrepareGate
func goPrepareGate(mask *C.sigset_t, device C.bg_device, choices *C.bg_choices, gate *C.bg_gate,
	name *C.char, backward C.int, out *C.bg_program) C.bg_status {
	return call(mask, func() error {
		return prepareStep(device, choices, name, out, func(c planner.Choices, of element.Type) (planner.Step,
			error) {
			g, err := gateOf(gate)
			if err != nil {
				return nil, err
			}
			g.Choices, g.Type = c, of
			if backward != 0 {
				return planner.GateBackward{Gate: g}, nil
			}
			return g, nil
		})
	})
}

// gateOf copies a gate. The rule of batchOf for newer versions holds.
func gateOf(g *C.bg_gate) (to planner.Gate, err error) {
	own, err := flagged("gate", g, firstGate, C.BG_GATED|C.BG_INTERLEAVED|C.BG_ALL_ROWS, "scales")
	if err != nil {
		return to, err
	}
	to = planner.Gate{Intermediate: int(own.intermediate), Gated: own.flags&C.BG_GATED != 0,
		Interleaved: own.flags&C.BG_INTERLEAVED != 0, All: own.flags&C.BG_ALL_ROWS != 0,
		Activation: planner.Activation(textOf(own.activation)), Alpha: float32(own.alpha),
		Limit: float32(own.limit), Scale: planner.Scaling(textOf(own.scale)), Scales: int(own.scales)}
	to.TypeC, err = typeOf(own.type_c)
	return to, err
}

// textOf is a text, or "" of NULL.
func textOf(text *C.char) string {
	if text == nil {
		return ""
	}
	return C.GoString(text)
}

// The sizes of structs in their first version.
const (
	firstGate      = unsafe.Offsetof(C.bg_gate{}.alpha)
	firstExperts   = unsafe.Offsetof(C.bg_experts{}.alpha)
	firstOperands  = unsafe.Offsetof(C.bg_expert_operands{}.scales)
	firstExpertsAt = unsafe.Offsetof(C.bg_expert_addresses{}.scales)
)

// choicesOf copies a router's choices. The rule of batchOf for newer versions holds.
func choicesOf(c *C.bg_choices) (none planner.Choices, err error) {
	own, err := flagged("choices", c, C.sizeof_bg_choices, C.BG_INDEX_64, "experts")
	if err != nil {
		return none, err
	}
	return planner.Choices{Tokens: int(own.tokens), TopK: int(own.top_k), Experts: int(own.experts),
		Index64: own.flags&C.BG_INDEX_64 != 0}, nil
}

//export goPrepareExperts
func goPrepareExperts(mask *C.sigset_t, device C.bg_device, experts *C.bg_experts, weights, options *C.char,
	out *C.bg_program) C.bg_status {
	return call(mask, func() error {
		return createOn(out, "program", device, func(d *dispatch.Device) (object, error) {
			x, err := expertsOf(experts)
			if err != nil {
				return nil, err
			}
			if x.Weights, err = typeOf(weights); err != nil {
				return nil, err
			}
			o, err := optionsOf(d, options)
			if err != nil {
				return nil, err
			}
			// What else an epilogue has, the layer refuses.
			x.Activation, x.Gated, x.Bias = o.Epilogue.Activation, o.Epilogue.Gated, o.Epilogue.Bias
			o.Epilogue.Activation, o.Epilogue.Gated, o.Epilogue.Bias = "", false, false
			return notNil(d.PrepareExperts(context.Background(), x, o))
		})
	})
}

// expertsOf copies a layer. The rule of batchOf for newer versions holds.
func expertsOf(x *C.bg_experts) (none planner.Experts, err error) {
	const known = C.BG_INDEX_64 | C.BG_TRANS_B | C.BG_INTERLEAVED | C.BG_APART
	own, err := flagged("experts", x, firstExperts, known, "limit")
	if err != nil {
		return none, err
	}
	order := planner.GateUpJoined
	switch own.flags & (C.BG_INTERLEAVED | C.BG_APART) {
	case C.BG_INTERLEAVED:
		order = planner.GateUpInterleaved
	case C.BG_APART:
		order = planner.GateUpApart
	case C.BG_INTERLEAVED | C.BG_APART:
		return none, invalid("experts: flags ask for gate and up that are interleaved, and that are apart")
	}
	return planner.Experts{Choices: planner.Choices{Tokens: int(own.tokens), TopK: int(own.top_k),
		Experts: int(own.experts), Index64: own.flags&C.BG_INDEX_64 != 0},
		Hidden: int(own.hidden), Intermediate: int(own.intermediate),
		TransB: own.flags&C.BG_TRANS_B != 0, GateUp: order, Alpha: float32(own.alpha),
		Limit: float32(own.limit)}, nil
}

//export goExpertsScales
func goExpertsScales(mask *C.sigset_t, program C.bg_program, gateUp, down, words *C.int64_t) C.bg_status {
	return call(mask, func() error {
		if gateUp == nil || down == nil || words == nil {
			return invalid("gate_up, down or words is NULL")
		}
		x, err := find[*dispatch.Experts](program)
		if err != nil {
			return err
		}
		g, d, w := x.Scales()
		*gateUp, *down, *words = C.int64_t(g), C.int64_t(d), C.int64_t(w)
		return nil
	})
}

//export goRunExperts
func goRunExperts(mask *C.sigset_t, program C.bg_program, o *C.bg_expert_operands) C.bg_status {
	return call(mask, func() error {
		own, err := structOf("expert_operands", o, firstOperands)
		if err != nil {
			return err
		}
		x, err := find[*dispatch.Experts](program)
		if err != nil {
			return err
		}
		var to dispatch.ExpertOperands
		for _, arg := range [...]struct {
			name   string
			handle C.bg_buffer
			buffer **dispatch.Buffer
		}{
			{"x", own.x, &to.X}, {"y", own.y, &to.Y}, {"index", own.index, &to.Index},
			{"weights", own.weights, &to.Weights}, {"gate_up", own.gate_up, &to.GateUp},
			{"down", own.down, &to.Down}, {"up", own.up, &to.Up},
			{"bias_gate_up", own.bias_gate_up, &to.GateUpBias}, {"bias_down", own.bias_down, &to.DownBias},
			{"scales", own.scales, &to.Scales},
		} {
			if arg.handle == 0 {
				continue
			}
			if *arg.buffer, err = find[*dispatch.Buffer](arg.handle); err != nil {
				return fmt.Errorf("%s: %w", arg.name, err)
			}
		}
		return x.Run(context.Background(), to)
	})
}

//export goRunExpertsAt
func goRunExpertsAt(mask *C.sigset_t, program C.bg_program, stream C.uintptr_t,
	at *C.bg_expert_addresses) C.bg_status {
	return call(mask, func() error {
		own, err := structOf("expert_addresses", at, firstExpertsAt)
		if err != nil {
			return err
		}
		x, err := find[*dispatch.Experts](program)
		if err != nil {
			return err
		}
		return x.RunAt(context.Background(), uintptr(stream), dispatch.ExpertAddresses{
			X: uintptr(own.x), Y: uintptr(own.y), Index: uintptr(own.index), Weights: uintptr(own.weights),
			GateUp: uintptr(own.gate_up), Down: uintptr(own.down), Up: uintptr(own.up),
			GateUpBias: uintptr(own.bias_gate_up), DownBias: uintptr(own.bias_down), Tokens: int(own.tokens),
			Scales: uintptr(own.scales)})
	})
}
