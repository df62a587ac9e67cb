package wgsl

import (
	"fmt"
	"strings"
)

// reduce sums the accumulators of the K groups through workgroup memory, Chunk at a time, and returns the
// outputs that the thread stores.
//
// Accumulator i of the chunk, of the thread at place p in group g, goes to slot g, position i*GroupThreads +
// p. A thread's number is group*GroupThreads + place. So the thread of group g finds there the accumulators
// g, g + Groups, ... of its own place (interleaved threads have other numbers). It sums them over the slots,
// always in the same order. The first half of the slots is in sharedA, the rest in sharedB.
func (r *renderer) reduce() []output {
	var outputs []output
	for first := 0; first < r.Accumulators; first += r.Chunk {
		of := func(i int) string { return accumulator(first + i) }
		r.reduceChunk(of)
		for i := range max(1, r.Chunk/r.Groups) {
			outputs = append(outputs, r.output(of(i), plus("group", first+i*r.Groups)))
		}
	}
	return outputs
}

// reduceChunk sums the accumulators of a chunk into the first of them.
func (r *renderer) reduceChunk(of func(i int) string) {
	half, own := (r.Groups+1)/2, "t"
	if r.interleaved() {
		own = times(r.GroupThreads, "group") + " + place"
	}
	slot := r.Chunk * r.GroupThreads // elements
	put := func(o *operand, group string) func() {
		return func() {
			r.line("let at = %s + place;", times(slot, group))
			for i := range r.Chunk {
				r.line("%s = %s;", r.slotElement(o, plus("at", i*r.GroupThreads)), o.hold(o.Element, of(i)))
			}
		}
	}
	r.line("workgroupBarrier();")
	r.ifElse(fmt.Sprintf("group < %du", half),
		put(&r.a, "group"), put(&r.b, fmt.Sprintf("group - %du", half)))
	r.line("workgroupBarrier();")
	r.owners(func() {
		for i := range max(1, r.Chunk/r.Groups) {
			terms := make([]string, r.Groups)
			for g := range terms {
				at := i*r.Tile.Threads + g%half*slot
				if g < half {
					terms[g] = r.a.held(r.slotElement(&r.a, plus(own, at)))
				} else {
					terms[g] = r.b.held(r.slotElement(&r.b, plus(own, at)))
				}
			}
			r.line("%s = %s;", of(i), strings.Join(terms, " + "))
		}
	})
}

// slotElement returns an element of the slots in an operand's workgroup memory.
func (r *renderer) slotElement(o *operand, index string) string {
	row := r.sumRow(o.stage)
	return fmt.Sprintf("shared%s[%s][%s]", o.name, over(index, row), rest(index, row))
}

// owners encloses what only threads with outputs do. If chunks are smaller than the number of K groups, the
// last groups have none. In a fix-up the first group has them.
func (r *renderer) owners(body func()) {
	switch {
	case r.kernel.Fixup:
		r.block("if (group == 0u)", body)
	case r.Chunk >= r.Groups || r.Groups == 1:
		body()
	default:
		r.block(fmt.Sprintf("if (group < %du)", r.Chunk), body)
	}
}
