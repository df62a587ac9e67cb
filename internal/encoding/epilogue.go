package encoding

import "github.com/batchgemm/batchgemm/planner/element"

// Activation is a function of each element of C; "" is none.
type Activation string

const (
	ReLU Activation = "relu" // v, or 0 where v < 0; NaN stays
	// v * sigmoid(GELULinear*v + GELUCubic*v^3), which is 0.5*v*(1 + tanh(half of that))
	GELU Activation = "gelu"
	SiLU Activation = "silu" // v * sigmoid(v)
)

// GELU in its tanh form: 2*sqrt(2/pi), and 0.044715 times that. Of SiLU they are 1 and 0.
const (
	GELULinear = 1.5957691216
	GELUCubic  = 0.0713548162726
	// SigmoidLeast is from where on GELU and SiLU are taken as 0: sigmoid is less than 2^-126
	// there, and exp(-SigmoidLeast) finite.
	SigmoidLeast = -88
)

// Epilogue is what a kernel does to the elements of C beside alpha and beta, and by which rows
// it finds operands. The zero value is none of it.
type Epilogue struct {
	Activation                            Activation
	Bias, Gated, Gather, Scatter, Weights bool
	Pointers                              Pointers
	ScaleA, ScaleB                        Scaling

	// Pairs: each scale has a word after it: one of A the zero point of its elements, one of B, which has
	// one for each column, the sum of the elements of that. Zeros: sums of products lose zero point times
	// sum.
	Pairs, Zeros bool
}

// Scaling says what has a scale of an operand, by which products are multiplied; "" is nothing.
type Scaling string

const (
	PerTensor Scaling = "tensor" // the operand: of a problem one for A, one for B and one for B2
	PerRow    Scaling = "row"    // each row of A, or column of op(B)

	// Of B alone, whose elements are Int4 then: each column has a word (element.GroupWord) for each so many
	// k's.
	PerGroup64  Scaling = "group-64"
	PerGroup128 Scaling = "group-128"

	// Of A and B, whose elements are E4M3 then: each row of A has a scale for each Block k's, and each Block
	// k's x Block columns of op(B) have one.
	PerBlock Scaling = "block"
)

// Block is the k's, and the columns of op(B), that share a scale of PerBlock. Tiles are as wide at most, and
// so are their K steps, both powers of two: neither has a part in two blocks.
const Block = 128

// Blocks is how many blocks so many k's or columns have, of which the last may have fewer.
func Blocks(n int) int { return (n + Block - 1) / Block }

// Group is the k's that share a scale and a zero point; 0: there are none that do.
func (s Scaling) Group() int {
	switch s {
	case PerGroup64:
		return 64
	case PerGroup128:
		return 128
	}
	return 0
}

// TypeB is the type of the elements of a B with such scales, where those of A have this one.
func (s Scaling) TypeB(a element.Type) element.Type {
	if s.Group() > 0 {
		return element.Int4
	}
	return a
}

// ApartB is how many elements are from a column of such a B to the next, where it is not transposed.
func (s Scaling) ApartB() int {
	if s.Group() > 0 {
		return element.Int4Panel
	}
	return 1
}

// Scaled reports whether there are scales.
func (e Epilogue) Scaled() bool { return e.ScaleA != "" || e.ScaleB != "" }

// ScaledSums reports whether sums over all of K are multiplied by scales.
func (e Epilogue) ScaledSums() bool { return e.ScaleA.OfSums() || e.ScaleB.OfSums() }

// OfSums reports whether scales multiply sums over all of K: those of groups belong to the numbers of B,
// those of blocks to sums of their own.
func (s Scaling) OfSums() bool { return s == PerTensor || s == PerRow }

// Blocks reports whether there are scales of blocks.
func (e Epilogue) Blocks() bool { return e.ScaleA == PerBlock }

// ScaleWords is the words that each scale of PerTensor or PerRow has.
func (e Epilogue) ScaleWords() int {
	if e.Pairs {
		return 2
	}
	return 1
}

// EachRow reports whether the scales of A are by the rows of op(A), not by those of which some are gathered.
func (e Epilogue) EachRow() bool { return (e.ScaleA == PerRow || e.Blocks()) && !e.Gather }

// Pointers are the operands that begin, in each problem, at an address of Rows and not at one of
// the launch. B stands for B2 too. Aligned: all addresses are multiples of 16 bytes.
type Pointers struct {
	A       bool `json:"a,omitempty"`
	B       bool `json:"b,omitempty"`
	C       bool `json:"c,omitempty"`
	Aligned bool `json:"aligned,omitempty"`
}

// Any reports whether a problem has addresses.
func (p Pointers) Any() bool { return p.A || p.B || p.C }

// The addresses of a problem are PointerWords words of Rows from PointersAt on, each in two of
// them, the lower one first.
const (
	PointerA = 2 * iota
	PointerB
	PointerC
	PointerB2
	PointerWords
)

// String has a name of each part.
func (e Epilogue) String() (name string) {
	if e.Gather {
		name = "/gather"
	}
	if e.ScaleA != "" {
		name += "/scale-a-" + string(e.ScaleA)
	}
	if e.ScaleB != "" {
		name += "/scale-b-" + string(e.ScaleB)
	}
	switch {
	case e.Zeros:
		name += "/zeros"
	case e.Pairs:
		name += "/pairs"
	}
	if e.Bias {
		name += "/bias"
	}
	if e.Activation != "" {
		name += "/" + string(e.Activation)
	}
	for _, v := range []struct {
		set  bool
		name string
	}{{e.Gated, "/gated"}, {e.Weights, "/weights"}, {e.Scatter, "/scatter"}, {e.Pointers.A, "/pointers-a"},
		{e.Pointers.B, "/pointers-b"},
		{e.Pointers.C, "/pointers-c"}} {
		if v.set {
			name += v.name
		}
	}
	return name
}

// What native kernels with an epilogue are told of it, as a parameter: one of the activations, and
// a flag for each part.
const (
	EpilogueReLU    = 1
	EpilogueGELU    = 2
	EpilogueSiLU    = 3
	EpilogueBias    = 4
	EpilogueGated   = 8
	EpilogueGather  = 16
	EpilogueScatter = 32
	EpilogueWeights = 64

	EpiloguePointersA       = 128
	EpiloguePointersB       = 256
	EpiloguePointersC       = 512
	EpiloguePointersAligned = 1024

	EpilogueScaleA   = 2048
	EpilogueRowsA    = 4096 // with EpilogueScaleA: each row has a scale
	EpilogueScaleB   = 8192
	EpilogueColumnsB = 16384 // with EpilogueScaleB: each column has one

	// Without EpilogueScaleB: each column of B has one for each 64 k's, or 128.
	EpilogueGroups64  = 32768
	EpilogueGroups128 = 65536

	// Without EpilogueScaleA and EpilogueScaleB: there are scales of blocks.
	EpilogueBlocks = 131072

	EpiloguePairs = 262144
	EpilogueZeros = 524288
)

// Word is what native kernels are told of it.
func (e Epilogue) Word() (w uint32) {
	switch e.Activation {
	case ReLU:
		w = EpilogueReLU
	case GELU:
		w = EpilogueGELU
	case SiLU:
		w = EpilogueSiLU
	}
	for _, v := range []struct {
		set  bool
		flag uint32
	}{{e.Bias, EpilogueBias}, {e.Gated, EpilogueGated}, {e.Gather, EpilogueGather},
		{e.Scatter, EpilogueScatter}, {e.Weights, EpilogueWeights},
		{e.Pointers.A, EpiloguePointersA}, {e.Pointers.B, EpiloguePointersB},
		{e.Pointers.C, EpiloguePointersC}, {e.Pointers.Aligned, EpiloguePointersAligned},
		{e.ScaleA.OfSums(), EpilogueScaleA}, {e.ScaleA == PerRow, EpilogueRowsA},
		{e.ScaleB.OfSums(), EpilogueScaleB},
		{e.ScaleB == PerRow, EpilogueColumnsB}, {e.ScaleB == PerGroup64, EpilogueGroups64},
		{e.ScaleB == PerGroup128, EpilogueGroups128},
		{e.Blocks(), EpilogueBlocks}, {e.Pairs, EpiloguePairs}, {e.Zeros, EpilogueZeros}} {
		if v.set {
			w |= v.flag
		}
	}
	return w
}

// OfFixup is what a fix-up does of it, which reads no A and no B. It finds scales and zero points of rows
// that were gathered; products with scales of groups have had them.
func (e Epilogue) OfFixup() Epilogue {
	if e.ScaleB.Group() > 0 {
		e.ScaleB = ""
	}
	e.Gather = e.Gather && (e.ScaleA == PerRow || e.Zeros)
	e.Pointers = Pointers{C: e.Pointers.C}
	return e
}

// OfPart is what is done of it where a launch adds a part of K to C, of which another launch adds the last:
// rows are found as ever, and each part is scaled. The last loses what zero points are worth over all of K.
func (e Epilogue) OfPart() Epilogue {
	return Epilogue{Gather: e.Gather, Scatter: e.Scatter, Pointers: e.Pointers, ScaleA: e.ScaleA,
		ScaleB: e.ScaleB, Pairs: e.Pairs}
}

// Products is how many items each tile has: with gated units two of one worker, one after the
// other, the first with B, the second with B2.
func (e Epilogue) Products() int {
	if e.Gated {
		return 2
	}
	return 1
}

// ItemWords is the words of an item of the kernel, FixupWords of a fix-up.
func (k Kernel) ItemWords() int {
	switch {
	case k.Fixup && k.Epilogue == Epilogue{}:
		return FixupWords
	case k.Fixup:
		return EpilogueFixupWords
	case k.Epilogue == Epilogue{}:
		return ItemWords
	}
	return EpilogueItemWords
}
