//go:build cgo && linux && (amd64 || arm64)

package main

// #include "internal.h"
import "C"

import (
	"context"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

//export goPrepareRouting
func goPrepareRouting(mask *C.sigset_t, device C.bg_device, choices *C.bg_choices, name *C.char,
	out *C.bg_program) C.bg_status {
	return call(mask, func() error {
		return prepareStep(device, choices, name, out, func(d *dispatch.Device, c planner.Choices,
			of element.Type) (*dispatch.Program, error) {
			return d.PrepareRouting(context.Background(), planner.Routing{Choices: c, Weights: of})
		})
	})
}

//export goPrepareCombine
func goPrepareCombine(mask *C.sigset_t, device C.bg_device, choices *C.bg_choices, hidden C.int64_t,
	name *C.char, out *C.bg_program) C.bg_status {
	return call(mask, func() error {
		return prepareStep(device, choices, name, out, func(d *dispatch.Device, c planner.Choices,
			of element.Type) (*dispatch.Program, error) {
			return d.PrepareCombine(context.Background(), planner.Combine{Choices: c, Hidden: int(hidden),
				Type: of})
		})
	})
}

// prepareStep makes a program of choices and a type of elements.
func prepareStep(device C.bg_device, choices *C.bg_choices, name *C.char, out *C.bg_program,
	prepare func(*dispatch.Device, planner.Choices, element.Type) (*dispatch.Program, error)) error {
	return create(out, "program", device, func() (object, error) {
		d, err := find[*dispatch.Device](device)
		if err != nil {
			return nil, err
		}
		c, err := choicesOf(choices)
		if err != nil {
			return nil, err
		}
		of, err := typeOf(name)
		if err != nil {
			return nil, err
		}
		return notNil(prepare(d, c, of))
	})
}

// choicesOf copies a router's choices. The rule of batchOf for newer versions holds.
func choicesOf(c *C.bg_choices) (none planner.Choices, err error) {
	if c == nil {
		return none, invalid("choices is NULL")
	}
	size := int(c.struct_size)
	if size < C.sizeof_bg_choices {
		return none, invalid("choices: struct_size %d, must be sizeof(bg_choices), %d here", size,
			C.sizeof_bg_choices)
	}
	own, ok := versioned(c, size)
	if own.flags&^C.BG_INDEX_64 != 0 || !ok {
		return none, invalid("choices: flags %#x, or a field after experts, ask for what this version of "+
			"the library does not know", own.flags)
	}
	return planner.Choices{Tokens: int(own.tokens), TopK: int(own.top_k), Experts: int(own.experts),
		Index64: own.flags&C.BG_INDEX_64 != 0}, nil
}
