package workload

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/hostmem"
	"github.com/batchgemm/batchgemm/internal/npz"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// endless are the lengths of operands whose ends are not known.
var endless = planner.Lengths{A: math.MaxInt, B: math.MaxInt, C: math.MaxInt, Rows: math.MaxInt}

// place packs problems with B of 4 bits in panels. It fails for problems that cannot have such a B.
func place(problems []planner.Problem, o *planner.Options) (planner.Batch, error) {
	batch, err := planner.Pack(problems...)
	if err != nil || !elemtype.Bits4(o.TypeB) {
		return batch, err
	}
	end := 0
	for i := range batch {
		p := &batch[i]
		p.B = planner.Matrix{Offset: end, LD: element.Int4LD(p.N)}
		if p.M > 0 && p.N > 0 {
			end += p.K * p.B.LD
		}
	}
	return batch, batch.Check(context.Background(), planner.Epilogue{ScaleB: o.Epilogue.ScaleB},
		endless)
}

// wholeGroups makes each K a multiple of what B's groups need, if B has any.
func wholeGroups(problems []planner.Problem, o *planner.Options) {
	if unit := o.Epilogue.ScaleB.UnitK(); unit > 0 {
		for i := range problems {
			problems[i].K = (problems[i].K + unit - 1) / unit * unit
		}
	}
}

// MakePacked allocates the words of B of 4 bits.
func (o *Operands) MakePacked(batch planner.Batch) error {
	words := 0
	for i := range batch {
		if p := &batch[i]; p.M > 0 && p.N > 0 {
			words = max(words, (p.B.Offset+p.K*p.B.LD)/element.Int4.PerWord())
		}
	}
	if err := hostmem.Check(hostmem.Size(words)); err != nil {
		return fmt.Errorf("the words of B: %w", err)
	}
	o.Packed = make([]uint32, words)
	return nil
}

// shapeInt4 derives N of a problem whose B will be element.Int4, and checks that the required arrays exist.
func (t *arraysOf) shapeInt4(p *planner.Problem) error {
	if err := inOrder(t.a); err != nil {
		return err
	}
	shape := npz.Shape(t.b.Shape)
	switch words := t.b.DType == npz.Uint32; {
	case !words && t.b.Rows() != p.K:
		return fmt.Errorf("%s has shape %s, but %s has %d columns", t.b.Name, shape, t.a.Name, p.K)
	case !words:
	case len(t.b.Shape) != 3 || t.b.Cols()%8 != 0 || t.b.Shape[2] != 8:
		return fmt.Errorf("%s has shape %s, want (K/64, ld, 8) of words, and ld a multiple of 8",
			t.b.Name, shape)
	case p.K%element.Int4Panel != 0 || t.b.Rows() != p.K/element.Int4Panel:
		return fmt.Errorf("%s has shape %s, of %d panels of 64 k's, but %s has %d columns", t.b.Name, shape,
			t.b.Rows(), t.a.Name, p.K)
	case t.c != nil && t.c.Cols() <= p.N:
		p.N = t.c.Cols()
	}
	switch quantised := t.b.DType == npz.Float32 || t.b.DType == npz.Float16; {
	case quantised && (t.scales != nil || t.zeros != nil):
		return fmt.Errorf("%s is of %s, for which scales are found, but there are %s", t.b.Name,
			t.b.DType, t.beside())
	case !quantised && t.scales == nil:
		return fmt.Errorf("array S%s is missing: the scales of %s, which is of %s", t.b.Name[1:],
			t.b.Name, t.b.DType)
	case t.zeros != nil && t.scales.DType == npz.Uint32:
		return fmt.Errorf("%s is there, but the words of %s have zero points", t.zeros.Name, t.scales.Name)
	}
	return nil
}

// beside returns the name of an array of scales or zero points.
func (t *arraysOf) beside() string {
	if t.scales != nil {
		return t.scales.Name
	}
	return t.zeros.Name
}

// readInt4 reads the words of a B of element.Int4 and the words of its groups. The type of array B decides:
//
//   - float32 or float16: B is quantised by element.QuantizeInt4.
//   - uint8 or int8: B has numbers from 0 to 15, and S and optionally Z have shape (K/group, N). S has a
//     scale of float32 or float16, or a word of uint32 made by element.GroupWord, for each group of k's of a
//     column. Z has zero points of uint8 or int8 from 0 to 15; without Z they are 8.
//   - uint32 and shape (K/64, ld, 8): B has words made by element.PackInt4, and S and optionally Z have shape
//     (K/group, ld). N is ld, or may be less if there is a C.
func (t *arraysOf) readInt4(p *planner.Problem, ops *Operands, o *planner.Options) error {
	if p.K == 0 {
		return nil
	}
	group, words := o.Epilogue.ScaleB.Group(), ops.Packed[p.B.Offset/8:][:p.K*p.B.LD/8]
	groups := make([]uint32, p.K/group*p.B.LD)
	if t.scales != nil {
		if err := t.readGroups(groups, p, group); err != nil {
			return err
		}
	}
	// numbers of B come later
	if err := t.readWords(words, groups, ops.B[p.B.Offset:], p, group); err != nil {
		return err
	}
	ops.Groups = append(ops.Groups, groups...)
	return nil
}

// readWords reads B. If B is quantised, it also makes the words of the groups.
func (t *arraysOf) readWords(words, groups []uint32, scratch []float32, p *planner.Problem, group int) error {
	if err := hostmem.Check(hostmem.Size(t.b.Len())); err != nil {
		return fmt.Errorf("%s: %w", t.b.Name, err)
	}
	if t.b.DType == npz.Uint32 {
		if err := inOrder(t.b); err != nil {
			return err
		}
		all := make([]uint32, t.b.Len())
		if err := t.b.ReadWords(all); err != nil {
			return err
		}
		copyRows(words, all, 8*p.B.LD, 8*t.b.Cols())
		return nil
	}
	numbers := scratch[:t.b.Len()]
	if err := t.b.Read(numbers); err != nil {
		return err
	}
	if t.scales != nil {
		if err := checkNibbles(t.b, numbers); err != nil {
			return err
		}
		small := make([]uint8, len(numbers))
		for i, x := range t.columns(numbers) {
			small[i] = uint8(x)
		}
		element.PackInt4(words, small, p.N, p.K)
		return nil
	}
	if err := checkFinite(t.b, numbers, element.Int4); err != nil {
		return err
	}
	return element.QuantizeInt4(words, groups, t.columns(numbers), p.N, p.K, group)
}

// columns returns the numbers of B, column by column.
func (t *arraysOf) columns(numbers []float32) []float32 {
	if t.b.Fortran {
		return numbers
	}
	n, k := t.b.Cols(), t.b.Rows()
	columns := make([]float32, len(numbers))
	for i := range k {
		for j, x := range numbers[i*n:][:n] {
			columns[j*k+i] = x
		}
	}
	return columns
}

// readGroups reads the words of groups, or makes them from scales and zero points.
func (t *arraysOf) readGroups(groups []uint32, p *planner.Problem, group int) error {
	want := []int{p.K / group, t.b.Cols()}
	for _, a := range []*npz.Array{t.scales, t.zeros} {
		if a == nil {
			continue
		}
		if !slices.Equal(a.Shape, want) {
			return fmt.Errorf("%s has shape %s, want %s: one for each %d k's of a column of %s", a.Name,
				npz.Shape(a.Shape), npz.Shape(want), group, t.b.Name)
		}
		if err := inOrder(a); err != nil {
			return err
		}
	}
	words, err := t.groupWords()
	if err != nil {
		return err
	}
	copyRows(groups, words, p.B.LD, want[1])
	return nil
}

func (t *arraysOf) groupWords() ([]uint32, error) {
	words := make([]uint32, t.scales.Len())
	switch t.scales.DType {
	case npz.Uint32:
		return words, t.scales.ReadWords(words)
	case npz.Int8, npz.Uint8:
		return nil, fmt.Errorf("%s is of %s, want scales of float32 or float16, or words of uint32",
			t.scales.Name, t.scales.DType)
	}
	scales, zeros := make([]float32, len(words)), slices.Repeat([]float32{8}, len(words))
	if err := t.scales.Read(scales); err != nil {
		return nil, err
	}
	if t.zeros != nil {
		if t.zeros.DType != npz.Uint8 && t.zeros.DType != npz.Int8 {
			return nil, fmt.Errorf("%s is of %s, want zero points of uint8 or int8", t.zeros.Name,
				t.zeros.DType)
		}
		if err := t.zeros.Read(zeros); err != nil {
			return nil, err
		}
		if err := checkNibbles(t.zeros, zeros); err != nil {
			return nil, err
		}
	}
	for i := range words {
		words[i] = element.GroupWord(scales[i], int(zeros[i]))
	}
	return words, nil
}

// checkNibbles fails for numbers of an array outside of 0 to 15.
func checkNibbles(a *npz.Array, numbers []float32) error {
	for i, x := range numbers {
		if x < 0 || x > 15 {
			return fmt.Errorf("%s is %g, want 0 to 15", at(a, i), x)
		}
	}
	return nil
}

// copyRows copies rows of lenFrom elements to rows of lenTo elements, as much as both have.
func copyRows(to, from []uint32, lenTo, lenFrom int) {
	for i := range len(from) / lenFrom {
		copy(to[i*lenTo:][:lenTo], from[i*lenFrom:][:lenFrom])
	}
}
