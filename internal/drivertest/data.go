package drivertest

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// canary fills the elements of C that belong to no problem. No result has this value.
const canary = 1.5e30

// guard is the number of elements after the last matrix of each buffer.
const guard = 19

// spacing says how matrices are placed in their buffers.
type spacing int

const (
	narrow    spacing = iota // odd offsets and leading dimensions: loads of single elements only
	wide                     // everything at multiples of 16 bytes, for vector loads
	wideHalf                 // the same for 16-bit elements
	wideBytes                // and for 8-bit elements
)

func (s spacing) String() string { return [...]string{"narrow", "wide", "wide", "wide"}[s] }

// step returns the unit of offsets and leading dimensions.
func (s spacing) step() int { return [...]int{1, 4, 8, 16}[s] }

// of returns the spacing for elements of a type.
func (s spacing) of(t element.Type) spacing {
	if s == wide {
		return map[int]spacing{8: wide, 4: wide, 2: wideHalf, 1: wideBytes}[t.Bytes()]
	}
	return s
}

// place places the problems with gaps between matrices and after rows, and returns the lengths of the
// buffers.
func (s spacing) place(b planner.Batch) (lenA, lenB, lenC int) {
	step := s.step()
	put := func(m *planner.Matrix, rows, cols int, end *int, gap int) {
		m.LD = roundUp(cols, step) + step*(1+gap%2)
		if s == narrow {
			m.LD |= 1
		}
		m.Offset = roundUp(*end, step) + step*(1+gap%3)
		*end = m.Offset + rows*m.LD
	}
	for i := range b {
		p := &b[i]
		rowsA, colsA := p.ShapeA()
		rowsB, colsB := p.ShapeB()
		put(&p.A, rowsA, colsA, &lenA, i)
		put(&p.B, rowsB, colsB, &lenB, i+1)
		put(&p.C, p.M, p.N, &lenC, i+2)
	}
	return lenA + guard, lenB + guard, lenC + guard
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

// operands are the contents of the buffers of A, B and C.
type operands struct{ a, b, c []float32 }

// fill returns operands for a batch that place has placed. Padding of A and B is NaN, which shows if a
// kernel multiplies it. C is NaN if beta = 0, because it must not be read.
func fill(b planner.Batch, lens [3]int, values func([]float32)) operands {
	nan := float32(math.NaN())
	o := operands{slices.Repeat([]float32{nan}, lens[0]), slices.Repeat([]float32{nan}, lens[1]),
		slices.Repeat([]float32{canary}, lens[2])}
	for i := range b {
		p := &b[i]
		rowsA, colsA := p.ShapeA()
		rowsB, colsB := p.ShapeB()
		eachRow(o.a, p.A, rowsA, colsA, values)
		eachRow(o.b, p.B, rowsB, colsB, values)
		if p.Beta == 0 {
			eachRow(o.c, p.C, p.M, p.N, func(row []float32) {
				copy(row, slices.Repeat([]float32{nan}, len(row)))
			})
		} else {
			eachRow(o.c, p.C, p.M, p.N, values)
		}
	}
	return o
}

func eachRow(data []float32, m planner.Matrix, rows, cols int, f func([]float32)) {
	for i := range rows {
		f(data[m.Offset+i*m.LD:][:cols])
	}
}

// uniform and integers are values for fill. Integers give exact results: sums of up to 2^16 products of at
// most 64 stay below 2^24, and so do their halves. Random integers of an integer type give exact results
// too.
func uniform(seed uint64) func([]float32) {
	rng := newRand(seed)
	return func(s []float32) { reference.Uniform(rng, s) }
}

func integers(seed uint64) func([]float32) {
	rng := newRand(seed)
	return func(s []float32) { reference.Integers(rng, s, 8) }
}

func (s *suite) integers(seed uint64) func([]float32) {
	if !elemtype.Whole(s.of) {
		return integers(seed)
	}
	rng := newRand(seed)
	return func(values []float32) { reference.Integers(rng, values, 1<<(8*s.of.Bytes()-1)) }
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// covering returns problems of one transposition in which every pair of the given sizes of M, N and K
// occurs: a Latin square, with one K for each pair of M and N. alpha and beta are drawn.
func covering(rng *rand.Rand, m, n, k []int, transA, transB bool) planner.Batch {
	var b planner.Batch
	shift := rng.IntN(len(k))
	for i := range m {
		for j := range n {
			p := planner.Problem{M: m[i], N: n[j], K: k[(i+j+shift)%len(k)], TransA: transA, TransB: transB}
			p.Alpha, p.Beta = scalars(rng)
			b = append(b, p)
		}
	}
	return b
}

// scalars draws alpha and beta from {0, 1, -0.5}. alpha is 0 less often, because such problems have no
// product.
func scalars(rng *rand.Rand) (alpha planner.Factor, beta float64) {
	return planner.Scale([...]float64{1, -0.5, 1, -0.5, 0}[rng.IntN(5)]), [...]float64{0, 1,
		-0.5}[rng.IntN(3)]
}

// irregular returns n problems with sizes up to maxMN and maxK, 0 included.
func irregular(rng *rand.Rand, n, maxMN, maxK int) planner.Batch {
	b := make(planner.Batch, n)
	for i := range b {
		p := &b[i]
		p.M, p.N, p.K = rng.IntN(maxMN+1), rng.IntN(maxMN+1), rng.IntN(maxK+1)
		p.TransA, p.TransB = rng.IntN(2) == 1, rng.IntN(2) == 1
		p.Alpha, p.Beta = scalars(rng)
	}
	return b
}

// around returns the sizes at which masks of a tile side change, and a prime of a few tiles.
func around(side int) []int {
	return []int{0, 1, side - 1, side, side + 1, primeFrom(2 * side)}
}

// long returns K sizes of several steps of TK, so that schedules have steps to share.
func long(step int) []int {
	return []int{0, 1, step, 4*step + 1, 9*step - 1, primeFrom(12 * step)}
}

func primeFrom(n int) int {
	for d := 2; d*d <= n; d++ {
		if n%d == 0 {
			return primeFrom(n + 1)
		}
	}
	return n
}

func sameBits(x, y []float32) bool {
	return slices.EqualFunc(x, y, func(v, w float32) bool {
		return math.Float32bits(v) == math.Float32bits(w)
	})
}
