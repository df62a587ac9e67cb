package cpu

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

const (
	// panelDepth is the depth of K that is done at once: 32 columns of B then take 32 KiB, which stay in the
	// L1 cache of a core. 384 and 512 were slower with B transposed.
	panelDepth = 256
	maxSide    = tile.MaxSize
)

// scratch is the memory of one goroutine.
type scratch struct {
	*instructions
	blocks [maxSide + 1]blocks // by the rows of a tile
	narrow [maxSide + 1]blocks // the same for tiles of one vector
	micro  micro
	sum    [maxSide * maxSide]float32 // of earlier parts of K
	panel  [64 * panelDepth]float32   // the columns of a block, if B is transposed
	packed packed
	stop   *atomic.Bool // if set, stop working
	turn   turn
	half   *halves // or nil
	dots   *dots   // or nil

	own       *doubles // of a scratch for F64
	scratch64 *scratch // for F64, or nil
	along     along
	few       *few // or nil
	small     small
	run       *run // or nil
}

// blocks divides the rows of a tile evenly into blocks: the first `tall` blocks have height rows, the others
// one less.
type blocks struct {
	count, height, tall int
	width               int // columns, of the widest kernel
}

func newScratch(with *instructions, stop *atomic.Bool) *scratch {
	t := &scratch{instructions: with, stop: stop}
	for rows := 1; rows <= maxSide; rows++ {
		t.blocks[rows] = with.blocks(rows, 2)
		t.narrow[rows] = with.blocks(rows, 1)
	}
	return t
}

// blocks divides rows into blocks for kernels of that many vectors, if there are any.
func (s *instructions) blocks(rows, vectors int) blocks {
	most := len(s.whole) - 1
	for len(s.whole[most]) <= vectors && len(s.whole[most]) < len(s.whole[1]) {
		most--
	}
	count := (rows + most - 1) / most
	height := (rows + count - 1) / count
	return blocks{count, height, rows - (height-1)*count, (len(s.whole[height]) - 1) * s.lanes}
}

// operand is a row-major matrix, or one that is read transposed.
type operand struct {
	data   []float32
	ld     int
	trans  bool
	narrow // in place of data if elements are not F32; has their type

	gather []int32 // the tile's rows of A, if they are gathered
	stored int     // number of rows of A

	blocks blockScales // of A

	groups []int32 // group words of B of 4 bits, from the first column on
	group  int     // k of each group
}

// strides returns the distances in bytes from a row of op(X) to the next, and from a column to the next, for
// elements of that many bytes.
func (o *operand) strides(size int) (row, col int) {
	if o.trans {
		return size, size * o.ld
	}
	return size * o.ld, size
}

// at returns the address of an element of F32 or F64.
func (o *operand) at(i int) unsafe.Pointer {
	if o.of == element.F64 {
		return unsafe.Pointer(&o.bytes[8*i])
	}
	return unsafe.Pointer(&o.data[i])
}

// index returns the place of an element of op(X).
func (o *operand) index(row, col int) int {
	if o.trans {
		row, col = col, row
	}
	return row*o.ld + col
}

// product is C = alpha*op(A)*op(B) + beta*C, at most a tile.
type product struct {
	rows, cols, depth int
	few               bool // tiles have few rows
	a, b              operand
	c                 []float32
	ldc               int
	alpha, beta       float64
	narrow                  // in place of c if its elements are not F32; has their type
	tail              *tail // the epilogue; nil: none
	run               *run  // that it is part of, or nil
	firstSum          int   // its place among the sums of earlier parts
}

// check panics if the product reaches beyond its memory. Kernels do not check.
func (p *product) check() {
	switch at := (p.rows-1)*p.ldc + p.cols - 1; {
	case p.tail != nil: // it slices the memory itself
	case p.of == element.F32:
		_ = p.c[at]
	default:
		p.from(at).first(1)
	}
	if p.depth == 0 {
		return
	}
	last := func(o *operand, row, col int) {
		switch {
		case elemtype.Bits4(o.of): // the last panel
			row, col = row+1-element.Int4Panel, element.Int4Panel*(col+1)-1
		case o.trans:
			row, col = col, row
		}
		if at := row*o.ld + col; o.of == element.F32 {
			_ = o.data[at]
		} else {
			o.from(at).first(1)
		}
	}
	if p.a.gather == nil {
		last(&p.a, p.rows-1, p.depth-1)
	}
	last(&p.b, p.depth-1, p.cols-1)
}

// multiply computes a product in parts along K, and keeps sums between them.
func (t *scratch) multiply(p *product) {
	p.check()
	t.small.ready = false
	if p.a.of == element.F64 {
		t.multiplyDouble(p)
		return
	}
	if u := t.unitsFor(p); u != nil {
		t.dot(p, u)
		return
	}
	if t.isAlong(p) {
		t.alongK(p)
		return
	}
	if elemtype.Bits4(p.b.of) && t.fews != nil && mayAlong(p, true) {
		t.multiplyFew(p)
		return
	}
	along := t.alongs != nil && p.a.of != element.F32 && mayAlong(p, p.b.trans)
	m := &t.micro
	for k := 0; !t.stop.Load(); k += panelDepth { // a part takes at most 0.1 ms
		m.depth = min(p.depth-k, panelDepth)
		t.turn.take(p.rows * p.cols * m.depth)
		from, at := p, k
		if (p.a.of != element.F32 || p.a.gather != nil) && m.depth > 0 {
			from, at = t.halves().widened(p, k, m.depth), 0
		}
		switch last := k+m.depth == p.depth; {
		case along:
			if t.alongPart(from, at, m.depth, k > 0); !last {
				continue
			}
			t.finishAlong(p)
		case !last:
			m.rowC = 4 * maxSide
			m.scale(1, 0)
			t.part(from, at, k > 0, unsafe.Pointer(&t.sum))
			continue
		case p.of == element.F32 && p.tail == nil:
			m.rowC = 4 * p.ldc
			m.scale(p.alpha, p.beta)
			t.part(from, at, k > 0, unsafe.Pointer(&p.c[0]))
		default:
			h := t.halves()
			h.load(p)
			m.rowC = 4 * maxSide
			m.scale(p.alpha, p.beta)
			t.part(from, at, k > 0, unsafe.Pointer(&h.c))
			h.store(p)
		}
		return
	}
}

// halves returns t.half, and makes it for the first tile that needs it.
func (t *scratch) halves() *halves {
	if t.half == nil {
		t.half = new(halves)
	}
	return t.half
}

// part does the part of K that starts at k of the product's operands, block after block, and stores to c.
// more: t.sum has the sums of earlier parts.
func (t *scratch) part(p *product, k int, more bool, c unsafe.Pointer) {
	m, rows := &t.micro, &t.blocks[p.rows]
	if p.cols <= t.lanes {
		rows = &t.narrow[p.rows]
	}
	var a unsafe.Pointer
	var rowA int
	copied := false // a transposed A is
	var near near
	next := new(next) // what blocks prefetch
	if p.run != nil {
		next = &p.run.next
	}
	if m.depth > 0 {
		rowA, m.kA = p.a.strides(t.size)
		a = unsafe.Add(p.a.at(0), k*m.kA)
		if copied = p.a.trans && t.copyRows != nil && p.cols > rows.width && p.rows > 2*rows.height &&
			m.kA >= farRow; copied {
			a, m.kA = t.turnedA(p, k), t.turnedRow()
		}
		near = t.pack(p, k, rows)
		m.rowA = rowA
		if near.a != nil {
			m.rowA = near.rowA
		}
		if near.b != nil && !t.isPacked(p, k+panelDepth, rows.width) {
			*next = t.follow(p, k, 0, p.cols)
		}
	}
	for col := 0; col < p.cols; col += rows.width {
		cols := min(p.cols-col, rows.width)
		switch {
		case m.depth == 0:
		case near.b != nil:
			m.wide = m.depth
			m.rowsOfB(unsafe.Add(near.b, col*m.depth*t.size), rows.width*t.size)
		default:
			t.columns(p.b.at(0), p.b.ld, p.b.trans, k, col, cols)
			if p.run == nil {
				*next = t.follow(p, k, col, cols)
			}
		}
		vectors := (cols + t.lanes - 1) >> bits.TrailingZeros(uint(t.lanes))
		kernels := t.whole
		if m.lanes = cols - (vectors-1)*t.lanes; m.lanes < t.lanes {
			kernels = t.edge
		}
		kernel := kernels[rows.height][vectors]
		height, row := rows.height, 0
		for i := range rows.count {
			if i == rows.tall {
				height--
				kernel = kernels[height][vectors]
			}
			if m.depth > 0 {
				m.a = unsafe.Add(a, row*rowA)
				if near.a != nil {
					to := unsafe.Add(near.a, row*near.rowA)
					if col == 0 {
						copyFar(to, m.a, near.rowA, rowA, height, t.size*m.depth)
					}
					m.a = to
				}
				switch {
				case col == 0 && i < rows.count-1 && !p.a.trans:
					m.fetch.rows(uintptr(unsafe.Add(a, (row+height)*rowA)), t.size*m.depth, rowA)
				case copied && t.followA(p, k, col/rows.width, i):
				default:
					next.take(m)
				}
			}
			if m.sum = nil; more {
				m.sum = t.sumAt(p.firstSum + row*maxSide + col)
			}
			m.c = unsafe.Add(c, row*m.rowC+t.size*col)
			kernel(m)
			row += height
		}
	}
}

// sumAt returns the address of a sum of earlier parts.
func (t *scratch) sumAt(i int) unsafe.Pointer {
	if t.size == 8 {
		return unsafe.Pointer(&t.own.sum[i])
	}
	return unsafe.Pointer(&t.sum[i])
}

// columns sets where columns of op(B) are. It packs them if they are rows of B.
func (t *scratch) columns(b unsafe.Pointer, ld int, trans bool, k, col, cols int) {
	m, size := &t.micro, t.size
	m.wide = m.depth
	beyond := -cols & (t.lanes - 1) // to fill whole vectors
	if !trans {
		m.rowsOfB(unsafe.Add(b, size*(k*ld+col)), size*ld)
		if beyond > 0 {
			m.wide = whole(m.depth, beyond, ld)
		}
		return
	}
	width, panel := cols+beyond, unsafe.Pointer(&t.panel)
	for i := 0; i < cols; i += t.lanes {
		t.transpose(unsafe.Add(panel, size*i), unsafe.Add(b, size*((col+i)*ld+k)), size*width, size*ld,
			min(cols-i, t.lanes), m.depth)
	}
	m.rowsOfB(panel, size*width)
}

// whole returns how many rows of B may be read that many elements beyond their columns: the next rows then
// have them.
func whole(depth, beyond, ld int) int { return max(depth-(beyond+ld-1)/ld, 0) }

// next is memory that blocks prefetch in turn, each that has nothing else to prefetch a share.
type next struct {
	at     uintptr
	n, row int // bytes of a row, and from a row to the next
	left   int // rows
	share  int
}

// take makes the next kernel prefetch a share.
func (n *next) take(m *micro) {
	if n.left <= 0 {
		m.fetch.only(uintptr(m.a), fetchBytes)
		return
	}
	m.fetch.rows(n.at, n.n, n.row)
	n.at += uintptr(n.share * n.row)
	n.left -= n.share
}

// follow returns the next columns of B, or the first ones of the next part of K, for the L2 cache. Rows of B
// are too far apart for the processor's own prefetching (512, 1024, 64 on two cores: 1.2 times as fast).
func (t *scratch) follow(p *product, k, col, cols int) (to next) {
	depth := t.micro.depth
	if col += cols; col < p.cols {
		cols = min(p.cols-col, cols)
	} else if k += panelDepth; k < p.depth {
		col, cols, depth = 0, min(p.cols, cols), min(p.depth-k, panelDepth)
	} else {
		return to
	}
	to.left, to.n = depth, t.size*cols
	at := k*p.b.ld + col
	if p.b.trans {
		to.left, to.n, at = cols, t.size*depth, col*p.b.ld+k
	}
	to.at, to.row = uintptr(p.b.at(at)), t.size*p.b.ld
	to.share = max(t.micro.depth/4/((to.n+fetchBytes-1)/fetchBytes), 1)
	return to
}
