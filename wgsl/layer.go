package wgsl

import (
	_ "embed"
	"fmt"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner/element"
)

// The shaders of a layer of experts beside its products. A workgroup that routes has some of the experts. Its
// threads share all choices, in order, and count twice: the choices of experts, and with the sums of these
// before each thread the places of rows.
var (
	//go:embed layer/route.wgsl
	layerRoute string
	//go:embed layer/combine.wgsl
	layerCombine string
)

// The threads of workgroups; those that route may be fewer.
const routeThreads, combineThreads = 256, 64

// expertText is the function that reads an expert's number; one that does not count is the largest of all.
const expertText = `
fn expert(i: u32) -> u32 {
#if int64
	return select(0xffffffffu, sizes[2u * i], sizes[2u * i + 1u] == 0u);
#end
#if int32
	return sizes[i];
#end
}

`

// renderLayer returns the shader of a step.
func renderLayer(k encoding.Kernel, lim Limits) (Shader, error) {
	var head writer
	head.bind(encoding.BindItems, "words", "u32")
	head.bind(encoding.BindSizes, "sizes", "u32")
	head.bind(encoding.BindA, "A", "u32")
	head.bindWritten(encoding.BindC, "C", "u32")
	s := Shader{Threads: combineThreads, Pieces: 1, Bindings: head.bindings}
	text := expertText + layerCombine
	if k.Layer == encoding.LayerRoute {
		text = expertText + layerRoute
		s.Threads = routeThreads
		for s.Threads > lim.Threads {
			s.Threads /= 2
		}
		s.SharedBytes = 4 * ((encoding.LayerShare+1)*s.Threads + 1)
	}
	if s.Threads > lim.Threads || s.Threads < encoding.LayerShare || s.SharedBytes > lim.SharedBytes {
		return Shader{}, fmt.Errorf("a layer's step needs %d threads and %d bytes of workgroup memory, the "+
			"adapter allows %d and %d", s.Threads, s.SharedBytes, lim.Threads, lim.SharedBytes)
	}
	if of := k.TypeA; of != element.F32 {
		text = narrows[of].numbers + text
		if k.Layer == encoding.LayerCombine {
			text = narrows[of].pair + narrows[of].tame + text
		}
	}
	n := names{}
	for name, number := range map[string]int{"threads": s.Threads, "share": encoding.LayerShare,
		"cells": encoding.LayerShare * s.Threads, "per": k.TypeA.PerWord(),
		"tokens": int(encoding.LayerTokens), "topK": int(encoding.LayerTopK),
		"experts": int(encoding.LayerExperts), "hidden": int(encoding.LayerHidden),
		"groups": int(encoding.LayerGroups), "first": int(encoding.LayerFirst)} {
		n.number(name, uint32(number))
	}
	parts := map[string]bool{"f32": k.TypeA == element.F32, "halves": k.TypeA != element.F32,
		"int64": k.Index64, "int32": !k.Index64}
	s.Source = head.text.String() + n.expand(kept(text, parts))
	return s, nil
}
