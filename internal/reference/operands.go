package reference

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Operands are the matrices and lists of a batch in a test, each in one buffer.
type Operands struct {
	A, B, C []float32
	E       Epilogue
	// PackedB and PackedB2 are the words of B and B2 of 4 bits. B and E.B2 have the numbers that they
	// represent.
	PackedB, PackedB2 []uint32

	// Unit is the unit of offsets and leading dimensions; 1: leading dimensions are odd.
	Unit int
	// Gap fills memory between and after rows of A, B and B2, and matrices that are not read. Canary fills
	// memory between those of C.
	Gap, Canary float32
	Rand        *rand.Rand
	Values      func([]float32) // makes numbers
}

// Add places a problem after the earlier ones, with its operands for an epilogue. Rows end a matrix, and the
// last one its buffer.
func (o *Operands) Add(p *planner.Problem, e *planner.Epilogue) {
	rowsA, colsA := p.ShapeA()
	rowsB, colsB := p.ShapeB()
	rowsC := p.M
	if e.GatherRows > 0 {
		rowsA = e.GatherRows
	}
	if e.ScatterRows > 0 {
		rowsC = e.ScatterRows
	}
	read := p.Alpha != planner.Scale(0)
	o.place(&o.A, &p.A, rowsA, colsA, read, o.Gap)
	grouped := e.ScaleB.Group() > 0
	if grouped {
		o.pack(&o.B, &o.PackedB, &p.B, rowsB, colsB)
		o.pack(&o.E.B2, &o.PackedB2, &p.B2, rowsB, colsB)
	} else {
		o.place(&o.B, &p.B, rowsB, colsB, read, o.Gap)
	}
	o.place(&o.C, &p.C, rowsC, p.N, p.Beta != 0 || e.ScatterRows > 0, o.Canary)
	if *e == (planner.Epilogue{}) {
		return
	}
	if !grouped {
		o.place(&o.E.B2, &p.B2, rowsB, colsB, read, o.Gap)
	}
	o.addLists(p, e)
	if grouped && read {
		Widen4(o.B, o.PackedB, p, p.B, o.E.Rows[p.ScaleB:], e.ScaleB)
		if e.Gated {
			groups := o.E.Rows[p.ScaleB+e.ScaleB.GroupWords(p.K, p.B.LD):]
			Widen4(o.E.B2, o.PackedB2, p, p.B2, groups, e.ScaleB)
		}
	}
}

// pack places a B of 4 bits with random words. The last column of the last panel ends its words.
func (o *Operands) pack(to *[]float32, words *[]uint32, m *planner.Matrix, k, n int) {
	m.LD = element.Int4LD(n) + 8*o.Rand.IntN(2)
	line := elemtype.Line(element.Int4)
	m.Offset = (len(*to) + line - 1) / line * line
	if k*n == 0 {
		return
	}
	*to = append(*to, slices.Repeat([]float32{o.Gap}, m.Offset-len(*to)+(k-1)*m.LD+n)...)
	per := element.Int4.PerWord()
	for end := m.Offset/per + (k-element.Int4Panel)*m.LD/per + element.Int4Panel*n/per; len(*words) < end; {
		*words = append(*words, o.Rand.Uint32())
	}
}

// Widen4 converts the words of a problem's B, which lies at m, to numbers, with its group words.
func Widen4(to []float32, words []uint32, p *planner.Problem, m planner.Matrix, groups []int32,
	of planner.Scaling) {
	const panel = element.Int4Panel
	var numbers [panel]float32
	typeB, columns := of.TypeB(element.BF16), groups
	if of.ColumnRow() && p.K > 0 {
		groups = groups[m.LD:]
	}
	for first := 0; first < p.K; first += panel {
		for j := range p.N {
			scales := elemtype.GroupsOf(typeB, uint32(groups[first/of.Group()*m.LD+j]),
				first%of.Group()/panel, math.Float32frombits(uint32(columns[j])))
			elemtype.Widen4(typeB, numbers[:], words[(m.Offset+first*m.LD+panel*j)/8:][:panel/8], &scales)
			for k, x := range numbers {
				to[m.Offset+(first+k)*m.LD+j] = x
			}
		}
	}
}

// GroupWord draws a word of groups: of Int4 with that scale and any zero point, of MXFP4 and NVFP4 with any
// scales from 1/16 to 2. The word may be a scale of a column too.
func GroupWord(rng *rand.Rand, of planner.Scaling, scale float32) int32 {
	word := uint32(0)
	for i := range 4 {
		switch of {
		case planner.PerGroup32:
			word |= uint32(123+rng.IntN(6)) << (8 * i)
		case planner.PerGroup16: // as fp32 it is from 1/32 to 1
			word |= uint32(0x18+rng.IntN(0x28)) << (8 * i)
		}
	}
	if of == planner.PerGroup16 {
		return int32(word&0xffffff | 0x3d000000)
	}
	if of == planner.PerGroup32 {
		return int32(word)
	}
	return int32(element.GroupWord(scale, rng.IntN(16)))
}

func (o *Operands) place(to *[]float32, m *planner.Matrix, rows, cols int, read bool, between float32) {
	m.LD = (cols+o.Unit-1)/o.Unit*o.Unit + o.Unit
	if o.Unit == 1 {
		m.LD |= 1
	}
	m.Offset = (len(*to) + o.Unit - 1) / o.Unit * o.Unit
	if rows*cols == 0 {
		return
	}
	*to = append(*to, slices.Repeat([]float32{between}, m.Offset-len(*to)+(rows-1)*m.LD+cols)...)
	for i := range rows {
		row := (*to)[m.Offset+i*m.LD:][:cols]
		if o.Values(row); !read {
			copy(row, slices.Repeat([]float32{o.Gap}, cols))
		}
	}
}

// addLists adds biases, rows, weights and scales of a problem. A word that belongs to nothing comes before
// each of the first three lists. One row in four does not exist.
func (o *Operands) addLists(p *planner.Problem, e *planner.Epilogue) {
	p.Bias = len(o.E.Biases) + 1
	biases := make([]float32, 1+2*p.N)
	o.Values(biases)
	biases[0] = o.Gap
	o.E.Biases = append(o.E.Biases, biases...)
	list := func(stored int, row func(i int) int) (at int) {
		o.E.Rows = append(o.E.Rows, math.MaxInt32)
		at = len(o.E.Rows)
		for i := range p.M {
			word := int32(row(i))
			if stored > 0 && o.Rand.IntN(4) == 0 {
				word = []int32{-1, int32(stored), math.MinInt32}[o.Rand.IntN(3)]
			}
			o.E.Rows = append(o.E.Rows, word)
		}
		return at
	}
	p.RowsA = list(e.GatherRows, func(int) int { return o.Rand.IntN(max(e.GatherRows, 1)) })
	to := o.Rand.Perm(max(e.ScatterRows, p.M))
	p.RowsC = list(e.ScatterRows, func(i int) int { return to[i] })
	weights := make([]float32, p.M)
	o.Values(weights)
	p.Weights = list(0, func(i int) int { return int(int32(math.Float32bits(weights[i]))) })
	scales := func(n int) (at int) {
		at = len(o.E.Rows)
		for range n {
			o.E.Rows = append(o.E.Rows, int32(math.Float32bits(o.Rand.Float32()-0.25)))
		}
		return at
	}
	p.ScaleA, p.ScaleB = scales(e.ScalesA(p)), scales(e.ScalesB(p))
	if e.ScaleB.Group() > 0 {
		for at := p.ScaleB; at < len(o.E.Rows); at++ { // with zero points
			o.E.Rows[at] = GroupWord(o.Rand, e.ScaleB, math.Float32frombits(uint32(o.E.Rows[at])))
		}
	}
	if e.ZeroA {
		for at := p.ScaleA + 1; at < len(o.E.Rows); at += 2 { // B's follow those of A
			o.E.Rows[at] = int32(o.Rand.IntN(256) - 128)
		}
	}
	if e.Pointers.Any() { // for code that knows them
		p.Pointers = len(o.E.Rows)
		o.E.Rows = append(o.E.Rows, make([]int32, encoding.PointerWords)...)
	}
}

// Epilogues returns some epilogues for problems with at most that many rows: all parts together, and some
// that allow split tiles.
func Epilogues(most int) []planner.Epilogue {
	return []planner.Epilogue{
		{Activation: planner.SiLU, Bias: true, Gated: true, GatherRows: 37, ScatterRows: most + 9,
			Weights: true},
		{Activation: planner.GELU, Bias: true, GatherRows: 1, Weights: true},
		{Activation: planner.ReLU, ScatterRows: most, Bias: true},
		{Gated: true, Bias: true},
		{GatherRows: 150, ScatterRows: most + 1},
	}
}

// NarrowC returns a narrow type of C for that type of A and B; turn selects one.
func NarrowC(of element.Type, turn int) element.Type {
	types := elemtype.TypesC(of)
	return types[turn%max(1, len(types)-1)] // the last is F32
}

// SetScales adds scales and zero points to an epilogue, if the type of elements of A and B has any; turn
// selects the kind.
func SetScales(e *planner.Epilogue, of element.Type, turn int) {
	if elemtype.Scaled(of) {
		row, one := planner.PerRow, planner.PerTensor
		e.ScaleA, e.ScaleB = [...]planner.Scaling{row, "", one, row}[turn%4], [...]planner.Scaling{row, row,
			one, ""}[turn%4]
		if elemtype.Whole(of) && turn%2 == 0 {
			e.ScaleB, e.ZeroA = row, true
		}
	}
}

// OfAllNumbers returns a batch that can multiply all 8-bit numbers, in A of one problem and in B of the
// other.
func OfAllNumbers(transA, transB bool) planner.Batch {
	return planner.Batch{{M: 256, N: 1, K: 2, TransA: transA, TransB: transB},
		{M: 1, N: 256, K: 2, TransA: transA, TransB: transB}}
}

// AllNumbers fills the operands of that batch, as placed: all numbers of a type, each in both k, times 1.
// NaN stays: it marks gaps.
func AllNumbers(of element.Type, b planner.Batch, x, y []float32) {
	for _, operand := range [][]float32{x, y} {
		for i, number := range operand {
			if number == number {
				operand[i] = 1
			}
		}
	}
	fill := func(operand []float32, m planner.Matrix, along bool) {
		next, second := 1, m.LD
		if along {
			next, second = m.LD, 1
		}
		for i := range 256 {
			at := m.Offset + i*next
			operand[at], operand[at+second] = elemtype.Float(of, uint16(i)), elemtype.Float(of, uint16(255-i))
		}
	}
	fill(x, b[0].A, !b[0].TransA)
	fill(y, b[1].B, b[1].TransB)
}

// OfAllProducts returns a batch that can multiply all pairs of 8-bit numbers.
func OfAllProducts(transA, transB bool) planner.Batch {
	return planner.Batch{{M: 256, N: 256, K: 150, TransA: transA, TransB: transB}}
}

// AllProducts fills the operands of that batch, as placed: a row of A has one number of a type, at one k,
// and zeros; a column of B has one number everywhere.
func AllProducts(of element.Type, b planner.Batch, x, y []float32) {
	p := &b[0]
	put := func(operand []float32, m planner.Matrix, along bool, i, k int, number float32) {
		if along {
			i, k = k, i
		}
		operand[m.Offset+k*m.LD+i] = number
	}
	for i := range 256 {
		number := elemtype.Float(of, uint16(i))
		for k := range p.K {
			put(x, p.A, !p.TransA, i, k, 0)
			put(y, p.B, p.TransB, i, k, number)
		}
		put(x, p.A, !p.TransA, i, 7*i%p.K, number)
	}
}

// OfWholeSums returns a batch for WholeSums.
func OfWholeSums(transA, transB bool) planner.Batch {
	return planner.Batch{{M: 3, N: 5, K: 4201, TransA: transA, TransB: transB}}
}

// WholeSums fills the operands of that batch, as placed: 127 times numbers of one sign and then of the
// other. Sums reach 2^25 in the middle, where fp32 lacks three of four integers, and end with 127 * 127.
func WholeSums(b planner.Batch, x, y []float32) {
	fill := func(operand []float32, m planner.Matrix, along bool, count int, number func(k int) float32) {
		next, step := 1, m.LD
		if along {
			next, step = m.LD, 1
		}
		for i := range count {
			for k := range b[0].K {
				operand[m.Offset+i*next+k*step] = number(k)
			}
		}
	}
	p := &b[0]
	fill(x, p.A, !p.TransA, p.M, func(int) float32 { return 127 })
	fill(y, p.B, p.TransB, p.N, func(k int) float32 {
		if 2*k < p.K {
			return 127
		}
		return -127
	})
}
