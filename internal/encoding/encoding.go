// Package encoding is what backends read of a plan: launches, each with its kernel, and
// the words of their items. Users of plans need package planner alone.
//
// The encoding of a plan is one []uint32 that the kernels of every backend read,
// for each launch:
//
//	from word Launch.Items on: its items, in worker order
//	with Kernel.Loop, from word Launch.Table on: Count+1 item indices, or with Kernel.Dynamic DynamicWords
//	with Kernel.Partials, from word Launch.Sums on: items of fix-ups, then Kernel.Counters words each
//
// Sections start at multiples of SectionWords (256 bytes, the largest offset
// alignment of a storage binding). Worker w of a launch without Loop has item w;
// with Loop it has items [table[w], table[w+1]), counted from Launch.Items; with Dynamic
// it has its first, and asks for others as it goes.
//
// ItemWord and FixupWord list the words of items and of the items of fix-ups, of which those of
// kernels with an Epilogue have more. A gated tile is two items of one worker, one after the
// other: act(alpha*A*B + bias), and what that is multiplied by. On devices with native kernels
// the workspace has a slot for each worker of such a launch, by its number, to keep the first.
// Slot s is the TM x TN row-major block at workspace element s*TM*TN.
package encoding

import (
	"fmt"

	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// SectionWords is what sections are aligned to.
const SectionWords = 64

// Kernel names the program that a launch runs. A backend compiles or loads one
// program for each value, lazily.
type Kernel struct {
	Tile           *tile.Shape
	TransA, TransB bool
	TypeA, TypeC   element.Type // of the elements of A and of C; TypeB follows from the epilogue
	// Cluster is the number of thread groups that share each worker's tiles, 2, 4
	// or 8 of them; 0: one.
	Cluster uint8
	// TF32: one tf32 product; only with tiles of tensor cores.
	TF32 bool
	// Vector: B, and A where it is transposed, allow 16-byte loads in every problem of the launch
	// (base offset and leading dimension are multiples of as many elements). Operands that run
	// along K are transposed on their way to workgroup memory, by single elements, but for B of
	// few rows, which does not go there. By WGSL B of fp32 that does is loaded by single elements too.
	Vector bool
	// Loop: workers hold several segments. Otherwise worker w is segment w.
	Loop bool
	// Dynamic: workers take chunks of items from a counter; see DynamicNext. Only with Loop, without Split.
	Dynamic bool
	// Split: some segments store their partial tile to the workspace.
	Split bool
	// Partials: whoever stores the last partial of a tile sums all of them. Else a launch of Fixup kernels
	// does, after it. Only with Split, for fp32 without Epilogue, and up to MaxPartials partials of a tile.
	Partials bool
	// Fixup: sums the partial tiles of the workspace instead of multiplying.
	// Only Tile, TypeC and Epilogue.OfFixup are meaningful beside it.
	Fixup bool
	// Epilogue is what is done to sums before they are stored. Partial tiles have none yet.
	Epilogue Epilogue
	// Ragged: makes the items of the launches after it. Beside it Epilogue alone is meaningful, and
	// with native kernels the next two.
	Ragged  RaggedStage
	Form    RaggedForm // of the sizes
	Entries uint16     // one of RaggedEntries
}

// TypeB is the type of the elements of B: scales of groups are for Int4 alone.
func (k Kernel) TypeB() element.Type { return k.Epilogue.ScaleB.TypeB(k.TypeA) }

// String names a kernel: tile, transposition and variants.
func (k Kernel) String() string {
	if k.Ragged > 0 {
		return k.Ragged.name() + k.Form.suffix() + k.Epilogue.String()
	}
	name, types := k.Tile.Name, ""
	if k.TypeA != element.F32 {
		types = "/" + k.TypeA.String()
	}
	if k.TypeC != element.F32 {
		types += "/c-" + k.TypeC.String()
	}
	if k.Fixup {
		return name + "/fixup" + types + k.Epilogue.String()
	}
	name += "/" + Trans(k.TransA, k.TransB) + types
	if k.Cluster > 0 {
		name += fmt.Sprintf("/cluster-%d", k.Cluster)
	}
	for _, v := range []struct {
		set  bool
		name string
	}{{k.TF32, "/tf32"}, {k.Vector, "/vector"}, {k.Loop, "/loop"}, {k.Dynamic, "/dynamic"},
		{k.Split, "/split"}, {k.Partials, "/partials"}} {
		if v.set {
			name += v.name
		}
	}
	return name + k.Epilogue.String()
}

// Trans names a transposition of A and B: nn, nt, tn or tt.
func Trans(a, b bool) string {
	letter := map[bool]string{false: "n", true: "t"}
	return letter[a] + letter[b]
}

// MaxPartials is the most partials of a tile that kernels with Kernel.Partials sum: in the order of their
// slots, as fix-ups sum no more than that, with the same bits (kSlotSets in native/kernels/fixup.cuh).
const MaxPartials = 8

// Counters is how many words count the partials of a tile that were stored: one, or one for each warp of
// warpgroups, which has 16 rows of it, or columns.
func (k Kernel) Counters() int {
	switch {
	case k.Tile.Swapped:
		return k.Tile.TN / 16
	case k.Tile.Unit == tile.WGMMA:
		return k.Tile.TM / 16
	}
	return 1
}

// Segment is one tile of one problem over the K range [K0, K1).
type Segment struct {
	Problem  int32
	Row, Col int32 // tile coordinates: the tile starts at C[Row*TM, Col*TN]
	K0, K1   int32
	// Slot is the partial tile of the workspace that receives the sum, or NoSlot
	// when the segment finishes its tile itself.
	Slot int32
	// Accumulate: an earlier launch of the plan stored the sum over [0, K0) in
	// C already; this one adds to it with beta = 1.
	Accumulate bool
}

// NoSlot marks a segment that stores to C.
const NoSlot = -1

// Fixup finishes a tile whose sum lies in Count consecutive partial tiles from
// Slot on: C = alpha*sum + beta*C. Slots are added in order, so that results
// are the same on every run.
type Fixup struct {
	Problem     int32
	Row, Col    int32
	Slot, Count int32
}

// Launch is a range of workers that share one kernel. Launches run in order;
// each sees what the earlier ones wrote.
type Launch struct {
	Kernel
	Schedule string // that dealt its work
	// Workers [First, First+Count) of the plan; for Fixup kernels the range
	// counts its fix-ups, one worker each.
	First, Count int
	// Base offsets of the buffers in elements, multiples of 256 bytes.
	// Offsets in the encoded items are relative to them and fit in 32 bits.
	BaseA, BaseB, BaseC, BaseB2 int
	// Span is the number of elements after each base that the launch touches; those of Bias
	// and the words of Rows are from the first on.
	SpanA, SpanB, SpanC, SpanB2, SpanBias, SpanRows int
	// Finishes is how many tiles, the plan's fix-ups from FirstFixup on, have partials; with Partials alone.
	FirstFixup, Finishes int
	// MostPartials is the most partials of a tile; with Fixup alone.
	MostPartials int
	// Chunk is the tiles that a worker takes at a time; with Dynamic alone.
	Chunk int
	// Items, Table and Sums are the word offsets of the launch's sections in the
	// encoding; Table only with Loop, Sums with Partials.
	Items, Table, Sums int
	Cost               float64 // predicted microseconds
}
