package cpu

import (
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/planner/element"
)

// halves is a goroutine's memory for narrow elements and epilogues: pieces of A and B as numbers, row after
// row, and a tile of C before rounding.
type halves struct {
	part product
	a, b [maxSide * panelDepth]float32
	c    [maxSide * maxSide]float32
	tail tail
}

// narrow is a view of a buffer's bytes as elements of any type but F32.
type narrow struct {
	of    element.Type
	bytes []byte
}

// narrowOf reinterprets words as elements of a type.
func narrowOf(of element.Type, words []float32) narrow {
	return narrow{of, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 4*len(words))}
}

// from returns the view from an element on, which starts at a byte.
func (n narrow) from(at int) narrow { return narrow{n.of, n.bytes[n.of.Size(at+1)-n.of.Size(1):]} }

// first returns the first elements.
func (n narrow) first(elements int) narrow {
	end := n.of.Size(elements)
	return narrow{n.of, n.bytes[:end:end]}
}

// bits returns 16-bit elements as bits.
func (n narrow) bits() []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(n.bytes))), len(n.bytes)/2)
}

// widenWhole and roundWhole convert a multiple of 16 elements, by types; nil: Go does.
var widenWhole, roundWhole [element.F64 + 1]func(dst, src unsafe.Pointer, n int)

// widen converts elements to numbers, from one on.
func (n narrow) widen(to []float32, at int) {
	x := n.from(at).first(len(to))
	if whole := len(to) &^ 15; whole > 0 && widenWhole[n.of] != nil {
		widenWhole[n.of](unsafe.Pointer(&to[0]), unsafe.Pointer(&x.bytes[0]), whole)
		to, x = to[whole:], x.from(whole)
	}
	if n.of.Bytes() == 1 {
		element.Widen(n.of, to, x.bytes)
	} else {
		element.Widen(n.of, to, x.bits())
	}
}

// store rounds numbers to 16-bit elements, from one on.
func (n narrow) store(at int, numbers []float32) {
	x := n.from(at).first(len(numbers))
	if whole := len(numbers) &^ 15; whole > 0 && roundWhole[n.of] != nil {
		roundWhole[n.of](unsafe.Pointer(&x.bytes[0]), unsafe.Pointer(&numbers[0]), whole)
		numbers, x = numbers[whole:], x.from(whole)
	}
	element.Narrow(n.of, x.bits(), numbers)
}

// numbersOf loads elements of an operand from one on: bits, if it has any, else numbers.
func numbersOf(numbers []float32, bits narrow, to []float32, at int) {
	if bits.bytes == nil {
		copy(to, numbers[at:][:len(to)])
	} else {
		bits.widen(to, at)
	}
}

// storeNumbers is the inverse, with rounding.
func storeNumbers(numbers []float32, bits narrow, from []float32, at int) {
	if bits.bytes == nil {
		copy(numbers[at:][:len(from)], from)
	} else {
		bits.store(at, from)
	}
}

// widened returns the part of a product from k on, with its operands as numbers.
func (h *halves) widened(p *product, k, depth int) *product {
	w := &h.part
	*w = product{rows: p.rows, cols: p.cols, depth: depth, a: p.a, b: p.b, ldc: p.ldc,
		alpha: p.alpha, beta: p.beta}
	if p.a.trans {
		w.a.widen(h.a[:], k*p.a.ld, depth, p.rows)
	} else {
		w.a.widenRows(h.a[:], k, p.rows, depth)
	}
	if p.a.blocks.each > 0 {
		w.scaleBlocks(k, depth)
	}
	w.a.gather = nil
	switch {
	case p.b.of == element.F32 && p.b.trans:
		w.b.data = p.b.data[k:]
	case p.b.of == element.F32:
		w.b.data = p.b.data[k*p.b.ld:]
	case elemtype.Bits4(p.b.of):
		w.b.widen4(h.b[:], k, p.cols, depth)
	case p.b.trans:
		w.b.widen(h.b[:], k, p.cols, depth)
	default:
		w.b.widen(h.b[:], k*p.b.ld, depth, p.cols)
	}
	return w
}

// widenRows converts rows of an A that is not transposed, from a k on.
func (o *operand) widenRows(to []float32, k, rows, depth int) {
	if o.gather != nil {
		o.gathered(to, k, depth)
	} else {
		o.widen(to, k, rows, depth)
	}
}

// widen converts rows of an operand, from an element on, to numbers, row after row.
func (o *operand) widen(to []float32, from, rows, cols int) {
	for r := range rows {
		o.narrow.widen(to[r*cols:][:cols], from+r*o.ld)
	}
	o.data, o.ld = to[:rows*cols], cols
}

// load loads C as numbers, if it is read.
func (h *halves) load(p *product) {
	if p.beta == 0 {
		return
	}
	if p.tail != nil {
		h.loadTail(p)
		return
	}
	for r := range p.rows {
		p.narrow.widen(h.c[r*maxSide:][:p.cols], r*p.ldc)
	}
}

// store rounds C.
func (h *halves) store(p *product) {
	if p.tail != nil {
		h.storeTail(p)
		return
	}
	for r := range p.rows {
		p.narrow.store(r*p.ldc, h.c[r*maxSide:][:p.cols])
	}
}
