package encoding

import "github.com/batchgemm/batchgemm/planner/element"

// Activation is a function that is applied to each element of C; "" is none.
type Activation string

const (
	ReLU Activation = "relu" // v, or 0 if v < 0; NaN stays
	// v * sigmoid(GELULinear*v + GELUCubic*v^3), which is 0.5*v*(1 + tanh(half of that))
	GELU Activation = "gelu"
	SiLU Activation = "silu" // v * sigmoid(v)
)

// GELU in its tanh form: 2*sqrt(2/pi), and 0.044715 times that. For SiLU they are 1 and 0.
const (
	GELULinear = 1.5957691216
	GELUCubic  = 0.0713548162726
	// SigmoidLeast: below it GELU and SiLU are 0. There sigmoid is less than 2^-126, and exp(-SigmoidLeast)
	// is still finite.
	SigmoidLeast = -88
)

// Epilogue is what a kernel does to the elements of C beside alpha and beta, and how it finds rows of
// operands. The zero value is no epilogue.
type Epilogue struct {
	Activation                            Activation
	Bias, Gated, Gather, Scatter, Weights bool
	Pointers                              Pointers
	ScaleA, ScaleB                        Scaling

	// Pairs: a word follows each scale. For A it is the zero point of the elements. B has a scale for each
	// column, and the word is the sum of the column's elements. Zeros: the zero point times that sum is
	// subtracted from products.
	Pairs, Zeros bool
}

// Scaling says what shares a scale of an operand. Products are multiplied by it. "" is no scale.
type Scaling string

const (
	PerTensor Scaling = "tensor" // the operand: one each for A, B and B2 of a problem
	PerRow    Scaling = "row"    // each row of A, or column of op(B)

	// Only for B, of Int4: each column has a word (element.GroupWord) for each group of 64 or 128 k.
	PerGroup64  Scaling = "group-64"
	PerGroup128 Scaling = "group-128"

	// Only for B: each column has a scale for each 32 k of MXFP4, or 16 of NVFP4. Four are in a word
	// (element.PackFP4).
	PerGroup32 Scaling = "group-32"
	PerGroup16 Scaling = "group-16"

	// Only for A and B together, of E4M3: each row of A has a scale for each Block k, and each Block k x
	// Block columns of op(B) have one.
	PerBlock Scaling = "block"
)

// Block is how many k, and columns of op(B), share a scale of PerBlock. Tiles and their K steps are at most
// that large, and powers of two, so neither spans two blocks.
const Block = 128

// Blocks returns the number of blocks of n k or columns. The last block may be smaller.
func Blocks(n int) int { return (n + Block - 1) / Block }

// Group returns how many k share a word of a column: a scale and a zero point, or four scales; 0: the scaling
// has no groups.
func (s Scaling) Group() int {
	switch s {
	case PerGroup64, PerGroup16:
		return 64
	case PerGroup128, PerGroup32:
		return 128
	}
	return 0
}

// UnitK returns the number that K of a B with groups is a multiple of. The last word of PerGroup32 may be
// half used.
func (s Scaling) UnitK() int {
	if s == PerGroup32 {
		return element.Int4Panel
	}
	return s.Group()
}

// ColumnRow reports whether a row of words with the scale of each column comes before those of groups.
func (s Scaling) ColumnRow() bool { return s == PerGroup16 }

// GroupWords returns the number of words of groups of a B with that K and leading dimension.
func (s Scaling) GroupWords(k, ld int) int {
	rows := (k + s.Group() - 1) / s.Group()
	if s.ColumnRow() && k > 0 {
		rows++
	}
	return rows * ld
}

// TypeB returns the type of the elements of a B with such scales, for that type of A.
func (s Scaling) TypeB(a element.Type) element.Type {
	switch s {
	case PerGroup64, PerGroup128:
		return element.Int4
	case PerGroup32:
		return element.MXFP4
	case PerGroup16:
		return element.NVFP4
	}
	return a
}

// ApartB returns how many elements apart the columns of such a B are, if it is not transposed.
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

// OfSums reports whether scales multiply sums over all of K. Those of groups belong to the numbers of B,
// those of blocks to sums of a block.
func (s Scaling) OfSums() bool { return s == PerTensor || s == PerRow }

// Blocks reports whether there are scales of blocks.
func (e Epilogue) Blocks() bool { return e.ScaleA == PerBlock }

// ScaleWords returns the number of words of each scale of PerTensor or PerRow.
func (e Epilogue) ScaleWords() int {
	if e.Pairs {
		return 2
	}
	return 1
}

// EachRow reports whether the scales of A are by rows of op(A), and not by rows of A as stored, before
// gathering.
func (e Epilogue) EachRow() bool { return (e.ScaleA == PerRow || e.Blocks()) && !e.Gather }

// Pointers says which operands have an address of their own in Rows for each problem, instead of one for the
// launch. B includes B2. Aligned: all addresses are multiples of 16 bytes.
type Pointers struct {
	A       bool `json:"a,omitempty"`
	B       bool `json:"b,omitempty"`
	C       bool `json:"c,omitempty"`
	Aligned bool `json:"aligned,omitempty"`
}

// Any reports whether problems have addresses.
func (p Pointers) Any() bool { return p.A || p.B || p.C }

// A problem's addresses are PointerWords words of Rows from PointersAt on. Each has two words, the lower one
// first.
const (
	PointerA = 2 * iota
	PointerB
	PointerC
	PointerB2
	PointerWords
)

// String returns a name that lists all parts of the epilogue.
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

// Bits of the parameter that describes the epilogue to native kernels: one of the activations, and a flag
// for each part.
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

	// Without EpilogueScaleB: each column of B has a word for each 64 k, or 128, of Int4; of MXFP4 a word of
	// four scales, and of NVFP4.
	EpilogueGroups64  = 32768
	EpilogueGroups128 = 65536
	EpilogueGroups32  = 1048576
	EpilogueGroups16  = 2097152

	// Without EpilogueScaleA and EpilogueScaleB: scales of blocks.
	EpilogueBlocks = 131072

	EpiloguePairs = 262144
	EpilogueZeros = 524288

	// Not of an epilogue: see Kernel.Word.
	EpilogueDoubles = 4194304
	EpilogueTransA  = 8388608
	EpilogueTransB  = 16777216
)

// Word returns the parameter that describes the epilogue to native kernels.
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
		{e.ScaleB == PerGroup128, EpilogueGroups128}, {e.ScaleB == PerGroup32, EpilogueGroups32},
		{e.ScaleB == PerGroup16, EpilogueGroups16},
		{e.Blocks(), EpilogueBlocks}, {e.Pairs, EpiloguePairs}, {e.Zeros, EpilogueZeros}} {
		if v.set {
			w |= v.flag
		}
	}
	return w
}

// Word returns the parameter that describes an epilogue to native kernels. Kernels of F64 are for all
// transpositions. Those that make items know by it that records have tails.
func (k *Kernel) Word() uint32 {
	w := k.Epilogue.Word()
	if k.TypeC != element.F64 {
		return w
	}
	w |= EpilogueDoubles
	if k.TransA {
		w |= EpilogueTransA
	}
	if k.TransB {
		w |= EpilogueTransB
	}
	return w
}

// OfFixup returns what a fix-up does, which reads no A and no B. It finds scales and zero points of gathered
// rows. Scales of groups are already in the partials.
func (e Epilogue) OfFixup() Epilogue {
	if e.ScaleB.Group() > 0 {
		e.ScaleB = ""
	}
	e.Gather = e.Gather && (e.ScaleA == PerRow || e.Zeros)
	e.Pointers = Pointers{C: e.Pointers.C}
	return e
}

// OfPart returns the epilogue of a launch that adds a window of K to C before the last launch. It finds rows
// as usual, and scales each window. Only the last launch subtracts the zero points, over all of K.
func (e Epilogue) OfPart() Epilogue {
	return Epilogue{Gather: e.Gather, Scatter: e.Scatter, Pointers: e.Pointers, ScaleA: e.ScaleA,
		ScaleB: e.ScaleB, Pairs: e.Pairs}
}

// Products returns the number of items of each tile. With gated units it is two: consecutive items of one
// worker, first with B, then with B2.
func (e Epilogue) Products() int {
	if e.Gated {
		return 2
	}
	return 1
}

// ItemWords returns the number of words of an item of the kernel, FixupWords that of a fix-up item.
func (k Kernel) ItemWords() int {
	switch {
	case k.Fixup && !k.Tails():
		return FixupWords
	case k.Fixup:
		return EpilogueFixupWords
	case !k.Tails():
		return ItemWords
	}
	return EpilogueItemWords
}

// Tails reports whether items have a tail.
func (k *Kernel) Tails() bool { return k.Epilogue != Epilogue{} || k.TypeC == element.F64 }
