package cpu

import (
	"math"
	"math/bits"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
)

// plain reports whether all items of a launch are products of F32 or F64 that are stored as they are. What an
// item needs then follows from its words alone.
func plain(l *encoding.Launch) bool {
	return l.Layer == 0 && !l.Fixup && !l.Split && l.TypeC == elemtype.Sums(l.TypeA) && l.TypeA == l.TypeC &&
		l.Epilogue == (encoding.Epilogue{})
}

// plainWorkers processes the items of workers [first, end) of a plain launch.
func (j *job) plainWorkers(t *scratch, first, end int) {
	l := j.launch
	if l.Loop {
		first, end = int(j.words[l.Table+first]), int(j.words[l.Table+end])
	}
	words, each := j.words[l.Items:], l.ItemWords()
	t.turn.take((end - first) * l.Tile.TM * l.Tile.TN)
	for i := first; i < end && !t.stop.Load(); i++ {
		if n := t.runOf(l, words[i*each:end*each], each); n > 1 {
			t.doRun(j, words[i*each:], each, n)
			i += n - 1
			continue
		}
		whole := words[i*each:][:each]
		item := (*[encoding.ItemWords]uint32)(whole)
		low := lowOf(whole)
		next := (*[encoding.ItemWords]uint32)(words[min(i+1, end-1)*each:])
		if t.small.is(item, low, l.TransA, l.TransB) || t.prepare(item, next, low, l.TransA, l.TransB) {
			t.smallItem(j, item, next)
		} else {
			j.segment(t, whole)
		}
	}
}

// lowOf returns the lower words of alpha and beta of an item of F64; others have none.
func lowOf(item []uint32) (low [2]uint32) {
	if len(item) > encoding.ItemWords {
		low = [2]uint32{item[encoding.AlphaLow], item[encoding.BetaLow]}
	}
	return low
}

const (
	// mostSmall is the most multiply-adds of a small item: larger ones gain by prefetching.
	mostSmall = 32 * 32 * 32
	// mostAlike is the same for items of one shape, each of which prefetches the next one.
	mostAlike = 64 * 64 * 64
	// mostBlocks is the most blocks of one, which have one part along K.
	mostBlocks = 64
)

// small is what small items of one shape have in common. It is kept from item to item, as is what they have
// in micro: a 16x16x16 takes 3/4 of the time.
type small struct {
	ready               bool      // also micro
	sizes, rest         [4]uint32 // words of the items, from Depth and from Extent on
	low                 [2]uint32 // of alpha and beta
	transA, transB      bool
	lastA, lastB, lastC int // the last elements
	blocks              []smallBlock
	share               int // bytes of the next item that a block prefetches
}

// smallBlock is a call of a kernel.
type smallBlock struct {
	kernel
	a, b, c     int // bytes from the first element
	lanes, wide int
	col, cols   int // columns to pack first, if B is transposed
	operand     int // of the next item, which the block prefetches from that byte on
	fetch       int
}

// dimsOf returns the depth and the leading dimensions of an item.
func dimsOf(item []uint32) [4]uint32 { return [4]uint32(item[encoding.Depth:]) }

// is reports whether an item has that shape.
func (s *small) is(item *[encoding.ItemWords]uint32, low [2]uint32, transA, transB bool) bool {
	return s.ready && s.sizes == dimsOf(item[:]) &&
		s.rest == *(*[4]uint32)(item[encoding.Extent:]) && s.low == low && s.transA == transA &&
		s.transB == transB
}

// prepare takes the shape of an item, unless it is too large.
func (t *scratch) prepare(item, next *[encoding.ItemWords]uint32, low [2]uint32, transA, transB bool) bool {
	rows, cols := encoding.Rows(item[encoding.Extent]), encoding.Cols(item[encoding.Extent])
	depth := int(item[encoding.Depth])
	by := &t.blocks[rows]
	if cols <= t.lanes {
		by = &t.narrow[rows]
	}
	most := mostSmall
	alike := item != next && dimsOf(item[:]) == dimsOf(next[:]) &&
		item[encoding.Extent] == next[encoding.Extent]
	if alike {
		most = mostAlike
	}
	if rows*cols*depth > most || uint(depth-1) >= panelDepth ||
		(cols+by.width-1)/by.width*by.count > mostBlocks {
		return false
	}
	lda, ldb, ldc := int(item[encoding.LDA]), int(item[encoding.LDB]), int(item[encoding.LDC])
	m, s := &t.micro, &t.small
	s.ready, s.low, s.transA, s.transB = true, low, transA, transB
	s.sizes, s.rest = dimsOf(item[:]), [4]uint32(item[encoding.Extent:])
	a, b := operand{ld: lda, trans: transA}, operand{ld: ldb, trans: transB}
	m.rowA, m.kA = a.strides(t.size)
	s.lastA, s.lastB, s.lastC = a.index(rows-1, depth-1), b.index(depth-1, cols-1), (rows-1)*ldc+cols-1
	m.rowC, m.depth, m.sum = t.size*ldc, depth, nil
	if t.size == 8 {
		m.scale(encoding.Scalar64(item[encoding.Alpha], low[0]),
			encoding.Scalar64(item[encoding.Beta], low[1]))
	} else {
		m.scale(float64(math.Float32frombits(item[encoding.Alpha])),
			float64(math.Float32frombits(item[encoding.Beta])))
	}
	m.rowsOfB(nil, t.size*ldb)
	s.blocks = s.blocks[:0]
	for col := 0; col < cols; col += by.width {
		t.smallColumns(by, m.rowA, col, min(cols-col, by.width), ldb, ldc)
	}
	if s.share = fetchBytes; alike && len(s.blocks) > 1 {
		s.fetches(t.size)
	}
	return true
}

// fetches shares the operands of the next item among the blocks, each of which prefetches 4 lines every 4
// steps along K. Items that are far from the L1 cache would wait for them: 1000 of 32x32x32 take 0.7 of the
// time.
func (s *small) fetches(size int) {
	operand, from := 0, 0
	ends := [...]int{size * (s.lastB + 1), size * (s.lastA + 1), size * (s.lastC + 1)}
	s.share = ((ends[0]+ends[1]+ends[2])/len(s.blocks) + fetchBytes) &^ (fetchBytes - 1)
	for i := range s.blocks {
		s.blocks[i].operand, s.blocks[i].fetch = operand, from
		if from += s.share; from >= ends[operand] {
			operand, from = min(operand+1, len(ends)-1), 0
		}
	}
}

// smallColumns appends the blocks of columns.
func (t *scratch) smallColumns(by *blocks, rowA, col, cols, ldb, ldc int) {
	vectors := (cols + t.lanes - 1) >> bits.TrailingZeros(uint(t.lanes))
	block := smallBlock{b: t.size * col, lanes: cols - (vectors-1)*t.lanes, wide: t.micro.depth, col: col,
		cols: cols}
	kernels := t.whole
	if block.lanes < t.lanes {
		kernels = t.edge
		block.wide = whole(t.micro.depth, t.lanes-block.lanes, ldb)
	}
	row, height := 0, by.height
	for i := range by.count {
		if i == by.tall {
			height--
		}
		block.kernel, block.a, block.c = kernels[height][vectors], row*rowA, t.size*(row*ldc+col)
		t.small.blocks = append(t.small.blocks, block)
		row, block.cols = row+height, 0
	}
}

// smallItem computes an item of the shape.
func (t *scratch) smallItem(j *job, item, next *[encoding.ItemWords]uint32) {
	m, s := &t.micro, &t.small
	offA, offB, offC := int(item[encoding.OffA]), int(item[encoding.OffB]), int(item[encoding.OffC])
	var a, b, c unsafe.Pointer
	if t.size == 8 {
		a, b = j.bitsA.first64(offA, s.lastA), j.bitsB.first64(offB, s.lastB)
		c = j.bitsC.first64(offC, s.lastC)
	} else {
		_, _, _ = j.a[offA+s.lastA], j.b[offB+s.lastB], j.c[offC+s.lastC] // kernels do not check
		a, b, c = unsafe.Pointer(&j.a[offA]), unsafe.Pointer(&j.b[offB]), unsafe.Pointer(&j.c[offC])
	}
	later := [...]uintptr{
		uintptr(b) + uintptr(t.size*(int(next[encoding.OffB])-offB)),
		uintptr(a) + uintptr(t.size*(int(next[encoding.OffA])-offA)),
		uintptr(c) + uintptr(t.size*(int(next[encoding.OffC])-offC)),
	}
	for i := range s.blocks {
		block := &s.blocks[i]
		m.fetch.only(later[block.operand]+uintptr(block.fetch), s.share)
		switch {
		case !s.transB:
			m.b, m.wide = unsafe.Add(b, block.b), block.wide
		case block.cols > 0:
			t.columns(b, int(item[encoding.LDB]), true, 0, block.col, block.cols)
		}
		m.a, m.c = unsafe.Add(a, block.a), unsafe.Add(c, block.c)
		m.lanes = block.lanes
		block.kernel(m)
	}
}

// first64 returns the address of an element of F64. There is another one, `last` elements further.
func (n narrow) first64(at, last int) unsafe.Pointer {
	_ = n.bytes[8*(at+last)+7]
	return unsafe.Pointer(&n.bytes[8*at])
}
