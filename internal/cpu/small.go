package cpu

import (
	"math"
	"math/bits"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner/element"
)

// plain reports whether all items of a launch are products of fp32 that are stored as they are. What an item
// needs then follows from its words alone.
func plain(l *encoding.Launch) bool {
	return l.Layer == 0 && !l.Fixup && !l.Split && l.TypeA == element.F32 && l.TypeC == element.F32 &&
		l.Epilogue == (encoding.Epilogue{})
}

// plainWorkers processes the items of workers [first, end) of a plain launch.
func (j *job) plainWorkers(t *scratch, first, end int) {
	l := j.launch
	if l.Loop {
		first, end = int(j.words[l.Table+first]), int(j.words[l.Table+end])
	}
	words := j.words[l.Items:]
	t.turn.take((end - first) * l.Tile.TM * l.Tile.TN)
	for i := first; i < end && !t.stop.Load(); i++ {
		if item := (*[encoding.ItemWords]uint32)(words[i*encoding.ItemWords:]); !t.small(j, item) {
			j.segment(t, item[:])
		}
	}
}

// mostSmall is the most multiply-adds of a small item: larger ones gain by prefetching.
const mostSmall = 32 * 32 * 32

// small computes an item with one part along K, if it is small: 16x16x16 takes half of the time of segment.
func (t *scratch) small(j *job, item *[encoding.ItemWords]uint32) bool {
	rows, cols := encoding.Rows(item[encoding.Extent]), encoding.Cols(item[encoding.Extent])
	depth, lda := int(item[encoding.Depth]), int(item[encoding.LDA])
	if rows*cols*depth > mostSmall || uint(depth-1) >= panelDepth {
		return false
	}
	a, c := j.a[item[encoding.OffA]:], j.c[item[encoding.OffC]:]
	m, ldc := &t.micro, int(item[encoding.LDC])
	rowA, lastA := 4*lda, (rows-1)*lda+depth-1
	if m.kA = 4; j.launch.TransA {
		rowA, m.kA, lastA = 4, 4*lda, (depth-1)*lda+rows-1
	}
	_, _ = a[lastA], c[(rows-1)*ldc+cols-1] // kernels do not check
	m.rowA, m.rowC, m.depth, m.sum = rowA, 4*ldc, depth, nil
	m.alpha, m.beta = math.Float32frombits(item[encoding.Alpha]), math.Float32frombits(item[encoding.Beta])
	b, ldb, trans := j.b[item[encoding.OffB]:], int(item[encoding.LDB]), j.launch.TransB
	if trans {
		_ = b[(cols-1)*ldb+depth-1]
	} else {
		_ = b[(depth-1)*ldb+cols-1]
	}
	by := &t.blocks[rows]
	if cols <= t.lanes {
		by = &t.narrow[rows]
	}
	m.fetch.nothing(&a[0])
	for col := 0; col < cols; col += by.width {
		n := min(cols-col, by.width)
		t.columns(b, ldb, trans, 0, col, n)
		vectors := (n + t.lanes - 1) >> bits.TrailingZeros(uint(t.lanes))
		kernels := t.whole
		if m.lanes = n - (vectors-1)*t.lanes; m.lanes < t.lanes {
			kernels = t.edge
		}
		row, height := 0, by.height
		for i := range by.count {
			if i == by.tall {
				height--
			}
			m.a = (*float32)(unsafe.Add(unsafe.Pointer(&a[0]), row*rowA))
			m.c = &c[row*ldc+col]
			kernels[height][vectors](m)
			row += height
		}
	}
	return true
}
