package wgsl

import "fmt"

// declarePlace writes the thread's place: its K group, its row and column in
// the grid of the group, and the elements of A and B that it reads at each k.
func (r *renderer) declarePlace() {
	g := r.geometry
	place := "t"
	if g.Groups > 1 {
		place = "place"
		placeOf, groupOf := rest("t", g.GroupThreads), over("t", g.GroupThreads)
		if g.interleaved() {
			placeOf, groupOf = over("t", g.Groups), rest("t", g.Groups)
		}
		r.line("let place = %s;", placeOf)
		r.line("let group = %s;", groupOf)
	}
	if lanes := g.PatchRows * g.PatchCols; g.PatchCols == g.ThreadCols {
		r.line("let ty = %s;", over(place, g.ThreadCols))
		r.line("let tx = %s;", rest(place, g.ThreadCols))
	} else {
		across := g.ThreadCols / g.PatchCols
		r.line("let part = %s;", over(place, lanes))
		r.line("let lane = %s;", rest(place, lanes))
		r.line("let ty = %s + %s;", times(g.PatchRows, over("part", across)), over("lane", g.PatchCols))
		r.line("let tx = %s + %s;", times(g.PatchCols, rest("part", across)), rest("lane", g.PatchCols))
	}
	r.declareReads(&r.a, "ty", g.ThreadRows, r.vectorsA())
	if !g.B.Direct {
		r.declareReads(&r.b, "tx", g.ThreadCols, r.vectorsB())
	}
}

// declareReads declares what a thread reads. Its vectors lie count threads apart, so neighbouring threads
// read neighbouring elements.
func (r *renderer) declareReads(o *operand, place string, threads, vectors int) {
	for i := range vectors {
		at := plus(place, i*threads)
		if o.groups > 1 {
			at = times(o.Pitch, "group") + " + " + at
		}
		r.line("let read%s%d = %s;", o.name, i, at)
	}
}

// vectorsA and vectorsB return how many elements of A and B a thread reads at one k.
func (r *renderer) vectorsA() int { return r.Tile.RM / r.A.Element }
func (r *renderer) vectorsB() int { return r.Tile.RN / r.B.Element }

func accumulator(i int) string { return fmt.Sprintf("c%d", i) }

func (r *renderer) declareAccumulators() {
	for i := range r.Accumulators {
		r.line("var %s: %s;", accumulator(i), vec(r.B.Element))
		if r.dot() {
			r.line("var %s: %s;", r.sum(i), vecOf("i32", r.B.Element))
		}
	}
}

func (r *renderer) clearAccumulators() {
	for i := range r.Accumulators {
		if r.dot() {
			r.line("%s = %s;", r.sum(i), splatOf("i32", r.B.Element, "0"))
		} else {
			r.line("%s = %s;", accumulator(i), splat(r.B.Element, "0.0"))
		}
	}
}

// ahead returns how many K steps are being loaded while one is multiplied. Two steps of narrow elements have
// the bytes of one step in fp32, and small tiles, which wait for memory, have registers for them: a layer of
// experts of 16 tokens takes 7 percent less time on an H200. The text has two steps, which is too long for
// larger tiles and for short texts.
func (r *renderer) ahead() int {
	if r.a.narrow() && !r.short && r.GroupSteps*r.Tile.RM*r.Tile.RN <= 128 {
		return 2
	}
	return 1
}

// turn selects the registers of the next loads and stores.
func (r *renderer) turn(n int) { r.a.turn, r.b.turn = n, n }

func (r *renderer) loadNext() {
	r.a.load(&r.writer)
	r.b.load(&r.writer)
}

// loadAhead loads the last of the K steps ahead, if it exists.
func (r *renderer) loadAhead() {
	exists := "left != 0u"
	if n := r.ahead() - 1; n > 0 {
		exists = fmt.Sprintf("left > %du", n*r.Tile.TK)
	}
	r.block("if ("+exists+")", func() {
		r.a.advance(&r.writer)
		r.b.advance(&r.writer)
		r.loadNext()
	})
}

// multiply writes the K loop of an item. Its conditions depend only on the item, so all threads meet at the
// barriers.
func (r *renderer) multiply() {
	switch {
	case r.dot():
		r.multiplyDots()
	case r.late:
		r.multiplyLate()
	default:
		r.multiplySteps("depth")
	}
}

// multiplySteps writes it for that many k.
func (r *renderer) multiplySteps(depth string) {
	r.line("var left = %s;", depth)
	r.block("if (left != 0u)", func() {
		r.a.start(&r.writer)
		r.b.start(&r.writer)
		r.loadNext()
		for n := 1; n < r.ahead(); n++ {
			r.turn(n)
			r.loadAhead()
		}
		r.block("loop", func() {
			for n := range r.ahead() {
				r.turn(n)
				r.kStep()
			}
		})
	})
}

// kStep writes a K step. It is the last one if less than a whole step follows.
func (r *renderer) kStep() {
	r.a.store(&r.writer)
	r.b.store(&r.writer)
	r.line("workgroupBarrier();")
	switch {
	case r.short && r.B.Direct && !r.b.packed():
		r.shortStep(func() { r.directRows(r.Tile.RM, true) })
		return
	case r.loops():
		r.line("let many = min(left, %du);", r.Tile.TK)
		r.shortStep(func() { r.rolledSteps("many") })
		return
	}
	short := func() { r.rolledSteps("left") }
	if r.B.Direct {
		short = func() { r.directRows(r.Tile.RM, true) }
	}
	// K of Int4 is a multiple of the group, and such steps do not cut groups
	if whole := r.B.Direct && r.b.packed(); !whole {
		r.block(fmt.Sprintf("if (left < %du)", r.Tile.TK), func() {
			short()
			r.line("break;")
		})
	}
	r.line("left = left - %du;", r.Tile.TK)
	// The loads of later steps run while this one is multiplied.
	r.loadAhead()
	if r.B.Direct {
		r.directStep()
	} else {
		r.steps()
	}
	r.line("if (left == 0u) { break; }")
	r.line("workgroupBarrier();")
}

// mostUnrolled is how many multiplications of a thread a K step has in the text with Limits.Short.
const mostUnrolled = 64

// shortStep writes the rest of a K step in a short text, which has the products once: in whole steps as in
// the last, shorter one.
func (r *renderer) shortStep(products func()) {
	products()
	r.line("if (left <= %du) { break; }", r.Tile.TK)
	r.line("left = left - %du;", r.Tile.TK)
	r.loadAhead()
	r.line("workgroupBarrier();")
}

// steps multiplies a whole K step.
func (r *renderer) steps() {
	for k := range r.GroupSteps {
		r.block("", func() { r.step(fmt.Sprintf("%du", k)) })
	}
}

// rolledSteps multiplies a K step in a loop: the k below an end.
func (r *renderer) rolledSteps(end string) {
	k := "k"
	if r.Groups > 1 {
		k = times(r.Groups, "k") + " + group"
	}
	r.block(fmt.Sprintf("for (var k = 0u; %s < %s; k = k + 1u)", k, end), func() { r.step("k") })
}

// step multiplies row k of the workgroup memory: one k of every K group.
func (r *renderer) step(k string) {
	for i := range r.vectorsA() {
		r.line("let a%d = sharedA[%s][readA%d];", i, k, i)
	}
	for j := range r.vectorsB() {
		b := fmt.Sprintf("sharedB[%s][readB%d]", k, j)
		if !r.dot() {
			b = r.b.held(b)
		}
		r.line("let b%d = %s;", j, b)
	}
	for i := range r.Tile.RM {
		a := component(r.A.Element, fmt.Sprintf("a%d", i/r.A.Element), i%r.A.Element)
		for j := range r.vectorsB() {
			c := accumulator(i*r.vectorsB() + j)
			if r.dot() {
				r.addDots(i*r.vectorsB()+j, a, fmt.Sprintf("b%d", j))
				continue
			}
			r.line("%s = fma(%s, b%d, %s);", c, splat(r.B.Element, a), j, c)
		}
	}
}
