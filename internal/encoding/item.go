package encoding

import (
	"math"

	"github.com/batchgemm/batchgemm/planner/element"
)

// ItemWord is the index of a word in an item. An item describes one segment completely, so that a worker
// waits for only one dependent load. Items have a head of ItemWords words. If the kernel has an Epilogue, a
// tail follows, as with F64, and items have EpilogueItemWords words: see Kernel.ItemWords. This list defines
// the layout: native/kernels/items.cuh is generated from it, and WGSL is rendered from it.
type ItemWord int

const (
	OffA   ItemWord = iota // element of the launch's A: op(A)[Row*TM, K0]
	OffB                   // element of the launch's B: op(B)[K0, Col*TN]
	OffC                   // element of the launch's C: C[Row*TM, Col*TN]
	Depth                  // K1 - K0; 0 if A and B are not read
	LDA                    // leading dimensions
	LDB                    //
	LDC                    //
	Extent                 // rows and columns of the tile that exist, see PackExtent
	Alpha                  // bits; 0 if Depth is 0, so that NaN has no effect; of F64 see AlphaLow
	Beta                   // bits; 1 with Accumulate
	Slot                   // partial in the workspace to store to, or Final
	Flags                  // ItemVector and the others

	// The tail. Rows is a buffer of 32-bit words. With scales of blocks, ScaleAAt and ScaleBAt are those of
	// the first k. Those of the next k follow, and those of the next row, or block of columns, are
	// Blocks(Depth) words further; Depth is then all of K. Other scales are Epilogue.ScaleWords apart.
	GatherAt    // word of Rows with the index in A of the tile's first row
	GatherRows  // rows of A; OffA is K0 in row 0
	ScatterAt   // word of Rows with the index in C of the tile's first row
	ScatterRows // rows of C; OffC is the tile's first column in row 0
	WeightsAt   // word of Rows with the weight of the tile's first row
	BiasAt      // element of Bias for the tile's first column
	PointersAt  // word of Rows with the problem's addresses
	ScaleAAt    // word of Rows with the first scale of the tile's first row; with gather, of A's row 0
	ScaleBAt    // word of Rows with the first scale of the tile's first column, or of B
	_           // zeros: vector loads take multiples of 4 words
	_
	_
	EpilogueItemWords = iota
	ItemWords         = int(GatherAt)
)

const (
	Final       = math.MaxUint32 // slot of a segment that stores to C
	ItemVector  = 1              // flag: A and B allow 16-byte loads
	ItemFloatC  = 2              // flag: C has fp32, but A and B do not
	ItemSecond  = 4              // flag: second item of a gated tile; B is B2
	ItemPartial = 8              // flag: a split-K partial that its launch finishes, see PartialFixup
	ItemF16C    = 16             // flag: A and B have 8 bits, C has fp16; otherwise bf16, unless ItemFloatC
)

// Alpha and beta of F64 have two words: the upper ones are where those of float32 are, the lower ones in
// place of the scales, which F64 does not have.
const (
	AlphaLow      = ScaleAAt
	BetaLow       = ScaleBAt
	FixupAlphaLow = FixupScaleAAt
	FixupBetaLow  = FixupScaleBAt
	RecordLow     = RecordScaleA // of alpha; that of beta follows
	BoundLow      = BoundScaleA  // the same
)

// PutScalar returns the words of alpha or beta of products that are summed in a type; low is for F64 alone.
func PutScalar(sums element.Type, x float64) (word, low uint32) {
	if sums == element.F64 {
		return uint32(math.Float64bits(x) >> 32), uint32(math.Float64bits(x))
	}
	return math.Float32bits(float32(x)), 0
}

// Scalar64 returns what two words of F64 hold.
func Scalar64(word, low uint32) float64 { return math.Float64frombits(uint64(word)<<32 | uint64(low)) }

// Partials that a launch finishes (Kernel.Partials) have two other words in place of those for C: where the
// fix-up item of the tile is, and where the words are that count stored partials. The worker that stores the
// last partial does the fix-up.
const (
	PartialFixup = OffC // in vectors of 4 words from Launch.Items on
	// in words from there on, the first of Kernel.Counters words, which are 0 before and after each run
	PartialStored = LDC
)

// FixupWord is the index of a word in a fix-up item, which finishes the tile whose partials are in Count
// slots from the first on. It has a head of FixupWords words, and with an Epilogue a tail, like an item.
type FixupWord int

const (
	FixupOffC FixupWord = iota // like in an item
	FixupLDC
	FixupExtent
	FixupSlot // first slot
	FixupAlpha
	FixupBeta
	FixupCount
	FixupPointersAt // like in an item; 0 without an Epilogue

	// The tail, like in an item.
	FixupScatterAt
	FixupScatterRows
	FixupWeightsAt
	FixupBiasAt
	FixupGatherAt
	FixupGatherRows
	FixupScaleAAt
	FixupScaleBAt
	EpilogueFixupWords = iota
	FixupWords         = int(FixupScatterAt)
)

// ItemNames and FixupNames are the names of the words in C and WGSL.
var (
	ItemNames = [EpilogueItemWords]string{"offA", "offB", "offC", "depth", "lda", "ldb", "ldc", "extent",
		"alpha", "beta",
		"slot", "flags", "gatherAt", "gatherRows", "scatterAt", "scatterRows", "weightsAt", "biasAt",
		"pointersAt",
		"scaleAAt", "scaleBAt", "zero", "none", "nothing"}
	FixupNames = [EpilogueFixupWords]string{"offC", "ldc", "extent", "slot", "alpha", "beta", "count",
		"pointersAt",
		"scatterAt", "scatterRows", "weightsAt", "biasAt", "gatherAt", "gatherRows", "scaleAAt", "scaleBAt"}
)

// ColsShift is the bit where the columns of an extent start; rows are below.
const ColsShift = 16

// PackExtent packs rows and columns, at most those of a tile, in a word.
func PackExtent(rows, cols int) uint32 { return uint32(rows) | uint32(cols)<<ColsShift }

// Rows and Cols unpack an extent.
func Rows(extent uint32) int { return int(extent & (1<<ColsShift - 1)) }

func Cols(extent uint32) int { return int(extent >> ColsShift) }
