package encoding

import "math"

// ItemWord is the place of a word in an item. An item is one segment, complete in itself so that a worker
// waits for one dependent load only. Items have a head of ItemWords words. Where the kernel has an Epilogue a
// tail follows, and items have EpilogueItemWords words: see Kernel.ItemWords. This list is the layout: what
// reads items in C is generated from it (native/kernels/items.cuh), and WGSL is rendered by it.
type ItemWord int

const (
	OffA   ItemWord = iota // element of the launch's A: op(A)[Row*TM, K0]
	OffB                   // element of the launch's B: op(B)[K0, Col*TN]
	OffC                   // element of the launch's C: C[Row*TM, Col*TN]
	Depth                  // K1 - K0; 0 when A and B are not to be read
	LDA                    // leading dimensions
	LDB                    //
	LDC                    //
	Extent                 // rows and columns of the tile that exist: see PackExtent
	Alpha                  // bits; 0 when Depth is: NaN too has no part
	Beta                   // bits; 1 when Accumulate
	Slot                   // the partial tile of the workspace to store to, or Final
	Flags                  // ItemVector and so on

	// The tail. Rows are the 32-bit words of a buffer of their own. With scales of blocks ScaleAAt and
	// ScaleBAt are those of the first k's. The next follow, and those of the next row, or block of columns,
	// are Blocks(Depth) further: Depth is all of K then. Other scales are Epilogue.ScaleWords apart.
	GatherAt    // word of Rows with the row of A of the tile's first row
	GatherRows  // rows that A has; OffA is where the first of them has K0
	ScatterAt   // word of Rows with the row of C of the tile's first row
	ScatterRows // rows that C has; OffC is where the first of them has the tile's first column
	WeightsAt   // word of Rows with the weight of the tile's first row
	BiasAt      // element of Bias of the tile's first column
	PointersAt  // word of Rows with the problem's addresses
	ScaleAAt    // word of Rows with the first scale of the tile's first row; where rows are gathered, of A's
	ScaleBAt    // word of Rows with the first scale of the tile's first column, or of B
	_           // zeros: a multiple of 4 words loads at once
	_
	_
	EpilogueItemWords = iota
	ItemWords         = int(GatherAt)
)

const (
	Final       = math.MaxUint32 // slot of a segment that stores to C
	ItemVector  = 1              // flag: A and B allow 16-byte loads
	ItemFloatC  = 2              // flag: C has fp32 where A and B have not
	ItemSecond  = 4              // flag: of a gated tile the second item; B is B2
	ItemPartial = 8              // flag: a split-K partial that its launch finishes; see PartialFixup
	ItemF16C    = 16             // flag: C has fp16 where A and B have 8 bits; else bf16, unless ItemFloatC
)

// Partials that a launch finishes (Kernel.Partials) have, in place of what says where C is, where the item of
// the tile's fix-up is, and the words that count parts as they are stored: whoever stores the last one does
// the fix-up.
const (
	PartialFixup = OffC // in vectors of 4 words from Launch.Items on
	// in words from there on, the first of Kernel.Counters; they are 0 before and after each run
	PartialStored = LDC
)

// FixupWord is the place of a word in a fix-up's item, which finishes the tile whose partial tiles are Count
// slots from the first on. A head of FixupWords words, and with an Epilogue a tail, as an item.
type FixupWord int

const (
	FixupOffC FixupWord = iota // as in an item
	FixupLDC
	FixupExtent
	FixupSlot // the first
	FixupAlpha
	FixupBeta
	FixupCount
	FixupPointersAt // as in an item; 0 without an Epilogue

	// The tail, as in an item.
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

// ColsShift is where the columns begin in an extent; rows lie below.
const ColsShift = 16

// PackExtent is rows and columns, of a tile at most, in a word.
func PackExtent(rows, cols int) uint32 { return uint32(rows) | uint32(cols)<<ColsShift }

// Rows and Cols are those of an extent.
func Rows(extent uint32) int { return int(extent & (1<<ColsShift - 1)) }

func Cols(extent uint32) int { return int(extent >> ColsShift) }
