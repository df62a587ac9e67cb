package cpu

import (
	"sync/atomic"

	"github.com/batchgemm/batchgemm/planner/tile"
)

const (
	// panelDepth is how much of K is done at once.
	panelDepth = 256
	maxSide    = tile.MaxSize
)

// scratch is the memory of one goroutine.
type scratch struct {
	*instructions
	micro micro
	sum   [maxSide * maxSide]float32    // of earlier parts of K
	panel [maxSide * panelDepth]float32 // op(B), where B is transposed
	stop  *atomic.Bool                  // set: leave what is left
}

// operand is a row-major matrix, or one that is read transposed.
type operand struct {
	data  []float32
	ld    int
	trans bool
}

// strides are the distances in elements of op(X) from a row to the next, and from a
// column to the next.
func (o *operand) strides() (row, col int) {
	if o.trans {
		return 1, o.ld
	}
	return o.ld, 1
}

// product is C = alpha*op(A)*op(B) + beta*C, of a tile at most.
type product struct {
	rows, cols, depth int
	a, b              operand
	c                 []float32
	ldc               int
	alpha, beta       float32
}

// multiply computes a product: K in parts, whose sums are kept between them.
func (t *scratch) multiply(p *product) {
	for k := 0; !t.stop.Load(); k += panelDepth { // a part takes 0.1 ms at most
		depth := min(p.depth-k, panelDepth)
		t.part(p, k, depth)
		if k+depth == p.depth {
			return
		}
	}
}

// part does [k, k+depth) of K: block after block of C.
func (t *scratch) part(p *product, k, depth int) {
	groups := (p.rows + len(t.whole) - 2) / (len(t.whole) - 1)
	kernels := t.whole[(p.rows+groups-1)/groups]
	width := (len(kernels) - 1) * t.lanes // of a block
	m := &t.micro
	rowA, kA := p.a.strides()
	m.rowA, m.kA, m.depth = 4*rowA, 4*kA, depth
	for col := 0; col < p.cols; col += width {
		cols := min(p.cols-col, width)
		if depth > 0 {
			t.columns(p, k, depth, col, cols)
		}
		vectors := (cols + t.lanes - 1) / t.lanes
		kernels := t.whole
		if m.lanes = cols - (vectors-1)*t.lanes; m.lanes < t.lanes {
			kernels = t.edge
		}
		for i, row := 0, 0; i < groups; i++ {
			rows := (p.rows - row + groups - i - 1) / (groups - i)
			if depth > 0 {
				m.a = &p.a.data[row*rowA+k*kA]
				_ = p.a.data[(row+rows-1)*rowA+(k+depth-1)*kA]
			}
			t.target(p, k+depth, row, col, rows, cols)
			kernels[rows][vectors](m)
			row += rows
		}
	}
}

// columns sets where the columns of op(B) are, which are packed if they are rows of B.
func (t *scratch) columns(p *product, k, depth, col, cols int) {
	m, b := &t.micro, &p.b
	if !b.trans {
		m.b, m.rowB = &b.data[k*b.ld+col], 4*b.ld
		_ = b.data[(k+depth-1)*b.ld+col+cols-1]
		return
	}
	width := (cols + t.lanes - 1) / t.lanes * t.lanes
	_ = b.data[(col+cols-1)*b.ld+k+depth-1]
	for i := 0; i < cols; i += t.lanes {
		t.transpose(&t.panel[i], &b.data[(col+i)*b.ld+k], 4*width, 4*b.ld, min(cols-i, t.lanes), depth)
	}
	m.b, m.rowB = &t.panel[0], 4*width
}

// target sets where sums come from and go to, when K is done up to end.
func (t *scratch) target(p *product, end, row, col, rows, cols int) {
	m := &t.micro
	m.sum = nil
	if end > panelDepth {
		m.sum = &t.sum[row*maxSide+col]
	}
	if end < p.depth {
		m.c, m.rowC, m.alpha, m.beta = &t.sum[row*maxSide+col], 4*maxSide, 1, 0
		return
	}
	m.c, m.rowC, m.alpha, m.beta = &p.c[row*p.ldc+col], 4*p.ldc, p.alpha, p.beta
	_ = p.c[(row+rows-1)*p.ldc+col+cols-1]
}
