package cpu

import (
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/planner/element"
)

const (
	// fewDepth is how much of K is done at once: 8 rows of A, in which each number is there twice, then take
	// 16 KiB.
	fewDepth = 256
	fewRows  = 8
)

// few is the work of a kernel: rows of A by pairs of columns of B of 4 bits. The assembly reads its fields by
// their offsets; distances are in bytes.
type few struct {
	a       *float32 // as packFew writes it: for each panel and each of 8 places, a vector for each row
	words   *uint32
	groups  *int32
	columns *int32
	sums    *float32 // of each pair and row a vector, whose halves belong to the columns
	numbers *[16]float32
	step    int // from a panel to the next
	group   int // from a row of group words to the next
	toggle  int // not 0: a word of groups is for two panels
	panels  int
	pairs   int

	packed  [fewRows * fewDepth * 2]float32
	vectors [maxSide / 2][fewRows * 16]float32
}

// packFew brings a row of numbers, whole panels, to the order of kernels: vectors are stride bytes apart.
var packFew func(dst, src *float32, stride, panels int)

// multiplyFew multiplies few rows by B of 4 bits, whose elements become numbers in registers.
func (t *scratch) multiplyFew(p *product, kernels []func(*few)) {
	if t.few == nil {
		t.few = new(few)
	}
	for row := 0; row < p.rows && !t.stop.Load(); {
		rows := (p.rows - row + fewRows - 1) / fewRows // parts
		rows = (p.rows - row + rows - 1) / rows
		t.fewRows(p, row, rows, kernels[rows])
		row += rows
	}
	if !t.stop.Load() {
		t.finishAlong(p)
	}
}

// fewRows does some rows.
func (t *scratch) fewRows(p *product, row, rows int, kernel func(*few)) {
	w, h := t.few, t.halves()
	w.pairs = (p.cols + 1) / 2
	sums := unsafe.Slice(&w.vectors[0][0], w.pairs*rows*16)
	clear(sums)
	w.numbers, w.sums, w.columns = elemtype.Numbers4(p.b.of), &sums[0], &p.b.groups[0]
	w.step, w.group = element.Int4Panel/8*4*p.b.ld, 4*p.b.ld
	if w.toggle = 0; p.b.group > element.Int4Panel {
		w.toggle = 16
	}
	groups := p.b.groups
	if p.b.of == element.NVFP4 {
		groups = groups[p.b.ld:]
	}
	for k := 0; k < p.depth; k += fewDepth {
		if t.stop.Load() {
			return
		}
		depth := min(p.depth-k, fewDepth)
		t.turn.take(rows * p.cols * depth)
		a := p.a
		if a.gather != nil {
			a.gather = a.gather[row:][:rows]
			a.widenRows(h.a[:], k, rows, depth)
		} else {
			a.widenRows(h.a[:], row*a.ld+k, rows, depth)
		}
		w.panels = depth / element.Int4Panel
		for r := range rows {
			packFew(&w.packed[16*r], &h.a[r*depth], 64*rows, w.panels)
		}
		w.a, w.words, w.groups = &w.packed[0], &p.b.from(k * p.b.ld).words()[0], &groups[k/p.b.group*p.b.ld]
		kernel(w)
	}
	for pair := range w.pairs {
		for r := range rows {
			v := (*[16]float32)(sums[(pair*rows+r)*16:])
			to := t.sum[(row+r)*maxSide+2*pair:]
			to[0], to[1] = sum8((*[8]float32)(v[:8])), sum8((*[8]float32)(v[8:]))
		}
	}
}

func sum8(v *[8]float32) float32 {
	return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]))
}
