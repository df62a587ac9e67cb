package wgsl

import (
	"fmt"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

const (
	// fixupMost is the number of threads of a fix-up kernel, if the limits allow it: thread groups share the
	// slots of a tile. fixupUnroll is the number of concurrent loads of each thread: the sum of 100 slots
	// waits for 4 dependent loads, not for 100.
	fixupMost   = 128
	fixupUnroll = 4
)

// fixupVectors returns how many vectors of 4 elements a workgroup of a fix-up kernel sums: 256 adjacent
// bytes of every slot, or a row of the tile if that is longer. The smallest tile has that many; several
// workgroups share larger tiles.
func fixupVectors(t *tile.Shape) int { return max(16, t.TN/4) }

// fixup writes the kernel that sums the partials of a tile, which are in consecutive slots of the workspace,
// and stores C. Workgroup (x, y) sums piece y of the tile of item x. Thread group g sums the slots g, g +
// groups, ...; then the first group adds these sums in order.
func (r *renderer) fixup() {
	const width = 4
	t := r.Tile
	piece := fixupVectors(&t)
	groups := r.threads / piece
	vectors := t.TM * t.TN / width // of a slot

	r.bind(encoding.BindItems, "items", "vec4<u32>")
	r.bindC()
	r.bind(encoding.BindWorkspace, "workspace", vec(width))
	r.bindEpilogue()
	if r.kernel.TypeC != element.F32 {
		r.line("var<workgroup> words: array<u32, %d>;", piece)
	}
	r.line("var<workgroup> sums: array<%s, %d>;", vec(width), r.threads)
	r.accessors(width)
	r.epilogueFunctions()
	r.main(func() {
		r.load("worker.x", r.kernel.ItemWords())
		r.line("let offC = %s;", word(encoding.FixupOffC))
		r.line("let ldC = %s;", word(encoding.FixupLDC))
		r.extent(word(encoding.FixupExtent))
		r.line("let alpha = bitcast<f32>(%s);", word(encoding.FixupAlpha))
		r.line("let beta = bitcast<f32>(%s);", word(encoding.FixupBeta))
		r.epilogueWords()
		r.line("let group = t / %du;", piece)
		r.line("let vector = worker.y * %du + t %% %du;", piece, piece)
		r.line("let end = (%s + %s) * %du;", word(encoding.FixupSlot), word(encoding.FixupCount), vectors)
		r.line("var at = (%s + group) * %du + vector;", word(encoding.FixupSlot), vectors)
		r.line("var sum = %s;", splat(width, "0.0"))
		stride := groups * vectors
		r.block(fmt.Sprintf("for (; at + %du < end; at = at + %du)", (fixupUnroll-1)*stride,
			fixupUnroll*stride), func() {
			for i := range fixupUnroll {
				r.line("let part%d = workspace[%s];", i, plus("at", i*stride))
			}
			for i := range fixupUnroll {
				r.line("sum = sum + part%d;", i)
			}
		})
		r.block(fmt.Sprintf("for (; at < end; at = at + %du)", stride), func() {
			r.line("sum = sum + workspace[at];")
		})
		r.line("sums[t] = sum;")
		r.line("workgroupBarrier();")
		r.owners(func() {
			for g := 1; g < groups; g++ {
				r.line("sum = sum + sums[%s];", plus("t", g*piece))
			}
		})
		r.finish(width, []output{{Value: "sum", Row: over("vector", t.TN/width),
			Vector: rest("vector", t.TN/width)}})
	})
}

// fixupThreads returns the size of the workgroups of a fix-up kernel.
func fixupThreads(t *tile.Shape, lim Limits) (int, error) {
	piece, threads := fixupVectors(t), fixupMost
	for threads > lim.Threads {
		threads /= 2
	}
	if threads < piece {
		return 0, fmt.Errorf("fix-ups need %d threads, the adapter allows %d", piece, lim.Threads)
	}
	return threads, nil
}

// sharedOfFixup returns the workgroup memory of a fix-up kernel: sums, and the words of its piece.
func sharedOfFixup(k encoding.Kernel, threads int) int {
	bytes := 16 * threads
	if k.TypeC != element.F32 {
		bytes += 4 * fixupVectors(k.Tile)
	}
	return bytes
}
