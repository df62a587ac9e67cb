package encoding

// A layer of experts has steps beside its products: a router's choices become the lists that ragged plans
// take, and the rows of each token are summed. The plan of such a step has one launch. Native kernels take
// its numbers as parameters (Layer.Shape), shaders read LayerWords, the head of the encoding, which has as
// many words as that of a ragged plan.

// LayerStage tells apart the kernels of these steps.
type LayerStage uint8

const (
	// LayerRoute writes where the rows of each expert end, and lists of the rows.
	LayerRoute LayerStage = 1 + iota
	// LayerCombine sums the rows of each token.
	LayerCombine
)

func (s LayerStage) name() string { return [...]string{"", "route", "combine"}[s] }

// LayerWord is the place of a word of a step.
type LayerWord int

const (
	LayerTokens  LayerWord = iota // at most
	LayerTopK                     // choices of a token
	LayerExperts                  //
	LayerHidden                   // columns of rows; LayerCombine alone
	LayerGroups                   // thread groups of the launch
	LayerFirst                    // see Layer.First
	LayerWords   = iota
)

// Layer is what the steps of a layer of experts share.
type Layer struct{ Tokens, TopK, Experts, Hidden int }

// MaxTopK is the most choices of a token, MaxExperts the most experts, which are groups of ragged plans.
const (
	MaxTopK    = 16
	MaxExperts = MaxGroups
)

const (
	// LayerShare is the experts of a workgroup of a shader that routes.
	LayerShare = 8
	// LayerPiece is about how many elements a worker of the CPU sums.
	LayerPiece = 1 << 15
)

// Choices is how many choices there are at most.
func (l *Layer) Choices() int { return l.Tokens * l.TopK }

// First is the word of a routing's result where the lists begin: the ends are before them.
func (l *Layer) First() int {
	return (l.Experts + SectionWords - 1) / SectionWords * SectionWords
}

// Routed is the words of a routing's result: ends, and a list each of tokens, of choices and of weights.
func (l *Layer) Routed() int { return l.First() + 3*l.Choices() }

// Shape is the first parameter of native kernels: tokens, experts and choices of a token, in 32, 16 and 16
// bits.
func (l *Layer) Shape() uint64 {
	return uint64(l.Tokens) | uint64(l.Experts)<<32 | uint64(l.TopK)<<48
}

// Encode appends the words of a step, of a launch of so many thread groups.
func (l *Layer) Encode(dst []uint32, groups int) []uint32 {
	head := [RaggedHead]uint32{LayerTokens: uint32(l.Tokens), LayerTopK: uint32(l.TopK),
		LayerExperts: uint32(l.Experts), LayerHidden: uint32(l.Hidden), LayerGroups: uint32(groups),
		LayerFirst: uint32(l.First())}
	return append(dst, head[:]...)
}
