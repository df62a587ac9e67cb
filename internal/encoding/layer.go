package encoding

import (
	"math"
	"slices"

	"github.com/batchgemm/batchgemm/planner/element"
)

// A layer of experts has steps beside its products: a router's choices become the lists that ragged plans
// take, what is between the products has a derivative, and the rows of each token are summed. The plan of
// such a step has one launch. Native kernels take its numbers as parameters (Layer.Parameters),
// shaders and the CPU read LayerWords, the head of the encoding, which has as many words as that of a ragged
// plan.

// LayerStage is the step of a kernel.
type LayerStage uint8

const (
	// LayerRoute writes the ends of each expert's rows, and lists of the rows.
	LayerRoute LayerStage = 1 + iota
	// LayerCombine sums the rows of each token.
	LayerCombine
	// LayerGate makes the second product's operand of what the first one gives.
	LayerGate
	// LayerGateBackward makes gradients of the gradient of that operand.
	LayerGateBackward
)

func (s LayerStage) name() string {
	return [...]string{"", "route", "combine", "gate", "gate_backward"}[s]
}

// HasIndex reports whether kernels of the stage read experts' numbers.
func (s LayerStage) HasIndex() bool { return s != LayerGate }

// LayerWord is the place of a word of a step.
type LayerWord int

const (
	LayerTokens  LayerWord = iota // at most
	LayerTopK                     // choices of a token
	LayerExperts                  //
	LayerHidden                   // columns of rows; not of LayerRoute
	LayerGroups                   // thread groups of the launch
	LayerFirst                    // see Layer.First
	LayerFlags                    // Gate.Flags, as the words after it
	LayerAlpha                    // bits of Gate.Alpha
	LayerLimit                    // and of Gate.Limit
	LayerScales                   // Gate.Scales
	LayerWords   = iota
)

// Layer is what the steps of a layer of experts share.
type Layer struct {
	Stage                         LayerStage
	Tokens, TopK, Experts, Hidden int // Experts is 0 for a gate of all rows
	Gate                          Gate
}

// Gate is what is between the products: act(gate) .* up, or act(gate) alone.
type Gate struct {
	Activation   Activation // any of GateActivations
	Gated        bool
	Interleaved  bool    // columns of gate and up alternate, else gate is before up
	Alpha, Limit float32 // of SwiGLUClamped
	// Scale is PerRow or PerBlock: the result has 8 bits. Its scales are written to the words of the routing,
	// from word Scales on. "": it is not quantised.
	Scale  Scaling
	Scales int
}

// Activations that only gates have.
const (
	// v * (1 + erf(v/sqrt(2)))/2, with erf by ErfP and ErfA
	GELUExact Activation = "gelu_exact"
	ReLU2     Activation = "relu2" // the square of ReLU
	// With g = min(gate, Limit) and u = max(-Limit, min(up, Limit)): g * sigmoid(Alpha*g) * (u + 1)
	SwiGLUClamped Activation = "swiglu_oai"
)

// GateActivations are the activations of gates, by their numbers in flags.
var GateActivations = [...]Activation{"", ReLU, GELU, SiLU, GELUExact, ReLU2, SwiGLUClamped}

// The error function after Abramowitz and Stegun, 7.1.26, for x >= 0, with an error of 1.5e-7: with
// t = 1/(1 + ErfP*x) it is 1 - (ErfA[0]*t + ... + ErfA[4]*t^5) * exp(-x^2).
const ErfP = 0.3275911

// ErfMost: from there on v*(1 + erf(v/sqrt(2)))/2 is v, and below -ErfMost it is 0, in fp32.
const ErfMost = 14

var ErfA = [...]float32{0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429}

// Flags of a gate: the number of an activation, and
const (
	GateActivation  = 7 // mask
	GateGated       = 8
	GateInterleaved = 16
	GateBlocks      = 32 // scales are of blocks, else of rows
)

// QuantizedLeast is the least magnitude for which quantised numbers have a scale: the largest number of a row
// or block counts as that much. Scales, and their inverses, are then normal numbers.
const QuantizedLeast = 0x1p-64

// QuantizedMost is the largest number of an 8-bit type that quantised numbers become.
func QuantizedMost(of element.Type) float32 {
	if of == element.Int8 {
		return 127
	}
	return 448
}

// MaxGate is the most columns of a gate's result: native kernels have 24 bits for them.
const MaxGate = 1<<24 - 1

// MaxTopK is the most choices of a token. MaxExperts is the most experts, each a group of a ragged plan.
const (
	MaxTopK    = 16
	MaxExperts = MaxGroups
)

const (
	// LayerShare is the number of experts of a workgroup of a routing shader.
	LayerShare = 8
	// LayerPiece is about how many elements a worker of the CPU sums, or activates.
	LayerPiece = 1 << 15
)

// Choices returns the largest number of choices.
func (l *Layer) Choices() int { return l.Tokens * l.TopK }

// First returns the word of a routing's result at which the lists begin. The ends are before it.
func (l *Layer) First() int {
	return (l.Experts + SectionWords - 1) / SectionWords * SectionWords
}

// Routed returns the number of words of a routing's result: the ends, and lists of tokens, choices and
// weights.
func (l *Layer) Routed() int { return l.First() + 3*l.Choices() }

// Shape is a parameter of native kernels: tokens, experts and choices of a token, in 32, 16 and 16
// bits.
func (l *Layer) Shape() uint64 {
	return uint64(l.Tokens) | uint64(l.Experts)<<32 | uint64(l.TopK)<<48
}

// Width is the columns of a row that a gate reads.
func (l *Layer) Width() int {
	if l.Gate.Gated {
		return 2 * l.Hidden
	}
	return l.Hidden
}

// Block is where the parts of a gradient's result begin, in words of 32 bits, and how many words there are:
// the gradient of rows, from 0 on, weighted rows, and gradients of weights. Each begins at a multiple of 16
// bytes.
func (l *Layer) Block(of element.Type) (weighted, weights, end int) {
	words := func(n int) int { return (of.Size(n) + 15) / 16 * 4 }
	weighted = words(l.Choices() * l.Width())
	weights = weighted + words(l.Choices()*l.Hidden)
	return weighted, weights, weights + l.Choices()
}

// ScaleWords is how many scales a gate writes for a row.
func (l *Layer) ScaleWords() int {
	switch l.Gate.Scale {
	case PerRow:
		return 1
	case PerBlock:
		return Blocks(l.Hidden)
	}
	return 0
}

// Flags is the word of a gate.
func (g Gate) Flags() uint32 {
	w := uint32(slices.Index(GateActivations[:], g.Activation))
	for _, v := range [...]struct {
		set  bool
		flag uint32
	}{{g.Gated, GateGated}, {g.Interleaved, GateInterleaved}, {g.Scale == PerBlock, GateBlocks}} {
		if v.set {
			w |= v.flag
		}
	}
	return w
}

// GateOf is the gate of the words of a step.
func GateOf(words []uint32) Gate {
	flags := words[LayerFlags]
	g := Gate{Activation: GateActivations[flags&GateActivation], Gated: flags&GateGated != 0,
		Interleaved: flags&GateInterleaved != 0, Alpha: math.Float32frombits(words[LayerAlpha]),
		Limit: math.Float32frombits(words[LayerLimit]), Scale: PerRow, Scales: int(words[LayerScales])}
	if flags&GateBlocks != 0 {
		g.Scale = PerBlock
	}
	return g
}

// The threads of a group of a gate's native kernel, and of the smallest team: a row has a team of 32, 64, 128
// or 256 of them, the first with which a thread has at most gateVectors vectors.
const (
	GateThreads = 256
	gateTeam    = 32
	gateVectors = 4
)

// GateTeam is the logarithm of the threads of a team, less 5.
func (l *Layer) GateTeam(of element.Type) int {
	vectors, team := (l.Hidden*of.Bytes()+15)/16, 0
	for gateTeam<<team < GateThreads && vectors > gateVectors*gateTeam<<team {
		team++
	}
	return team
}

// GateRows is how many rows a group has.
func (l *Layer) GateRows(of element.Type) int { return GateThreads / gateTeam >> l.GateTeam(of) }

// Parameters are those of native kernels in the places of B, B2 and an epilogue, before the addresses of
// operands, and the extent, are added. Gates have their columns in 24 bits, flags in 6, GateTeam in 2. The
// words after LayerFlags are not among them: kernels read those.
func (l *Layer) Parameters(of *Launch) (b, b2, epilogue uint64) {
	switch l.Stage {
	case LayerRoute:
		return l.Shape(), uint64(of.Count), 0
	case LayerCombine:
		return l.Shape(), uint64(l.Hidden), 0
	}
	return 0, l.Shape(), uint64(l.Hidden)<<32 | uint64(l.Gate.Flags())<<56 | uint64(l.GateTeam(of.TypeA))<<62
}

// Encode appends the words of a step, of a launch of so many thread groups.
func (l *Layer) Encode(dst []uint32, groups int) []uint32 {
	head := [RaggedHead]uint32{LayerTokens: uint32(l.Tokens), LayerTopK: uint32(l.TopK),
		LayerExperts: uint32(l.Experts), LayerHidden: uint32(l.Hidden), LayerGroups: uint32(groups),
		LayerFirst: uint32(l.First()), LayerFlags: l.Gate.Flags(), LayerAlpha: math.Float32bits(l.Gate.Alpha),
		LayerLimit: math.Float32bits(l.Gate.Limit), LayerScales: uint32(l.Gate.Scales)}
	return append(dst, head[:]...)
}
