package wgsl

import (
	_ "embed"
	"fmt"
	"math"
	"strconv"
	"strings"

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
	// layerGates has what both gates call.
	//go:embed layer/gates.wgsl
	layerGates string
	//go:embed layer/gate.wgsl
	layerGate string
	//go:embed layer/gate_backward.wgsl
	layerGateBackward string
)

// The threads of workgroups; those that route may be fewer.
const routeThreads, combineThreads = 256, 64

// expertText is the function that reads an expert's number from a buffer; one that does not count is the
// largest of all.
func expertText(buffer string) string {
	return strings.ReplaceAll(`
fn expert(i: u32) -> u32 {
#if int64
	return select(0xffffffffu, index[2u * i], index[2u * i + 1u] == 0u);
#end
#if int32
	return index[i];
#end
}

`, "index", buffer)
}

// renderLayer returns the shader of a step.
func renderLayer(k encoding.Kernel, lim Limits) (Shader, error) {
	s, text := Shader{Pieces: 1}, ""
	gate := k.Layer == encoding.LayerGate || k.Layer == encoding.LayerGateBackward
	if s.Threads = combineThreads; k.Layer == encoding.LayerRoute || gate {
		s.Threads = routeThreads
		for s.Threads > lim.Threads {
			s.Threads /= 2
		}
	}
	var head writer
	head.bind(encoding.BindItems, "words", "u32")
	head.bind(encoding.BindA, "A", "u32")
	if gate {
		head.bindWritten(encoding.BindC, "C", "atomic<u32>")
	} else {
		head.bindWritten(encoding.BindC, "C", "u32")
	}
	if k.TypeC.Bytes() == 1 { // scales are after sizes
		head.bindWritten(encoding.BindSizes, "sizes", "u32")
	} else {
		head.bind(encoding.BindSizes, "sizes", "u32")
	}
	switch k.Layer {
	case encoding.LayerRoute:
		text = expertText("sizes") + layerRoute
		s.SharedBytes = 4 * ((encoding.LayerShare+1)*s.Threads + 1)
	case encoding.LayerCombine:
		text = expertText("sizes") + layerCombine
	case encoding.LayerGate:
		text, s.SharedBytes = layerGates+layerGate, 4
	case encoding.LayerGateBackward:
		head.bind(encoding.BindB, "B", "u32")
		head.bind(encoding.BindRows, "index", "u32")
		text, s.SharedBytes = expertText("index")+layerGates+layerGateBackward, 4*s.Threads
	}
	s.Bindings = head.bindings
	if s.Threads > lim.Threads || s.Threads < encoding.LayerShare || s.SharedBytes > lim.SharedBytes {
		return Shader{}, fmt.Errorf("a layer's step needs %d threads and %d bytes of workgroup memory, the "+
			"adapter allows %d and %d", s.Threads, s.SharedBytes, lim.Threads, lim.SharedBytes)
	}
	if of := k.TypeA; of != element.F32 {
		text = narrows[of].numbers + text
		if k.Layer != encoding.LayerRoute {
			text = narrows[of].pair + narrows[of].tame + text
		}
	}
	parts := map[string]bool{"f32": k.TypeA == element.F32, "halves": k.TypeA != element.F32,
		"int64": k.Index64, "int32": !k.Index64, "quantized": k.TypeC.Bytes() == 1,
		"plain": k.TypeC.Bytes() != 1, "e4m3": k.TypeC == element.E4M3, "int8": k.TypeC == element.Int8}
	s.Source = head.text.String() + layerNames(k, s.Threads).expand(kept(text, parts))
	return s, nil
}

// layerNames are those in the texts of steps.
func layerNames(k encoding.Kernel, threads int) names {
	n, per := names{}, k.TypeA.PerWord()
	if k.TypeC.Bytes() == 1 {
		per = k.TypeC.PerWord()
	}
	for name, number := range map[string]int{"threads": threads, "share": encoding.LayerShare,
		"cells": encoding.LayerShare * threads, "per": per,
		"tokens": int(encoding.LayerTokens), "topK": int(encoding.LayerTopK),
		"experts": int(encoding.LayerExperts), "hidden": int(encoding.LayerHidden),
		"groups": int(encoding.LayerGroups), "first": int(encoding.LayerFirst),
		"flags": int(encoding.LayerFlags), "alpha": int(encoding.LayerAlpha),
		"limit": int(encoding.LayerLimit), "scales": int(encoding.LayerScales),
		"kind": encoding.GateActivation, "gated": encoding.GateGated, "turns": encoding.GateInterleaved,
		"blocks": encoding.GateBlocks} {
		n.number(name, uint32(number))
	}
	bits := func(name string, x float32) { n.number(name, math.Float32bits(x)) }
	none, most := math.Float32bits(encoding.SigmoidLeast), encoding.QuantizedMost(k.TypeC)
	n.number("none", none)
	n.number("none.to", math.Float32bits(float32(math.Inf(-1)))-none)
	bits("all", -encoding.SigmoidLeast)
	bits("least", encoding.QuantizedLeast)
	n.number("most", uint32(most))
	bits("part", 1/most)
	bits("erf.bits", encoding.ErfMost)
	bits("erf.below", -encoding.ErfMost)
	texts := map[string]float64{"linear": encoding.GELULinear, "cubic": encoding.GELUCubic,
		"erf.p": encoding.ErfP / math.Sqrt2, "erf.most": encoding.ErfMost}
	for i, a := range encoding.ErfA {
		texts[fmt.Sprintf("erf.%d", i)] = float64(a)
	}
	for name, x := range texts {
		n.add(name, strconv.FormatFloat(x, 'e', -1, 32))
	}
	return n
}
