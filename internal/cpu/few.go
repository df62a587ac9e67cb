package cpu

import (
	"math"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/planner/element"
)

const (
	// fewDepth is how much of K is done at once: 8 rows of A, in which each number is there twice, then take
	// 16 KiB.
	fewDepth = 256
	fewRows  = 8
)

// fewUnits multiply few rows by B of 4 bits.
type fewUnits struct {
	cols    int                             // of a vector, which has 8 numbers for each
	kernels [element.NVFP4 + 1][]func(*few) // by types and rows
	scales  [element.NVFP4 + 1]func(*few)   // makes numbers of scales; nil: kernels do
	// pack brings a row of A, whole panels, to the order of kernels: vectors are stride bytes apart.
	pack func(dst, src *float32, stride, panels int)
}

// few is the work of a kernel: rows of A by columns of B of 4 bits. The assembly reads its fields by their
// offsets; distances are in bytes.
type few struct {
	a       *float32 // for each panel and each of 8 places, a vector for each row
	words   *uint32
	groups  *int32
	columns *int32
	sums    *float32 // of each vector of columns and row a vector
	numbers *[16]float32
	step    int // from a panel to the next
	group   int // from a row of group words to the next
	toggle  int // not 0: a word of groups is for two panels
	panels  int
	count   int // vectors of columns

	// For kernels that take scales as numbers.
	bytes  *[32]byte // tables of the first zero point
	zeros  uint32    // mask of zero points in the first word of scales
	order  *[8]int32 // which of four scales lanes take
	scales *float32  // four for each panel, 16 for each column

	packed          [fewRows * fewDepth * 2]float32
	vectors         [maxSide * fewRows * 8]float32
	numbersOfScales [maxSide * fewDepth / 16]float32
}

// multiplyFew multiplies few rows by B of 4 bits, whose elements become numbers in registers.
func (t *scratch) multiplyFew(p *product) {
	if t.few == nil {
		t.few = new(few)
	}
	for row := 0; row < p.rows && !t.stop.Load(); {
		rows := (p.rows - row + fewRows - 1) / fewRows // parts
		rows = (p.rows - row + rows - 1) / rows
		t.fewRows(p, row, rows)
		row += rows
	}
	if !t.stop.Load() {
		t.finishAlong(p)
	}
}

// fewRows does some rows.
func (t *scratch) fewRows(p *product, row, rows int) {
	w, h, of := t.few, t.halves(), p.b.of
	w.count = (p.cols + t.fews.cols - 1) / t.fews.cols
	clear(w.vectors[:8*t.fews.cols*w.count*rows])
	w.numbers, w.columns = elemtype.Numbers4(of), &p.b.groups[0]
	w.step, w.group = element.Int4Panel/8*4*p.b.ld, 4*p.b.ld
	if w.toggle = 0; p.b.group > element.Int4Panel {
		w.toggle = 16
	}
	groups := p.b.groups
	if of == element.NVFP4 {
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
		w.words, w.groups = &p.b.from(k * p.b.ld).words()[0], &groups[k/p.b.group*p.b.ld]
		w.panels = depth / element.Int4Panel
		if scales := t.fews.scales[of]; scales != nil {
			w.tables(of)
			scales(w)
		}
		t.fewBlocks(of, rows, depth)
	}
	t.addLanes(of, row, rows)
}

// fewBlocks multiplies a part of K, as many rows at a time as there are kernels for.
func (t *scratch) fewBlocks(of element.Type, rows, depth int) {
	w, kernels, lanes := t.few, t.fews.kernels[of], 8*t.fews.cols
	for first := 0; first < rows; first += len(kernels) - 1 {
		n := min(rows-first, len(kernels)-1)
		for r := range n {
			t.fews.pack(&w.packed[lanes*r], &t.half.a[(first+r)*depth], 4*lanes*n, w.panels)
		}
		w.a, w.sums = &w.packed[0], &w.vectors[first*w.count*lanes]
		kernels[n](w)
	}
}

// addLanes adds the lanes of vectors.
func (t *scratch) addLanes(of element.Type, row, rows int) {
	w, cols, most := t.few, t.fews.cols, len(t.fews.kernels[of])-1
	for r := range rows {
		first := r / most * most
		n := min(rows-first, most)
		for i := range w.count * cols {
			v := first*w.count*cols + (i/cols*n+r-first)*cols + i%cols
			t.sum[(row+r)*maxSide+i] = sum8((*[8]float32)(w.vectors[8*v:]))
		}
	}
}

func sum8(v *[8]float32) float32 {
	return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]))
}

// tables sets what kernels take that have scales as numbers.
func (w *few) tables(of element.Type) {
	w.bytes, w.zeros, w.order = &bytesOfBF16[0], 0, &orderFP4
	w.scales = &w.numbersOfScales[0]
	if of == element.Int4 {
		w.bytes, w.zeros, w.order = &bytesOfBF16[1], 15, &orderInt4
	}
}

// bytesOfBF16 are the lower and the upper bytes of the numbers of elements as BF16: of FP4, and of Int4 less
// each zero point.
var bytesOfBF16 = func() (tables [17][32]byte) {
	for i := range tables {
		of, zero := element.Int4, float32(i-1)
		if i == 0 {
			of, zero = element.MXFP4, 0
		}
		for q, x := range elemtype.Numbers4(of) {
			bits := math.Float32bits(x - zero)
			tables[i][q], tables[i][16+q] = byte(bits>>16), byte(bits>>24)
		}
	}
	return tables
}()

var (
	orderFP4  = [8]int32{0, 0, 1, 1, 2, 2, 3, 3}
	orderInt4 = [8]int32{3, 3, 3, 3, 3, 3, 3, 3}
)
