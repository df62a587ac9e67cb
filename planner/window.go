package planner

import (
	"cmp"
	"math"
	"slices"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
	"github.com/batchgemm/batchgemm/planner/internal/radix"
)

// If buffers are larger than a binding, or K is longer than a thread may loop, the batch is cut into
// launches that each reach a window of A, B and C. A tile whose operands do not fit in one window is cut
// along K. Its pieces accumulate in C, launch after launch, without workspace and always in the same order.
// Alpha multiplies each piece, so an infinite alpha gives NaN if pieces differ in sign. Only the last launch
// applies the epilogue.

// spanLimit returns how many elements of one buffer a launch can reach. Kernels use 32-bit offsets; bases
// are rounded down to baseBytes.
func (d *Device) spanLimit(of element.Type) int {
	limit := int(min(math.MaxUint32, maxElements))
	// Numbers of 4-bit elements, and of words of F64, may exceed a 32-bit int.
	words := d.MaxBinding / 4
	switch per := of.PerWord(); {
	case words == 0:
	case per == 0:
		limit = min(limit, words/elemtype.Words(of, 1))
	case words < limit/per:
		limit = words * per
	}
	return limit
}

// baseBytes is the alignment of Launch.BaseA and the others: the largest offset alignment that WebGPU
// devices ask for.
const baseBytes = 256

// baseAlign is the same in elements.
func baseAlign(of element.Type) int { return elemtype.PerBytes(of, baseBytes) }

// reachable reports whether a launch can reach that many elements of A, B and C from their first on.
func (p *Plan) reachable(a, b, c int) bool {
	d, o := p.Device, &p.Options
	return a <= d.spanLimit(o.TypeA) && b <= d.spanLimit(o.TypeB) && c <= d.spanLimit(o.TypeC)
}

// window is the range of elements of one buffer that a launch touches.
type window struct{ first, end int }

func (w window) with(o window) window {
	if w.first == w.end {
		return o
	}
	if o.first == o.end {
		return w
	}
	return window{min(w.first, o.first), max(w.end, o.end)}
}

func (w window) base(of element.Type) int { return w.first / baseAlign(of) * baseAlign(of) }
func (w window) span(of element.Type) int { return w.end - w.base(of) }

// windows are those of A, B, C and B2.
type windows [4]window

func (w windows) with(o windows) windows {
	for i := range w {
		w[i] = w[i].with(o[i])
	}
	return w
}

// within reports whether a launch can reach windows.
func (p *builder) within(w windows) bool {
	o := &p.Options
	return p.reachable(w[0].span(o.TypeA), max(w[1].span(o.TypeB), w[3].span(o.TypeB)), w[2].span(o.TypeC))
}

// reach returns the windows of a segment. Rows that are gathered or scattered may be anywhere, so the window
// is all of the matrix. Operands with addresses are in no window.
func reach(t *tile.Shape, q *Problem, s *encoding.Segment, e *Epilogue) windows {
	row, col := int(s.Row)*t.TM, int(s.Col)*t.TN
	rows, cols, depth := min(t.TM, q.M-row), min(t.TN, q.N-col), int(s.K1-s.K0)
	var w windows
	if depth > 0 && !e.Pointers.A {
		first, last := row, row+rows-1
		if e.GatherRows > 0 {
			first, last = 0, e.GatherRows-1
		}
		w[0] = window{q.elementA(first, int(s.K0)), q.elementA(last, int(s.K1)-1) + 1}
	}
	if depth > 0 && !e.Pointers.B {
		apart := e.ScaleB.ApartB() // the last panel begins that many k before the end
		first, last, end := int(s.K0), int(s.K1)-apart, (col+cols)*apart-1
		w[1] = window{q.elementB(first, col*apart), q.elementB(last, end) + 1}
		if e.Gated {
			w[3] = window{q.elementB2(first, col*apart), q.elementB2(last, end) + 1}
		}
	}
	if e.Pointers.C {
		return w
	}
	if e.ScatterRows > 0 {
		row, rows = 0, e.ScatterRows
	}
	c := q.C.Offset + row*q.C.LD + col
	w[2] = window{c, c + (rows-1)*q.C.LD + cols}
	return w
}

// cutLimit returns the largest distance, in elements, between the ends of what must be in one window,
// wherever the window begins.
func (p *builder) cutLimit(of element.Type) int { return p.Device.spanLimit(of) - baseAlign(of) }

// panelDepth returns the longest K range with which every tile of the problem fits in a window: all of K, or
// a multiple of TK, which may be 0.
func (p *builder) panelDepth(t *tile.Shape, q *Problem) int {
	whole := q.depth()
	if whole == 0 { // A and B are not read
		return 1
	}
	limitA, limitB := p.cutLimit(p.Options.TypeA), p.cutLimit(p.Options.TypeB)
	depth := min(whole, p.model.trips.depth(t))
	fit := func(limit, ld int, strided bool, extent, apart int) {
		if strided { // K runs down the rows: (depth-apart)*ld + extent*apart
			depth = min(depth, (limit-extent*apart)/max(ld, 1)+apart)
		} else { // K runs within a row: (extent-1)*ld + depth
			depth = min(depth, limit-(extent-1)*ld)
		}
	}
	e := &p.Options.Epilogue
	if !e.Pointers.A {
		fit(limitA, q.A.LD, q.TransA, e.storedA(min(t.TM, q.M)), 1)
	}
	if !e.Pointers.B {
		fit(limitB, q.B.LD, !q.TransB, min(t.TN, q.N), e.ScaleB.ApartB())
	}
	if e.Gated && !e.Pointers.B {
		fit(limitB, q.B2.LD, !q.TransB, min(t.TN, q.N), e.ScaleB.ApartB())
	}
	if depth == whole {
		return whole
	}
	return depth / t.TK * t.TK
}

// shrinkToBindings changes the shape of problems whose rows are so long that one tile of the chosen shape
// exceeds a binding. They take the shape with the fewest rows.
func (p *builder) shrinkToBindings() {
	flat, e := -1, &p.Options.Epilogue // the flattest shape that fits
	for id := range p.model.tiles {
		if t := &p.model.tiles[id]; t.fits && (flat < 0 || t.shape.TM < p.model.tiles[flat].shape.TM) {
			flat = id
		}
	}
	for i := range p.Batch {
		q := &p.Batch[i]
		t := p.model.tiles[p.choice[i]].shape
		long := !e.Pointers.C && (e.storedC(min(t.TM, q.M))-1)*q.C.LD+t.TN > p.cutLimit(p.Options.TypeC)
		if e.Writes(q) && (long || p.panelDepth(t, q) <= 0) {
			p.choice[i] = tileID(flat)
		}
	}
}

// dealWindows deals a group as one tile or K panel for each worker, in launches that fit in a binding.
func (p *builder) dealWindows(g *group) error {
	// Windows follow memory, so problems keep the order of the batch. Each launch is sorted by K afterwards.
	slices.SortFunc(g.problems, func(x, y radix.Key) int { return cmp.Compare(x.Index, y.Index) })
	var open windows
	first, partly := len(p.Workers)-1, false // partly: windows of K that others follow
	flush := func() {
		if first < len(p.Workers)-1 {
			p.launchWindow(g, first, open, partly)
		}
		first, open = len(p.Workers)-1, windows{}
	}
	for _, o := range g.problems {
		q := &p.Batch[o.Index]
		panel := p.panelDepth(g.Tile, q)
		if panel <= 0 {
			return problemError(int(o.Index), "lda or ldb",
				"is too large: one tile %s reaches more than the %d elements that %s can bind", g.Tile.Name,
				p.Device.spanLimit(g.TypeA), p.Device.Name)
		}
		if panel < q.depth() && !p.Options.sumsInC() {
			return problemError(int(o.Index), "K",
				"is too large for C of %s: more than the %d that one launch of %s takes would be rounded "+
					"in between",
				g.TypeC, panel, p.Device.Name)
		}
		if panel < q.depth() && p.Options.Epilogue.Gated {
			return problemError(int(o.Index), "K", "is too large for gated units: one launch of %s takes %d",
				p.Device.Name, panel)
		}
		if along := p.Options.Epilogue.alongK(); panel < q.depth() && along != "" {
			return problemError(int(o.Index), "K", "is too large for scales of %s: one launch of %s takes %d",
				along, p.Device.Name, panel)
		}
		rows, cols := grid(g.Tile, q)
		if err := p.room(int64(rows*cols) * int64(max(ceilDiv(q.depth(), panel), 1))); err != nil {
			return err
		}
		for k0 := 0; k0 == 0 || k0 < q.depth(); k0 += panel {
			part := k0+panel < q.depth()
			if k0 > 0 || part != partly {
				flush() // the panel before this one must be in C, and kernels may differ
			}
			partly = part
			for tile := range rows * cols {
				if err := p.went(1); err != nil {
					return err
				}
				s := encoding.Segment{Problem: o.Index, Row: int32(tile / cols), Col: int32(tile % cols),
					K0: int32(k0), K1: int32(min(k0+panel, q.depth())), Slot: encoding.NoSlot,
					Accumulate: k0 > 0}
				touched := reach(g.Tile, q, &s, &p.Options.Epilogue)
				if !p.within(touched) {
					return problemError(int(o.Index), "ldc",
						"%d is too large: one tile %s reaches more than the %d elements that %s can bind",
						q.C.LD, g.Tile.Name, p.Device.spanLimit(g.TypeC), p.Device.Name)
				}
				if !p.within(open.with(touched)) {
					flush()
				}
				open = open.with(touched)
				p.Segments = append(p.Segments, s)
				p.endWorker()
			}
		}
	}
	flush()
	return nil
}

// launchWindow closes a launch of single-segment workers with its windows.
func (p *builder) launchWindow(g *group, first int, w windows, partly bool) {
	segments := p.Segments[p.Workers[first]:]
	slices.SortStableFunc(segments, func(x, y encoding.Segment) int {
		return cmp.Compare(y.K1-y.K0, x.K1-x.K0)
	})
	part := *g
	if part.load = (load{}); partly {
		part.Epilogue = g.Epilogue.OfPart()
	}
	for i := range segments {
		depth := int(segments[i].K1 - segments[i].K0)
		part.load.addTiles(1, max(ceilDiv(depth, g.Tile.TK), 1)*p.model.products, 1, p.model.roundSize())
	}
	from := len(p.Launches)
	cost, _ := p.model.dataParallelCost(g.id, part.load)
	p.launch(&part, ScheduleDataParallel, cost, first, false)
	for i := from; i < len(p.Launches); i++ {
		l := &p.Launches[i]
		l.BaseA, l.SpanA = w[0].base(g.TypeA), w[0].span(g.TypeA)
		l.BaseB, l.SpanB = w[1].base(g.TypeB()), w[1].span(g.TypeB())
		l.BaseC, l.SpanC = w[2].base(g.TypeC), w[2].span(g.TypeC)
		l.BaseB2, l.SpanB2 = w[3].base(g.TypeB()), w[3].span(g.TypeB())
	}
}

// elementA returns the offset of op(A)[i, k], elementB that of op(B)[k, j], elementB2 that of op(B2).
func (p *Problem) elementA(i, k int) int { return p.A.element(i, k, p.TransA) }

func (p *Problem) elementB(k, j int) int { return p.B.element(k, j, p.TransB) }

func (p *Problem) elementB2(k, j int) int { return p.B2.element(k, j, p.TransB) }

// element is the offset of op(X)[i, j].
func (m Matrix) element(i, j int, trans bool) int {
	if trans {
		i, j = j, i
	}
	return m.Offset + i*m.LD + j
}
