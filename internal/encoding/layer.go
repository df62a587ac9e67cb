package encoding

import "github.com/batchgemm/batchgemm/planner/element"

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
	LayerFlags                    // GateReLU and so on; of gates alone
	LayerWords   = iota
)

// Layer is what the steps of a layer of experts share.
type Layer struct {
	Stage                         LayerStage
	Tokens, TopK, Experts, Hidden int
	Gate                          Gate
}

// Gate is what is between the products: act(gate) .* up, or act(gate) alone.
type Gate struct {
	Activation  Activation
	Gated       bool
	Interleaved bool // gate and up take turns in a row, else gate is before up
}

// Flags of a gate: an activation as in Epilogue.Word, and
const (
	GateGated       = 4
	GateInterleaved = 8
)

// MaxGate is the most columns of a gate's result: native kernels have 26 bits for them.
const MaxGate = 1<<26 - 1

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

// Flags is the word of a gate.
func (g Gate) Flags() uint32 {
	w := Epilogue{Activation: g.Activation}.Word()
	if g.Gated {
		w |= GateGated
	}
	if g.Interleaved {
		w |= GateInterleaved
	}
	return w
}

// GateOf is the gate of such a word.
func GateOf(flags uint32) Gate {
	return Gate{Activation: [...]Activation{"", ReLU, GELU, SiLU}[flags%GateGated],
		Gated: flags&GateGated != 0, Interleaved: flags&GateInterleaved != 0}
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
// operands, and the extent, are added. Gates have their columns in 26 bits, flags in 4, GateTeam in 2.
func (l *Layer) Parameters(of *Launch) (b, b2, epilogue uint64) {
	switch l.Stage {
	case LayerRoute:
		return l.Shape(), uint64(of.Count), 0
	case LayerCombine:
		return l.Shape(), uint64(l.Hidden), 0
	}
	return 0, l.Shape(), uint64(l.Hidden)<<32 | uint64(l.Gate.Flags())<<58 | uint64(l.GateTeam(of.TypeA))<<62
}

// Encode appends the words of a step, of a launch of so many thread groups.
func (l *Layer) Encode(dst []uint32, groups int) []uint32 {
	head := [RaggedHead]uint32{LayerTokens: uint32(l.Tokens), LayerTopK: uint32(l.TopK),
		LayerExperts: uint32(l.Experts), LayerHidden: uint32(l.Hidden), LayerGroups: uint32(groups),
		LayerFirst: uint32(l.First()), LayerFlags: l.Gate.Flags()}
	return append(dst, head[:]...)
}
