package cpu

import (
	"math"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner/element"
)

const (
	// mostRun is the most tiles of few rows, one beside the other, that are computed together, in short parts
	// of K: B is then read almost as it lies in memory. 128 experts of 1 to 8 rows take 0.7 of the time.
	mostRun  = 8
	runRows  = maxSide / mostRun // so their sums have the room of one tile
	runDepth = 32
)

// run is such tiles.
type run struct {
	tiles [mostRun]product
	next  next // of B
}

// runOf returns how many of the items, from the first one on, are such tiles.
func (t *scratch) runOf(l *encoding.Launch, words []uint32, each int) (n int) {
	first := words[:encoding.ItemWords]
	rows := encoding.Rows(first[encoding.Extent])
	if !t.runs || l.TransA || l.TransB || l.TypeA != element.F32 || rows > runRows ||
		first[encoding.Depth] < 4*runDepth {
		return 1
	}
	for n = 1; n < mostRun && n*each < len(words); n++ {
		item, step := words[n*each:][:encoding.ItemWords], uint32(n*l.Tile.TN)
		if item[encoding.OffA] != first[encoding.OffA] || item[encoding.OffB] != first[encoding.OffB]+step ||
			item[encoding.OffC] != first[encoding.OffC]+step ||
			dimsOf(item) != dimsOf(first) ||
			[2]uint32(item[encoding.Alpha:]) != [2]uint32(first[encoding.Alpha:]) ||
			encoding.Rows(item[encoding.Extent]) != rows {
			break
		}
	}
	return n
}

// doRun computes n tiles.
func (t *scratch) doRun(j *job, words []uint32, each, n int) {
	if t.run == nil {
		t.run = new(run)
	}
	r, m, cols := t.run, &t.micro, 0
	t.small.ready = false
	for i := range n {
		item, p := words[i*each:][:encoding.ItemWords], &r.tiles[i]
		*p = product{rows: encoding.Rows(item[encoding.Extent]), cols: encoding.Cols(item[encoding.Extent]),
			depth: int(item[encoding.Depth]), c: j.c[item[encoding.OffC]:], ldc: int(item[encoding.LDC]),
			alpha: float64(math.Float32frombits(item[encoding.Alpha])),
			beta:  float64(math.Float32frombits(item[encoding.Beta])), run: r,
			firstSum: i * runRows * maxSide}
		p.a = operand{data: j.a[item[encoding.OffA]:], ld: int(item[encoding.LDA])}
		p.b = operand{data: j.b[item[encoding.OffB]:], ld: int(item[encoding.LDB])}
		p.check()
		cols += p.cols
	}
	for k, depth := 0, r.tiles[0].depth; k < depth && !t.stop.Load(); k += runDepth {
		m.depth = min(depth-k, runDepth)
		t.turn.take(r.tiles[0].rows * cols * m.depth)
		r.follow(k+m.depth, m.depth, cols)
		last := k+m.depth == depth
		for i := range n {
			p := &r.tiles[i]
			c := unsafe.Pointer(&t.sum[p.firstSum])
			if m.rowC = 4 * maxSide; last {
				m.rowC, c = 4*p.ldc, unsafe.Pointer(&p.c[0])
				m.scale(p.alpha, p.beta)
			} else {
				m.scale(1, 0)
			}
			t.part(p, k, k > 0, c)
		}
	}
}

// follow sets what blocks prefetch: the rows of B from k on, as pieces if one follows the other.
func (r *run) follow(k, depth, cols int) {
	p := &r.tiles[0]
	r.next = next{}
	left := min(p.depth-k, runDepth)
	if left == 0 {
		return
	}
	r.next = next{at: uintptr(p.b.at(k * p.b.ld)), n: 4 * cols, row: 4 * p.b.ld, left: left, share: 1}
	if piece := depth / 4 * fetchBytes; cols == p.b.ld && piece > 0 {
		r.next.n, r.next.row, r.next.left = piece, piece, (left*4*cols+piece-1)/piece
	}
}
