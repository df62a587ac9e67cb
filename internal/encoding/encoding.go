// Package encoding defines what backends read of a plan: launches, their kernels, and the words of their
// items. Users of plans only need package planner.
//
// The encoding of a plan is one []uint32, which the kernels of every backend read. It has for each launch:
//
//	from word Launch.Items on: its items, in worker order
//	with Kernel.Loop, from word Launch.Table on: Count+1 item indices, or with Kernel.Dynamic DynamicWords
//	with Kernel.Partials, from word Launch.Sums on: items of fix-ups, then Kernel.Counters words each
//
// Sections start at multiples of SectionWords (256 bytes, the largest offset alignment of a storage
// binding). Worker w of a launch without Loop has item w. With Loop it has items [table[w], table[w+1]),
// counted from Launch.Items. With Dynamic it has its first items, and takes others later.
//
// ItemWord and FixupWord list the words of items and of fix-up items. Kernels with an Epilogue have more
// words. A gated tile is two consecutive items of one worker: act(alpha*A*B + bias), and its factor. On
// devices with native kernels, the workspace has a slot for each worker of such a launch, by its number, for
// the first product. Slot s is the TM x TN row-major block at workspace word s*Kernel.SlotWords(). With
// copies of boxes, it has MapWords for each worker.
package encoding

import (
	"fmt"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// SectionWords is the alignment of sections.
const SectionWords = 64

// Kernel identifies the program that a launch runs. A backend compiles or loads one program for each value,
// when it first needs it.
type Kernel struct {
	Tile           *tile.Shape
	TransA, TransB bool
	TypeA, TypeC   element.Type // of the elements of A and of C; TypeB follows from the epilogue
	// Cluster is the number of thread groups that share each worker's tiles: 2, 4 or 8. 0: one.
	Cluster uint8
	// TF32 uses one tf32 product; only with tensor core tiles.
	TF32 bool
	// Vector: B, and A if it is transposed, allow 16-byte loads in every problem of the launch: base offset
	// and leading dimension are multiples of 16 bytes. K-major operands are transposed on their way to
	// workgroup memory, by single elements, except B of few rows, which does not go there. WGSL kernels also
	// load K-major B of fp32 by single elements.
	Vector bool
	// Loop: workers hold several segments. Otherwise worker w is segment w.
	Loop bool
	// Dynamic: workers take chunks of items from a counter, see DynamicNext. Only with Loop, without Split.
	Dynamic bool
	// Split: some segments store a partial to the workspace.
	Split bool
	// Partials: the worker that stores the last partial of a tile sums all of them. Otherwise a launch of
	// Fixup kernels follows. Only with Split, for fp32 without Epilogue, and up to MaxPartials partials of a
	// tile.
	Partials bool
	// Boxes: kernels copy boxes of A and B of fp32, which begin at multiples of 16 bytes and have such
	// leading dimensions. Only of Raw tiles, for A that is not transposed, without TF32, Split and Epilogue.
	Boxes bool
	// Fixup: sums the partials of the workspace instead of multiplying. Only Tile, TypeC and
	// Epilogue.OfFixup matter beside it.
	Fixup bool
	// Epilogue is applied to sums before they are stored, but not to partials.
	Epilogue Epilogue
	// Ragged: makes the items of the launches after it. Only Epilogue matters beside it, and for native
	// kernels TypeC and the next two fields.
	Ragged  RaggedStage
	Form    RaggedForm // of the sizes
	Entries uint16     // one of RaggedEntries
	// Layer: a step of a layer of experts beside its products. Beside it TypeA, of weights or of rows, TypeC
	// and Index64 alone are meaningful.
	Layer   LayerStage
	Index64 bool // experts' numbers are int64, else int32
}

// TypeB returns the type of the elements of B: one of 4 bits with scales of groups, otherwise TypeA.
func (k Kernel) TypeB() element.Type { return k.Epilogue.ScaleB.TypeB(k.TypeA) }

// String returns the name of a kernel: tile, transposition and variants.
func (k Kernel) String() string {
	if k.Ragged > 0 {
		return k.Ragged.name() + k.Form.suffix() + k.Epilogue.String()
	}
	switch {
	case k.Layer.HasIndex() && k.Layer > 0:
		return k.Layer.name() + "/" + k.IndexName() + "/" + k.TypeA.String()
	case k.Layer > 0 && k.TypeC.Bytes() == 1:
		return k.Layer.name() + "/" + k.TypeA.String() + "/" + k.TypeC.String()
	case k.Layer > 0:
		return k.Layer.name() + "/" + k.TypeA.String()
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
		{k.Split, "/split"}, {k.Partials, "/partials"}, {k.Boxes, "/boxes"}} {
		if v.set {
			name += v.name
		}
	}
	return name + k.Epilogue.String()
}

// IndexName returns the type of experts' numbers in names of kernels.
func (k Kernel) IndexName() string {
	if k.Index64 {
		return "int64"
	}
	return "int32"
}

// Trans returns the name of a transposition of A and B: nn, nt, tn or tt.
func Trans(a, b bool) string {
	letter := map[bool]string{false: "n", true: "t"}
	return letter[a] + letter[b]
}

// MapWords is the workspace of a worker of a launch that copies boxes (kMapsWords in
// native/kernels/wgmma_boxes_store.cuh): maps of A, B and C of its latest items. It begins at multiples of
// 128 bytes.
const MapWords = 16 * 3 * 32

// MaxPartials is the most partials of a tile that kernels with Kernel.Partials sum. They add in the order of
// slots. Up to this number, fix-ups add in the same order and give the same bits (kSlotSets in
// native/kernels/store.cuh).
const MaxPartials = 8

// Counters returns how many words count the stored partials of a tile: one, or with warpgroups one for each
// warp, which has 16 rows or columns of the tile.
func (k Kernel) Counters() int {
	switch {
	case k.Tile.Swapped:
		return k.Tile.TN / 16
	case k.Tile.Unit == tile.WGMMA:
		return k.Tile.TM / 16
	}
	return 1
}

// Kept returns the workspace of a worker of a native kernel, in words: for the first product of a gated
// tile, or for maps.
func (k *Kernel) Kept() int {
	switch {
	case k.Boxes || k.Tile != nil && k.Tile.Boxes:
		return MapWords
	case !k.Epilogue.Gated || k.Tile.KeepsGated(k.TypeA.Bytes()):
		return 0
	}
	return k.SlotWords()
}

// SlotWords returns the words of a slot of the workspace, which holds sums of a tile.
func (k *Kernel) SlotWords() int {
	return elemtype.Words(elemtype.Sums(k.TypeC), k.Tile.TM*k.Tile.TN)
}

// Segment is one tile of one problem over the K range [K0, K1).
type Segment struct {
	Problem  int32
	Row, Col int32 // in tiles: the tile starts at C[Row*TM, Col*TN]
	K0, K1   int32
	// Slot is the place of the partial in the workspace, or NoSlot if the segment finishes its tile itself.
	Slot int32
	// Accumulate: an earlier launch of the plan stored the sum over [0, K0) in C. This one adds to it with
	// beta = 1.
	Accumulate bool
}

// NoSlot marks a segment that stores to C.
const NoSlot = -1

// Fixup finishes a tile whose sum is in Count consecutive partials from Slot on: C = alpha*sum + beta*C. It
// adds them in the order of slots, so every run has the same result.
type Fixup struct {
	Problem     int32
	Row, Col    int32
	Slot, Count int32
}

// Launch is a range of workers with one kernel. Launches run in order; each sees what the earlier ones
// wrote.
type Launch struct {
	Kernel
	Schedule string // schedule that dealt its work
	// Workers [First, First+Count) of the plan. For Fixup kernels it is a range of fix-ups, one for each
	// worker.
	First, Count int
	// Base offsets in the buffers, in elements, multiples of 256 bytes. Offsets in items are relative to
	// them and fit in 32 bits.
	BaseA, BaseB, BaseC, BaseB2 int
	// Span is how many elements after each base the launch touches. SpanBias and SpanRows (in words) count
	// from the start of the buffer.
	SpanA, SpanB, SpanC, SpanB2, SpanBias, SpanRows int
	// Finishes is the number of tiles with partials; their fix-ups in the plan start at FirstFixup. Only
	// with Partials.
	FirstFixup, Finishes int
	// MostPartials is the most partials of a tile; only with Fixup.
	MostPartials int
	// Chunk is the number of tiles that a worker takes at a time; only with Dynamic.
	Chunk int
	// Items, Table and Sums are the word offsets of the launch's sections in the encoding. Table exists only
	// with Loop, Sums only with Partials.
	Items, Table, Sums int
	Cost               float64 // predicted microseconds
}

// ItemCount returns the number of items of a launch of workers, which start at these segments of the plan.
func (l *Launch) ItemCount(workers []int32) int {
	return int(workers[l.First+l.Count]-workers[l.First]) * l.Epilogue.Products()
}
