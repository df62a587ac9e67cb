package encoding

// A ragged plan has kernels that make its items: the sizes of its problems are on the
// device, in a buffer of 32-bit words that comes with each run. Its encoding begins with
// BoundWords, in a section of their own; what follows, but for the section of StatusWord, is
// memory for what kernels write: the tables and the items of its launches, which are after
// those with Kernel.Ragged.

// RaggedStage tells apart the kernels that make items.
type RaggedStage uint8

const (
	// RaggedPlan chooses kernels for all groups, orders them and counts their tiles. Where
	// kernels are native each thread group does so, and then writes a part of the items;
	// else one does, and RaggedExpand writes them.
	RaggedPlan RaggedStage = 1 + iota
	RaggedExpand
)

func (s RaggedStage) name() string { return [...]string{"", "ragged/plan", "ragged/expand"}[s] }

// RaggedForm says what the buffer of sizes holds.
type RaggedForm uint8

const (
	// EndsOfRows: an int32 for each group, the end of its rows of op(A) and C.
	EndsOfRows RaggedForm = 1 + iota
	// EndsOfDepth: an int32 for each group, the end of its columns of op(A) and rows of op(B).
	EndsOfDepth
	// Records: a record for each group.
	Records
)

// Name is the form's name in kernels: rows, depth or records.
func (f RaggedForm) Name() string { return [...]string{"", "rows", "depth", "records"}[f] }

func (f RaggedForm) suffix() string {
	if f == 0 {
		return ""
	}
	return "/" + f.Name()
}

// RaggedEntries are how many entries, groups and one more where rows after the last are
// filled, native kernels are made for.
var RaggedEntries = [...]uint16{256, 1024, MaxGroups + 1}

const (
	// MaxGroups is the most groups of a ragged plan: what its kernel has shared memory for.
	MaxGroups = 4096
	// RaggedKernels is the most kernels that a ragged plan chooses from.
	RaggedKernels = 2
	// RaggedKeys is in how many ways groups are told apart to order them: by kernel, and
	// by K.
	RaggedKeys = 64
	// StatusWord is where the number of the first group that was refused stands, from 1 on;
	// 0: none was. Kernels write it where it is 0.
	StatusWord = SectionWords
	// RaggedHead is the words that the host writes.
	RaggedHead = 2 * SectionWords
)

// BoundWord is the place of a word of what is known of all groups.
type BoundWord int

const (
	BoundForm    BoundWord = iota // of the sizes
	BoundGroups                   // that the sizes have
	BoundEntries                  // groups, and one more where rows after the last are filled
	BoundM                        // most rows of all groups together; EndsOfDepth: rows of each
	BoundN                        // columns of each group; Records: at most
	// depth of each group; Records: at most; EndsOfDepth: of all together, at most
	BoundK
	BoundTransA // 1: A is transposed
	BoundTransB
	BoundOffA // element of op(A)[0, 0] of the first group, and so on
	BoundOffB
	BoundOffC
	BoundLDA
	BoundLDB
	BoundLDC
	BoundStride // elements from the B of a group to that of the next; EndsOfDepth: from C to C
	BoundRest   // bits of what C of no group is multiplied by: 1 leaves it, 0 and NaN fill it
	BoundAlpha  // bits
	BoundBeta
	BoundLenA // elements that groups may reach; Records alone
	BoundLenB
	BoundLenC
	BoundKernels // 1 or 2: groups take the one of less work
	BoundFlags   // that all items have
	BoundVector  // bits of element numbers that are 0 where a load of 16 bytes may begin (ItemVector)
	BoundFill    // with fewer tiles in all, all groups take the second
	BoundBins    // keys of each kernel
	BoundMakers  // thread groups that share the making of items
	BoundItems   // the word where items begin
	BoundStarts  // words for RaggedExpand: tiles before each group, in order, and of all;
	BoundOrder   // groups in order, and their kernels in the highest bit;
	BoundSplit   // SplitWords
	BoundTile    // of the first kernel, KernelWords; then of the second
	boundEnd     = iota
)

// KernelWord is the place of a word of what is known of a kernel, from BoundTile on.
type KernelWord int

const (
	KernelTM      KernelWord = iota // logarithms
	KernelTN                        //
	KernelTK                        // of a step
	KernelShift                     // K steps of a key, logarithm
	KernelWorkers                   // of its launch
	KernelChunk                     // tiles that a worker takes at a time; 0: they are not dynamic
	KernelTable                     // the word where its table begins
	KernelStep                      // bits: microseconds of a saturated compute unit for a step
	KernelWorker                    // the same for what a tile takes besides its steps
	KernelWords   = iota
)

// What RaggedPlan leaves at BoundSplit.
const (
	SplitTiles  = iota // of the first kernel
	SplitTotal         // of both
	SplitGroups        // that are not refused
	SplitWords
)

// BoundWords is the number of words of the bounds.
const BoundWords = boundEnd - 1 + RaggedKernels*KernelWords

// What bounds have beside for kernels with an Epilogue.
const (
	BoundGatherRows = BoundWord(BoundWords) + iota
	BoundScatterRows
	BoundRowsA // the words of Rows with the lists' first
	BoundRowsC
	BoundWeights
	BoundBias // element of the first group's
	BoundStrideBias
	BoundOffB2
	BoundLDB2
	BoundPointers      // word of Rows with the first group's addresses
	BoundLenB2         // elements, and words of Rows, that groups may reach; Records alone
	BoundLenBias       //
	BoundLenRows       //
	BoundScaleA        // the words of Rows with the first group's first
	BoundScaleB        // those of the next group are after them
	EpilogueBoundWords = BoundWords + iota
)

// RecordWord is the place of a word of a record: one problem, as the device or the host writes it to the
// sizes of a ragged plan. All numbers are of 32 bits; offsets and leading dimensions are in elements. Records
// have a head of RecordWords words. For kernels with an Epilogue a tail follows, up to EpilogueRecordWords,
// and where that has scales up to ScaledRecordWords: see Epilogue.RecordWords.
type RecordWord int

const (
	RecordM RecordWord = iota
	RecordN
	RecordK
	RecordLDA
	RecordLDB
	RecordLDC
	RecordOffA
	RecordOffB
	RecordOffC
	RecordAlpha // bits
	RecordBeta
	RecordZero // a multiple of 4 words loads at once

	// The tail.
	RecordOffB2
	RecordLDB2
	RecordBias     // element of Bias
	RecordRowsA    // the words of Rows with the lists' first
	RecordRowsC    //
	RecordWeights  //
	RecordPointers // and with the addresses
	_

	// With scales.
	RecordScaleA // the words of Rows with the first
	RecordScaleB
	_
	_
	ScaledRecordWords   = iota
	EpilogueRecordWords = int(RecordScaleA)
	RecordWords         = int(RecordOffB2)
)

// RecordWords is the words of a record for kernels with this epilogue, or none.
func (e Epilogue) RecordWords() int {
	switch {
	case e == (Epilogue{}):
		return RecordWords
	case e.Scaled():
		return ScaledRecordWords
	}
	return EpilogueRecordWords
}

// BoundNames, KernelNames and RecordNames are the names of the words in C and WGSL. Of BoundNames those of
// kernels are empty.
var (
	BoundNames = [EpilogueBoundWords]string{"form", "groups", "entries", "m", "n", "k", "transA", "transB",
		"offA",
		"offB", "offC", "lda", "ldb", "ldc", "stride", "rest", "alpha", "beta", "lenA", "lenB", "lenC",
		"kernels",
		"flags", "vector", "fill", "bins", "makers", "items", "starts", "order", "split",
		BoundGatherRows: "gatherRows",
		"scatterRows", "rowsA", "rowsC", "weights", "bias", "strideBias", "offB2", "ldb2", "pointers",
		"lenB2",
		"lenBias", "lenRows", "scaleA", "scaleB"}
	KernelNames = [KernelWords]string{"tm", "tn", "tk", "shift", "workers", "chunk", "table", "step",
		"worker"}
	RecordNames = [ScaledRecordWords]string{"m", "n", "k", "lda", "ldb", "ldc", "offA", "offB", "offC",
		"alpha", "beta",
		"zero", "offB2", "ldb2", "bias", "rowsA", "rowsC", "weights", "pointers", "none", "scaleA", "scaleB",
		"scaleZero",
		"scaleNone"}
)
