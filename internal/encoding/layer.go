package encoding

// A layer of experts has two steps in addition to its products. One turns a router's choices into the lists
// of ragged plans, and the other sums the rows of each token. The plan of such a step has one launch. Native
// kernels take its numbers as parameters (Layer.Shape). Shaders read LayerWords, the head of the encoding. It
// has as many words as the head of a ragged plan.

// LayerStage is the step of a kernel.
type LayerStage uint8

const (
	// LayerRoute writes the ends of each expert's rows, and lists of the rows.
	LayerRoute LayerStage = 1 + iota
	// LayerCombine sums the rows of each token.
	LayerCombine
)

func (s LayerStage) name() string { return [...]string{"", "route", "combine"}[s] }

// LayerWord is the place of a word of a step.
type LayerWord int

const (
	LayerTokens LayerWord = iota // at most
	LayerTopK                    // choices of a token
	LayerExperts
	LayerHidden // columns of rows; only for LayerCombine
	LayerGroups // thread groups of the launch
	LayerFirst  // see Layer.First
	LayerWords  = iota
)

// Layer has the numbers that the steps of a layer of experts share.
type Layer struct{ Tokens, TopK, Experts, Hidden int }

// MaxTopK is the most choices of a token. MaxExperts is the most experts, each a group of a ragged plan.
const (
	MaxTopK    = 16
	MaxExperts = MaxGroups
)

const (
	// LayerShare is the number of experts of a workgroup of a routing shader.
	LayerShare = 8
	// LayerPiece is about the number of elements that a worker of the CPU sums at a time.
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

// Shape returns the first parameter of native kernels: tokens, experts and choices of a token, in 32, 16 and
// 16 bits.
func (l *Layer) Shape() uint64 {
	return uint64(l.Tokens) | uint64(l.Experts)<<32 | uint64(l.TopK)<<48
}

// Encode appends the words of a step, whose launch has a number of thread groups.
func (l *Layer) Encode(dst []uint32, groups int) []uint32 {
	head := [RaggedHead]uint32{LayerTokens: uint32(l.Tokens), LayerTopK: uint32(l.TopK),
		LayerExperts: uint32(l.Experts), LayerHidden: uint32(l.Hidden), LayerGroups: uint32(groups),
		LayerFirst: uint32(l.First())}
	return append(dst, head[:]...)
}
