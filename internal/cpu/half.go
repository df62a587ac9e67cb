package cpu

import (
	"unsafe"

	"github.com/batchgemm/batchgemm/planner/element"
)

// halves is what a goroutine needs for elements of 16 bits and for epilogues: parts of A and B
// as numbers, row behind row, and a tile of C before it is rounded.
type halves struct {
	part product
	a, b [maxSide * panelDepth]float32
	c    [maxSide * maxSide]float32
	tail tail
}

// bitsOf shows words as the elements of 16 bits that a buffer has in them.
func bitsOf(words []float32) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(words))), 2*len(words))
}

// widened is the part of a product from k on, with its operands as numbers.
func (h *halves) widened(p *product, k, depth int) *product {
	w := &h.part
	*w = product{rows: p.rows, cols: p.cols, depth: depth, a: p.a, b: p.b, ldc: p.ldc, alpha: p.alpha, beta: p.beta}
	switch {
	case p.a.gather != nil:
		w.a.gathered(h.a[:], k, depth)
	case p.a.trans:
		w.a.widen(h.a[:], k*p.a.ld, depth, p.rows)
	default:
		w.a.widen(h.a[:], k, p.rows, depth)
	}
	switch {
	case p.b.of == element.F32 && p.b.trans:
		w.b.data = p.b.data[k:]
	case p.b.of == element.F32:
		w.b.data = p.b.data[k*p.b.ld:]
	case p.b.trans:
		w.b.widen(h.b[:], k, p.cols, depth)
	default:
		w.b.widen(h.b[:], k*p.b.ld, depth, p.cols)
	}
	return w
}

// widen takes rows of an operand from an element on, and makes numbers of them, row behind row.
func (o *operand) widen(to []float32, from, rows, cols int) {
	for r := range rows {
		o.of.Widen(to[r*cols:][:cols], o.bits[from+r*o.ld:][:cols])
	}
	o.data, o.ld = to[:rows*cols], cols
}

// load takes C as numbers, where it is read.
func (h *halves) load(p *product) {
	if p.beta == 0 {
		return
	}
	if p.tail != nil {
		h.loadTail(p)
		return
	}
	for r := range p.rows {
		p.of.Widen(h.c[r*maxSide:][:p.cols], p.bits[r*p.ldc:][:p.cols])
	}
}

// store rounds C.
func (h *halves) store(p *product) {
	if p.tail != nil {
		h.storeTail(p)
		return
	}
	for r := range p.rows {
		p.of.Narrow(p.bits[r*p.ldc:][:p.cols], h.c[r*maxSide:][:p.cols])
	}
}
