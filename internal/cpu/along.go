package cpu

import "github.com/batchgemm/batchgemm/planner/element"

// along is the work of a kernel with vectors along K: rows of A by rows of B, which is transposed. The
// assembly reads its fields by their offsets.
type along struct {
	a     [alongRows]*float32 // rows
	b     *float32
	rowB  int      // bytes
	sum   *float32 // rows of maxSide
	depth int
	more  uint64 // not 0: sum has earlier sums
}

const (
	alongRows = 4
	alongCols = 6
	// alongPart is the depth of K that is done at once. Then lanes of sums are added.
	alongPart = 2048
	// leastAlong is the least K: adding lanes takes as long as 16 k. mostAlong is the most rows of a tile:
	// from 32 rows on other kernels are as fast, as they pack B once for all rows.
	leastAlong = 256
	mostAlong  = 16
)

// isAlong reports whether a product of fp32 is computed with vectors along K. That depends on K and on the
// launch alone, so in tiles of one shape the bits of a row do not depend on other rows.
func (t *scratch) isAlong(p *product) bool {
	return t.alongs != nil && p.a.of == element.F32 && mayAlong(p, p.b.trans)
}

func mayAlong(p *product, transB bool) bool {
	return p.few && !p.a.trans && transB && p.depth >= leastAlong
}

// noRow is a row of A that does not exist.
var noRow [alongPart]float32

// alongK computes such a product. It reads A and B where they are.
func (t *scratch) alongK(p *product) {
	for k := 0; k < p.depth; k += alongPart {
		if t.stop.Load() {
			return
		}
		depth := min(p.depth-k, alongPart)
		t.turn.take(p.rows * p.cols * depth)
		t.alongPart(p, k, depth, k > 0)
	}
	t.finishAlong(p)
}

// alongPart adds the products of a part of K, from one on, to t.sum.
func (t *scratch) alongPart(p *product, k, depth int, more bool) {
	w := &t.along
	if w.rowB, w.depth, w.more = 4*p.b.ld, depth, 0; more {
		w.more = 1
	}
	for col := 0; col < p.cols; col += alongCols {
		w.b = &p.b.data[col*p.b.ld+k]
		cols := min(p.cols-col, alongCols)
		for row := 0; row < p.rows; row += alongRows {
			rows := min(p.rows-row, alongRows)
			for i := range rows {
				w.a[i] = p.a.rowAt(row+i, k)
			}
			w.sum = &t.sum[row*maxSide+col]
			t.alongs[rows][cols](w)
		}
	}
}

// finishAlong stores the sums.
func (t *scratch) finishAlong(p *product) {
	if scaleRows != nil && p.tail == nil && p.of == element.F32 {
		scaleRows(&p.c[0], &t.sum[0], nil, 4*p.ldc, p.rows, p.cols, float32(p.alpha),
			float32(p.beta))
		return
	}
	for i := range p.rows {
		p.finish(i, t.sum[i*maxSide:][:p.cols], float32(p.alpha), float32(p.beta))
	}
}

// rowAt returns the address of an element of A, or of zeros for a gathered row that does not exist.
func (o *operand) rowAt(row, k int) *float32 {
	if o.gather != nil {
		if row = int(o.gather[row]); uint(row) >= uint(o.stored) {
			return &noRow[0]
		}
	}
	return &o.data[row*o.ld+k]
}
