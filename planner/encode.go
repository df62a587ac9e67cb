package planner

import (
	"slices"
	"sort"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Encode appends the words that kernels read to dst[:0] and returns the slice. Package encoding describes
// the layout. It allocates only if dst is too short.
func (p *Plan) Encode(dst []uint32) []uint32 {
	switch {
	case p.Layer != nil && len(p.Launches) > 0:
		return p.Layer.Encode(dst[:0], p.Launches[0].Count)
	case p.Ragged != nil:
		return p.encodeRagged(dst)
	}
	if cap(dst) < p.Words {
		dst = make([]uint32, p.Words)
	}
	dst = dst[:p.Words]
	end := 0 // of the words written so far
	for i := range p.Launches {
		l := &p.Launches[i]
		clear(dst[end:l.Items])
		if l.Fixup {
			end = p.encodeFixups(dst, l.Items, l, p.Fixups[l.First:l.First+l.Count])
			continue
		}
		end = p.encodeItems(dst, l)
		if l.Loop {
			clear(dst[end:l.Table])
			end = p.encodeTable(dst, l)
		}
		if l.Finishes > 0 {
			clear(dst[end:l.Sums])
			end = p.encodeFixups(dst, l.Sums, l, p.Fixups[l.FirstFixup:l.FirstFixup+l.Finishes])
			clear(dst[end : end+l.Finishes*l.Counters()])
			end += l.Finishes * l.Counters()
		}
	}
	clear(dst[end:])
	return dst
}

// encodeRagged is Encode of a ragged plan.
func (p *Plan) encodeRagged(dst []uint32) []uint32 {
	n := encoding.RaggedHead + len(p.Records)
	dst = slices.Grow(dst[:0], n)[:n]
	clear(dst[copy(dst, p.bounds):encoding.RaggedHead])
	copy(dst[encoding.RaggedHead:], p.Records)
	return dst
}

// encodeItems, encodeFixups and encodeTable write a section and return its end.
func (p *Plan) encodeItems(dst []uint32, l *encoding.Launch) int {
	segments := p.Segments[p.Workers[l.First]:p.Workers[l.First+l.Count]]
	e := itemEncoder{plan: p, launch: l, tile: l.Tile, words: l.ItemWords(), vector: p.Options.vector(),
		problem: -1}
	at, words := l.Items, e.words*l.Epilogue.Products()
	tiles := p.Fixups[l.FirstFixup : l.FirstFixup+l.Finishes]
	for i := range segments {
		e.encode(dst[at:], &segments[i])
		if slot := segments[i].Slot; slot != encoding.NoSlot && len(tiles) > 0 {
			encodePartial(dst[at:], l, tiles, slot)
		}
		at += words
	}
	return at
}

// encodePartial writes, in the item of a partial, where its tile is. Tiles are in the order of their slots.
func encodePartial(w []uint32, l *encoding.Launch, tiles []encoding.Fixup, slot int32) {
	tile := sort.Search(len(tiles), func(i int) bool { return tiles[i].Slot > slot }) - 1
	fixups := l.Sums - l.Items
	w[encoding.PartialFixup] = uint32(fixups+tile*encoding.FixupWords) / 4
	w[encoding.PartialStored] = uint32(fixups + len(tiles)*encoding.FixupWords + tile*l.Counters())
	w[encoding.Flags] |= encoding.ItemPartial
}

func (p *Plan) encodeFixups(dst []uint32, at int, l *encoding.Launch, fixups []encoding.Fixup) int {
	words := encoding.FixupWords
	if l.Fixup {
		words = l.ItemWords()
	}
	for i := range fixups {
		p.encodeFixup(dst[at:], l, &fixups[i])
		at += words
	}
	return at
}

func (p *Plan) encodeTable(dst []uint32, l *encoding.Launch) int {
	if l.Dynamic {
		tiles := int(p.Workers[l.First+l.Count] - p.Workers[l.First])
		w := dst[l.Table:][:encoding.DynamicWords]
		w[encoding.DynamicNext], w[encoding.DynamicEnd] = 0, uint32(tiles)
		w[encoding.DynamicFirst], w[encoding.DynamicChunk] = uint32(l.Count*l.Chunk), uint32(l.Chunk)
		w[encoding.DynamicLast] = uint32(ceilDiv(tiles, l.Chunk) - 1)
		return l.Table + encoding.DynamicWords
	}
	workers, products := p.Workers[l.First:l.First+l.Count+1], l.Epilogue.Products()
	for i, w := range workers {
		dst[l.Table+i] = uint32(int(w-workers[0]) * products)
	}
	return l.Table + len(workers)
}

func tableWords(l *encoding.Launch) int {
	if l.Dynamic {
		return encoding.DynamicWords
	}
	return l.Count + 1
}

// layout places the sections of all launches and sets p.Words.
func (p *builder) layout() {
	at := 0
	section := func(words int) (start int) {
		start = (at + encoding.SectionWords - 1) / encoding.SectionWords * encoding.SectionWords
		at = start + words
		return start
	}
	for i := range p.Launches {
		l := &p.Launches[i]
		if l.Fixup {
			l.Items = section(l.Count * l.ItemWords())
			continue
		}
		l.Items = section(l.ItemCount(p.Workers) * l.ItemWords())
		if l.Loop {
			l.Table = section(tableWords(l))
		}
		if l.Finishes > 0 {
			l.Sums = section(l.Finishes * (encoding.FixupWords + l.Counters()))
		}
	}
	p.Words = section(0)
}

// itemEncoder encodes the items of a launch. It computes what the segments of a problem have in common once,
// because segments of one problem follow each other.
type itemEncoder struct {
	plan    *Plan
	launch  *encoding.Launch
	tile    *tile.Shape
	words   int   // of an item
	vector  int   // elements of a 16-byte load
	problem int32 // of common; -1: none
	q       *Problem
	common  [encoding.ItemWords]uint32
	low     [2]uint32 // of alpha and beta
	// Distances in elements: in A from a tile row or a k to the next, in B from a k or a tile column to the
	// next, in C from a tile row to the next.
	rowA, kA, kB, colB, rowC int
}

func (e *itemEncoder) begin(problem int32) {
	l, t, q := e.launch, e.tile, &e.plan.Batch[problem]
	e.problem, e.q = problem, q
	e.rowA, e.kA, e.rowC = t.TM*q.A.LD, 1, t.TM*q.C.LD
	e.kB, e.colB = q.B.LD, t.TN*e.plan.Options.Epilogue.ScaleB.ApartB()
	if q.TransA {
		e.rowA, e.kA = t.TM, q.A.LD
	}
	if q.TransB {
		e.kB, e.colB = 1, t.TN*q.B.LD
	}
	c := &e.common
	c[encoding.OffA], c[encoding.OffB] = uint32(q.A.Offset-l.BaseA), uint32(q.B.Offset-l.BaseB)
	c[encoding.OffC], c[encoding.Flags] = uint32(q.C.Offset-l.BaseC), 0
	c[encoding.LDA], c[encoding.LDB], c[encoding.LDC] = uint32(q.A.LD), uint32(q.B.LD), uint32(q.C.LD)
	c[encoding.Alpha], e.low[0] = encoding.PutScalar(l.TypeC, q.Alpha.Value())
	c[encoding.Beta], e.low[1] = encoding.PutScalar(l.TypeC, q.Beta)
	if q.depth() == 0 {
		c[encoding.Alpha], e.low[0] = 0, 0
	}
	if q.aligned(e.vector) {
		c[encoding.Flags] = encoding.ItemVector
	}
	c[encoding.Flags] |= e.plan.Options.flagsC()
}

// encode writes the item of a segment, with a tail if the launch has an epilogue, and a second item if the
// tile is gated. It writes word by word, because a copy of several words would wait for the stores of begin.
func (e *itemEncoder) encode(dst []uint32, s *encoding.Segment) {
	w := (*[encoding.ItemWords]uint32)(dst)
	if s.Problem != e.problem {
		e.begin(s.Problem)
	}
	row, col, k0, c := int(s.Row), int(s.Col), int(s.K0), &e.common
	w[encoding.OffA] = c[encoding.OffA] + uint32(row*e.rowA+k0*e.kA)
	w[encoding.OffB] = c[encoding.OffB] + uint32(k0*e.kB+col*e.colB)
	w[encoding.OffC] = c[encoding.OffC] + uint32(row*e.rowC+col*e.tile.TN)
	w[encoding.Depth] = uint32(s.K1 - s.K0)
	w[encoding.LDA], w[encoding.LDB], w[encoding.LDC] = c[encoding.LDA], c[encoding.LDB], c[encoding.LDC]
	tm, tn := e.tile.TM, e.tile.TN
	w[encoding.Extent] = encoding.PackExtent(min(e.q.M-row*tm, tm), min(e.q.N-col*tn, tn))
	w[encoding.Alpha], w[encoding.Beta] = c[encoding.Alpha], c[encoding.Beta]
	w[encoding.Flags] = c[encoding.Flags]
	if s.Accumulate {
		w[encoding.Beta], _ = encoding.PutScalar(e.launch.TypeC, 1)
	}
	w[encoding.Slot] = uint32(s.Slot) // NoSlot becomes Final
	if e.words > encoding.ItemWords {
		e.encodeTail(dst, s)
	}
}

// encodeTail writes the tail of an item, and changes the words of the head that an epilogue changes.
func (e *itemEncoder) encodeTail(w []uint32, s *encoding.Segment) {
	q, t, o := e.q, e.tile, &e.plan.Options.Epilogue
	row, col := int(s.Row)*t.TM, int(s.Col)*t.TN
	_ = w[encoding.EpilogueItemWords-1]
	w[encoding.GatherAt], w[encoding.GatherRows] = uint32(q.RowsA+row), uint32(o.GatherRows)
	w[encoding.ScatterAt], w[encoding.ScatterRows] = uint32(q.RowsC+row), uint32(o.ScatterRows)
	w[encoding.WeightsAt], w[encoding.BiasAt] = uint32(q.Weights+row), uint32(q.Bias+col)
	w[encoding.PointersAt] = q.pointersAt(&e.launch.Epilogue)
	if e.launch.TypeC == element.F64 {
		if w[encoding.AlphaLow], w[encoding.BetaLow] = e.low[0], e.low[1]; s.Accumulate {
			w[encoding.BetaLow] = 0
		}
	} else {
		w[encoding.ScaleAAt], w[encoding.ScaleBAt] = o.scaleA(q, row), o.scaleB(q, int(s.K0), col)
	}
	clear(w[encoding.ScaleBAt+1 : encoding.EpilogueItemWords])
	if o.GatherRows > 0 {
		w[encoding.OffA] -= uint32(row * q.A.LD)
	}
	if o.ScatterRows > 0 {
		w[encoding.OffC] -= uint32(row * q.C.LD)
	}
	if o.Gated {
		e.encodeSecond(w[e.words:2*e.words], w, int(s.K0), col)
	}
}

// encodeSecond writes the second item of a gated tile: the first item with the words of B2.
func (e *itemEncoder) encodeSecond(second, first []uint32, k0, col int) {
	q, o := e.q, &e.plan.Options.Epilogue
	copy(second, first)
	offB := q.elementB2(k0, col*o.ScaleB.ApartB()) - e.launch.BaseB2
	second[encoding.OffB], second[encoding.LDB] = uint32(offB), uint32(q.B2.LD)
	second[encoding.BiasAt] += uint32(q.N)
	if o.ScaleB != "" {
		second[encoding.ScaleBAt] += uint32(o.scalesOf(q, q.B.LD))
	}
	second[encoding.Flags] = first[encoding.Flags]&^encoding.ItemVector | encoding.ItemSecond
	if q.A.aligned(e.vector) && q.B2.aligned(e.vector) {
		second[encoding.Flags] |= encoding.ItemVector
	}
}

// encodeFixup writes the item of a fix-up, with a tail if the launch has an epilogue.
func (p *Plan) encodeFixup(w []uint32, l *encoding.Launch, f *encoding.Fixup) {
	t, q := l.Tile, &p.Batch[f.Problem]
	row, col := int(f.Row)*t.TM, int(f.Col)*t.TN
	_ = w[encoding.FixupWords-1]
	w[encoding.FixupOffC] = uint32(q.C.Offset + row*q.C.LD + col - l.BaseC)
	w[encoding.FixupLDC] = uint32(q.C.LD)
	w[encoding.FixupExtent] = encoding.PackExtent(min(q.M-row, t.TM), min(q.N-col, t.TN))
	alpha, alphaLow := encoding.PutScalar(l.TypeC, q.Alpha.Value())
	beta, betaLow := encoding.PutScalar(l.TypeC, q.Beta)
	w[encoding.FixupAlpha], w[encoding.FixupBeta] = alpha, beta
	w[encoding.FixupSlot], w[encoding.FixupCount] = uint32(f.Slot), uint32(f.Count)
	w[encoding.FixupPointersAt] = q.pointersAt(&l.Epilogue)
	if l.Epilogue == (encoding.Epilogue{}) && l.TypeC != element.F64 {
		return
	}
	e := &p.Options.Epilogue
	w[encoding.FixupScatterAt], w[encoding.FixupScatterRows] = uint32(q.RowsC+row), uint32(e.ScatterRows)
	w[encoding.FixupWeightsAt], w[encoding.FixupBiasAt] = uint32(q.Weights+row), uint32(q.Bias+col)
	if e.ScatterRows > 0 {
		w[encoding.FixupOffC] = uint32(q.C.Offset + col - l.BaseC)
	}
	w[encoding.FixupGatherAt], w[encoding.FixupGatherRows] = uint32(q.RowsA+row), uint32(e.GatherRows)
	if w[encoding.FixupAlphaLow], w[encoding.FixupBetaLow] = alphaLow, betaLow; l.TypeC != element.F64 {
		w[encoding.FixupScaleAAt], w[encoding.FixupScaleBAt] = e.scaleA(q, row), e.scaleB(q, 0, col)
	}
}

// pointersAt returns the word of Rows with the problem's addresses, or 0 if kernels read none.
func (p *Problem) pointersAt(e *encoding.Epilogue) uint32 {
	if !e.Pointers.Any() {
		return 0
	}
	return uint32(p.Pointers)
}

// aligned reports whether loads of 16 bytes, of that many elements of A and B, are aligned. Within a matrix,
// tiles and K steps start at multiples of that many rows, columns or k.
func (p *Problem) aligned(elements int) bool { return p.A.aligned(elements) && p.B.aligned(elements) }

// vectorTile reports whether such loads are aligned for B, and for A if it is MN-major: see Kernel.Vector.
func (p *Problem) vectorTile(elements int) bool {
	return p.B.aligned(elements) && (!p.TransA || p.A.aligned(elements))
}

func (m Matrix) aligned(elements int) bool { return elements > 0 && (m.Offset|m.LD)&(elements-1) == 0 }
