package wgsl

import (
	"fmt"

	"github.com/batchgemm/batchgemm/planner/element"
	"github.com/batchgemm/batchgemm/planner/encoding"
)

const (
	// fixupVectors is the number of vectors of 4 elements that one workgroup of
	// a fix-up kernel sums: 256 adjacent bytes of every slot. The smallest tile
	// has as many; larger ones are shared by several workgroups.
	fixupVectors = 16
	// fixupGroups is the number of thread groups that share the slots of a tile,
	// and fixupUnroll the loads that each thread has under way: the sum of 100
	// slots waits for 4 loads one after the other and not for 100.
	fixupGroups = 8
	fixupUnroll = 4
)

// fixup writes the kernel that sums the parts of a tile, which lie in
// consecutive slots of the workspace, and stores C. Workgroup (x, y) does piece
// y of the tile of item x. Thread group g sums the slots g, g + groups, ...;
// then the first group adds these sums in order.
func (r *renderer) fixup() {
	const width = 4
	t := r.Tile
	groups := r.threads / fixupVectors
	vectors := t.TM * t.TN / width // of a slot

	r.bind(BindItems, "items", "vec4<u32>")
	r.bindC()
	r.bind(BindWorkspace, "workspace", vec(width))
	r.bindEpilogue()
	if r.kernel.TypeC != element.F32 {
		r.line("var<workgroup> words: array<u32, %d>;", 2*fixupVectors)
	}
	r.line("var<workgroup> sums: array<%s, %d>;", vec(width), r.threads)
	r.accessors()
	r.epilogueFunctions()
	r.main(func() {
		r.load("worker.x", r.kernel.ItemWords())
		r.line("let offC = %s;", word(encoding.FixupOffC))
		r.line("let ldC = %s;", word(encoding.FixupLDC))
		r.extent(word(encoding.FixupExtent))
		r.line("let alpha = bitcast<f32>(%s);", word(encoding.FixupAlpha))
		r.line("let beta = bitcast<f32>(%s);", word(encoding.FixupBeta))
		r.epilogueWords()
		r.line("let group = t / %du;", fixupVectors)
		r.line("let vector = worker.y * %du + t %% %du;", fixupVectors, fixupVectors)
		r.line("let end = (%s + %s) * %du;", word(encoding.FixupSlot), word(encoding.FixupCount), vectors)
		r.line("var at = (%s + group) * %du + vector;", word(encoding.FixupSlot), vectors)
		r.line("var sum = %s;", splat(width, "0.0"))
		stride := groups * vectors
		r.block(fmt.Sprintf("for (; at + %du < end; at = at + %du)", (fixupUnroll-1)*stride, fixupUnroll*stride), func() {
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
				r.line("sum = sum + sums[%s];", plus("t", g*fixupVectors))
			}
		})
		r.finish(width, []output{{Value: "sum", Row: over("vector", t.TN/width), Vector: rest("vector", t.TN/width)}})
	})
}

// fixupThreads is the size of the workgroups of a fix-up kernel.
func fixupThreads(lim Limits) (int, error) {
	threads := fixupVectors * fixupGroups
	for threads > lim.Threads {
		threads /= 2
	}
	if threads < fixupVectors {
		return 0, fmt.Errorf("fix-ups need %d threads, the adapter allows %d", fixupVectors, lim.Threads)
	}
	return threads, nil
}

// sharedOfFixup is the workgroup memory of a fix-up kernel: sums, and the words of its piece.
func sharedOfFixup(k encoding.Kernel, threads int) int {
	bytes := 16 * threads
	if k.TypeC != element.F32 {
		bytes += 4 * 2 * fixupVectors
	}
	return bytes
}
