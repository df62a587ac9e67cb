package cpu

import (
	"math"
	"sync/atomic"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"

	"github.com/batchgemm/batchgemm/planner/encoding"
	"github.com/batchgemm/batchgemm/planner/tile"
)

const (
	// panelDepth is how much of K is packed at once: op(B) of a tile of 64 columns
	// then takes 64*256*8 bytes = 128 KiB, which fits the L2 cache of a core.
	panelDepth = 256
	maxSide    = tile.MaxSize
)

// scratch is the memory of one goroutine.
type scratch struct {
	sum  [maxSide * maxSide]float64    // rows x cols of the C tile
	colB [maxSide * panelDepth]float64 // columns of op(B), each contiguous in k
	rowA [panelDepth]float64           // a row of op(A)
	stop *atomic.Bool                  // set: leave what is left
}

// segment computes an item: sum = op(A)*op(B) over its K range, stored to C or
// to the workspace. package encoding lists its words.
func (j *job) segment(t *scratch, item []uint32) {
	item = item[:encoding.ItemWords]
	rows, cols := int(item[7]&0xffff), int(item[7]>>16)
	depth := int(item[3])
	sum := t.sum[:rows*cols]
	clear(sum)
	if depth > 0 {
		t.multiply(sum, rows, cols, depth,
			operand{j.a[item[0]:], int(item[4]), j.launch.TransA},
			operand{j.b[item[1]:], int(item[5]), !j.launch.TransB})
	}
	if slot := item[10]; slot != encoding.Final {
		shape := j.launch.Tile
		partial := j.workspace[int(slot)*shape.TM*shape.TN:]
		for i := range rows {
			for k, v := range sum[i*cols : (i+1)*cols] {
				partial[i*shape.TN+k] = float32(v)
			}
		}
		return
	}
	s := scale{math.Float32frombits(item[8]), math.Float32frombits(item[9])}
	for i := range rows {
		s.store(j.c[int(item[2])+i*int(item[6]):], sum[i*cols:(i+1)*cols])
	}
}

// multiply adds op(A)*op(B) to the rows x cols sum.
//
// The inner product is gonum's Dgemv: on amd64 its assembly takes four columns
// of op(B) at a time, 7 to 12 GFLOP/s on one core of a Xeon for tiles from
// 16x16x16 on: 3 to 6 times a plain Go loop (BenchmarkInnerProduct) and 1.7 to 4
// times gonum's Dsdot. A Go loop blocked by hand was faster at 8x8x8 only, 1.7
// times. gonum's Dgemm and Sgemm are out: they skip zeros of A, and so lose NaN
// and Inf of B.
func (t *scratch) multiply(sum []float64, rows, cols, depth int, a, b operand) {
	for k := 0; k < depth && !t.stop.Load(); k += panelDepth { // a panel takes 0.2 ms at most
		d := min(depth-k, panelDepth)
		for col := range cols {
			b.pack(t.colB[col*d:(col+1)*d], col, k)
		}
		colB, rowA := t.colB[:cols*d], t.rowA[:d]
		for row := range rows {
			a.pack(rowA, row, k)
			gonum.Implementation{}.Dgemv(blas.NoTrans, cols, d, 1, colB, d, rowA, 1, 1, sum[row*cols:(row+1)*cols], 1)
		}
	}
}

// operand is a row-major matrix that is read in vectors along K: its rows, or
// its columns when strided.
type operand struct {
	data    []float32
	ld      int
	strided bool
}

// pack copies elements [k, k+len(dst)) of vector v.
func (o operand) pack(dst []float64, v, k int) {
	if !o.strided {
		for i, x := range o.data[v*o.ld+k:][:len(dst)] {
			dst[i] = float64(x)
		}
		return
	}
	for i := range dst {
		dst[i] = float64(o.data[(k+i)*o.ld+v])
	}
}

// fixup finishes a tile from its partial tiles, in the order of their slots.
func (j *job) fixup(item []uint32) {
	item = item[:encoding.FixupWords]
	rows, cols := int(item[2]&0xffff), int(item[2]>>16)
	shape := j.launch.Tile
	slots := j.workspace[int(item[3])*shape.TM*shape.TN:][:int(item[6])*shape.TM*shape.TN]
	s := scale{math.Float32frombits(item[4]), math.Float32frombits(item[5])}
	var sum [maxSide]float64
	for i := range rows {
		row := sum[:cols]
		clear(row)
		for at := i * shape.TN; at < len(slots); at += shape.TM * shape.TN {
			for k, v := range slots[at : at+cols] {
				row[k] += float64(v)
			}
		}
		s.store(j.c[int(item[0])+i*int(item[1]):], row)
	}
}

// scale is the end of a GEMM: C = alpha*sum + beta*C, rounded once. With beta = 0
// C is not read.
type scale struct{ alpha, beta float32 }

func (s scale) store(c []float32, sum []float64) {
	c = c[:len(sum)]
	alpha, beta := float64(s.alpha), float64(s.beta)
	for i, v := range sum {
		v *= alpha
		if s.beta != 0 {
			v += beta * float64(c[i])
		}
		c[i] = float32(v)
	}
}
