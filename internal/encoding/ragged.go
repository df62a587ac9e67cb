package encoding

import "github.com/batchgemm/batchgemm/planner/element"

// A ragged plan has kernels that make its items, because the sizes of its problems are on the device. They
// come with each run, in a buffer of 32-bit words. The encoding starts with BoundWords, in a section of
// their own, followed by the section of StatusWord. The rest is memory for what kernels write: tables and
// items of the launches that follow those with Kernel.Ragged.

// RaggedStage is a kind of kernel that makes items.
type RaggedStage uint8

const (
	// RaggedPlan chooses kernels for all groups, orders the groups and counts their tiles. With native
	// kernels every thread group does so, and then writes its share of the items. Otherwise one thread group
	// does so, and RaggedExpand writes the items.
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

// Name returns the form's name in kernels: rows, depth or records.
func (f RaggedForm) Name() string { return [...]string{"", "rows", "depth", "records"}[f] }

func (f RaggedForm) suffix() string {
	if f == 0 {
		return ""
	}
	return "/" + f.Name()
}

// RaggedEntries are the numbers of entries for which native kernels are compiled: groups, and one more if
// rows after the last group are filled.
var RaggedEntries = [...]uint16{256, 1024, MaxGroups + 1}

const (
	// MaxGroups is the largest number of groups of a ragged plan, for which its kernel has shared memory.
	MaxGroups = 4096
	// RaggedKernels is the largest number of kernels from which a ragged plan chooses.
	RaggedKernels = 2
	// RaggedKeys is the number of keys by which groups are sorted: kernel and class of K.
	RaggedKeys = 64
	// StatusWord has the number of the first refused group, counted from 1. 0: none. Kernels write it only
	// if it is 0.
	StatusWord = SectionWords
	// RaggedHead is the number of words that the host writes.
	RaggedHead = 2 * SectionWords
)

// BoundWord is the index of a word with what is known of all groups.
type BoundWord int

const (
	BoundForm    BoundWord = iota // of the sizes
	BoundGroups                   // number of groups in the sizes
	BoundEntries                  // groups, and one more if rows after the last are filled
	BoundM                        // most rows of all groups together; EndsOfDepth: rows of each
	BoundN                        // columns of each group; Records: at most
	// depth of each group; Records: at most; EndsOfDepth: of all groups together, at most
	BoundK
	BoundTransA // 1: A is transposed
	BoundTransB
	BoundOffA // element of op(A)[0, 0] of the first group; the next are alike
	BoundOffB
	BoundOffC
	BoundLDA
	BoundLDB
	BoundLDC
	BoundStride // elements from the B of a group to the next; EndsOfDepth: from C to C
	BoundRest   // bits of the factor of C outside of all groups: 1 keeps it, 0 and NaN fill it
	BoundAlpha  // bits
	BoundBeta
	BoundLenA // elements that groups may reach; Records only
	BoundLenB
	BoundLenC
	BoundKernels // 1 or 2: groups take the kernel of less work
	BoundFlags   // flags of all items
	BoundVector  // bits of element numbers that are 0 if a 16-byte load may start there (ItemVector)
	BoundFill    // with fewer tiles in total, all groups take the second kernel
	BoundBins    // keys for each kernel
	BoundMakers  // thread groups that share the making of items
	BoundItems   // word where items start
	BoundStarts  // words for RaggedExpand: tiles before each group, in order, and of all
	BoundOrder   // groups in order, with the kernel in the highest bit
	BoundSplit   // SplitWords
	BoundTile    // of the first kernel, KernelWords; then the same of the second
	boundEnd     = iota
)

// KernelWord is the index of a word with what is known of a kernel, from BoundTile on.
type KernelWord int

const (
	KernelTM      KernelWord = iota // base-2 logarithms
	KernelTN                        //
	KernelTK                        // of a step
	KernelShift                     // K steps of a key, base-2 logarithm
	KernelWorkers                   // of its launch
	KernelChunk                     // tiles that a worker takes at a time; 0: not dynamic
	KernelTable                     // word where its table starts
	KernelStep                      // bits: microseconds of a K step on a saturated compute unit
	KernelWorker                    // the same for a tile besides its steps
	KernelWords   = iota
)

// Results of RaggedPlan at BoundSplit.
const (
	SplitTiles  = iota // of the first kernel
	SplitTotal         // of both
	SplitGroups        // groups that are not refused
	SplitWords
)

// BoundWords is the number of words of the bounds.
const BoundWords = boundEnd - 1 + RaggedKernels*KernelWords

// Further bounds for kernels with an Epilogue.
const (
	BoundGatherRows = BoundWord(BoundWords) + iota
	BoundScatterRows
	BoundRowsA // words of Rows with the first group's lists
	BoundRowsC
	BoundWeights // Records: 1 if groups have weights
	BoundBias    // element of the first group's bias; Records: 1 if groups have one
	BoundStrideBias
	BoundOffB2
	BoundLDB2
	BoundPointers      // word of Rows with the first group's addresses
	BoundLenB2         // elements, and words of Rows, that groups may reach; Records only
	BoundLenBias       //
	BoundLenRows       //
	BoundScaleA        // words of Rows with the first group's scales
	BoundScaleB        // those of the next group follow
	EpilogueBoundWords = BoundWords + iota
)

// RecordWord is the index of a word in a record: one problem, as the device or the host writes it to the
// sizes of a ragged plan. All numbers have 32 bits; offsets and leading dimensions are in elements. Records
// have a head of RecordWords words. For kernels with an Epilogue a tail follows, up to EpilogueRecordWords,
// or with scales, or of F64, up to ScaledRecordWords: see Epilogue.RecordWords.
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
	RecordAlpha // bits; of F64 the upper half, see RecordLow
	RecordBeta
	RecordZero // vector loads take multiples of 4 words

	// The tail.
	RecordOffB2
	RecordLDB2
	RecordBias     // element of Bias
	RecordRowsA    // words of Rows with the lists
	RecordRowsC    //
	RecordWeights  //
	RecordPointers // and with the addresses
	_

	// With scales.
	RecordScaleA // words of Rows with the first scales
	RecordScaleB
	_
	_
	ScaledRecordWords   = iota
	EpilogueRecordWords = int(RecordScaleA)
	RecordWords         = int(RecordOffB2)
)

// RecordWords returns the number of words of a record for kernels with this epilogue, which may be none, and
// elements of that type.
func (e Epilogue) RecordWords(of element.Type) int {
	switch {
	case of == element.F64:
		return ScaledRecordWords
	case e == (Epilogue{}):
		return RecordWords
	case e.Scaled():
		return ScaledRecordWords
	}
	return EpilogueRecordWords
}

// BoundNames, KernelNames and RecordNames are the names of the words in C and WGSL. In BoundNames, those of
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
