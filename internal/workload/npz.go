package workload

import (
	"errors"
	"fmt"
	"io"
	"regexp"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/npz"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// readNPZ reads a batch with its matrices from a NumPy archive with the arrays A0, B0[, C0], A1, B1[, C1],
// ... of shapes (M, K), (K, N) and (M, N). Their types are float32, float16 or int8, whose numbers are exact
// in float32; with element.F64 also float64. A and B of element.E4M3 may also be uint8: bits. B of
// element.Int4 has other forms too, see readInt4. Problem i is C_i = A_i*B_i, or C_i = A_i*B_i + C_i if C_i
// is given. A and B in Fortran order are read as transposed. Errors name the array.
func readNPZ(archive io.ReaderAt, size int64, o *planner.Options) (planner.Batch, *Operands, error) {
	arrays, err := npz.List(archive, size)
	if about := (*npz.ArrayError)(nil); errors.As(err, &about) && !arrayName.MatchString(about.Name) {
		err = unknownArray(about.Name) // this matters more than its content
	}
	if err != nil {
		return nil, nil, err
	}
	return readOperands(arrays, o)
}

// arraysOf holds the arrays of one problem; missing ones are nil.
type arraysOf struct{ a, b, c, scales, zeros *npz.Array }

func readOperands(arrays []npz.Array, o *planner.Options) (planner.Batch, *Operands, error) {
	if elemtype.Bits4(o.TypeB) && o.TypeB != element.Int4 {
		return nil, nil, fmt.Errorf("no form of arrays is known for B of %s", o.TypeB)
	}
	found, err := group(arrays, o)
	if err != nil {
		return nil, nil, err
	}
	problems := make([]planner.Problem, len(found))
	for i := range found {
		if problems[i], err = found[i].problem(o); err != nil {
			return nil, nil, err
		}
	}
	batch, err := place(problems, o)
	if err != nil {
		return nil, nil, err
	}
	ops, err := NewOperands(batch, o.TypeA)
	if err == nil && o.TypeB == element.Int4 {
		err = ops.MakePacked(batch)
	}
	if err != nil {
		return nil, nil, err
	}
	for i := range found {
		p := &batch[i]
		if p.M == 0 || p.N == 0 {
			continue // nothing to read, and Extent has no room for it
		}
		if err := found[i].read(p, ops, o); err != nil {
			return nil, nil, err
		}
	}
	return batch, ops, nil
}

// read reads the matrices of a problem.
func (t *arraysOf) read(p *planner.Problem, ops *Operands, o *planner.Options) error {
	if err := readMatrix(t.a, o.TypeA, ops.A, p.A.Offset); err != nil {
		return err
	}
	if t.c != nil {
		if err := readMatrix(t.c, o.TypeC, ops.C, p.C.Offset); err != nil {
			return err
		}
	}
	if o.TypeB == element.Int4 {
		return t.readInt4(p, ops, o)
	}
	return readMatrix(t.b, o.TypeA, ops.B, p.B.Offset)
}

// readMatrix reads the numbers of an array as elements of a type.
func readMatrix(a *npz.Array, of element.Type, to []float32, offset int) error {
	if a.Len() == 0 {
		return nil // buffers have no room for what is not read
	}
	switch {
	case of == element.F64 && a.DType != npz.Uint8 && a.DType != npz.Uint32:
		return a.ReadDoubles(Doubles(to)[offset:][:a.Len()])
	case a.DType == npz.Float64:
		return fmt.Errorf("%s is of float64, not elements of %s: choose %s, or convert it with "+
			".astype(numpy.float32)", a.Name, of, element.F64)
	case a.DType == npz.Uint32:
		return fmt.Errorf("%s is of uint32, which are words of B of %s, not elements of %s", a.Name,
			element.Int4, of)
	case a.DType == npz.Uint8 && of != element.E4M3:
		return fmt.Errorf("%s is of uint8, which are bits of %s, not elements of %s", a.Name,
			element.E4M3, of)
	}
	numbers := to[offset:][:a.Len()]
	if err := a.Read(numbers); err != nil {
		return err
	}
	if a.DType == npz.Uint8 {
		for i, x := range numbers {
			numbers[i] = elemtype.Float(of, uint16(x))
		}
	}
	if elemtype.Whole(of) {
		return checkFinite(a, numbers, of)
	}
	return nil
}

// checkFinite fails for NaN and infinities in an array if the type has none.
func checkFinite(a *npz.Array, numbers []float32, of element.Type) error {
	for i, x := range numbers {
		if x-x != 0 {
			return fmt.Errorf("%s is %g, for which %s has no number", at(a, i), x, of)
		}
	}
	return nil
}

// at returns the name of an element of a matrix, by its place in the file.
func at(a *npz.Array, i int) string {
	row, col := i/a.Cols(), i%a.Cols()
	if a.Fortran {
		row, col = i%a.Rows(), i/a.Rows()
	}
	return fmt.Sprintf("%s[%d, %d]", a.Name, row, col)
}

var arrayName = regexp.MustCompile(`^[ABCSZ](0|[1-9][0-9]*)$`)

func unknownArray(name string) error {
	return fmt.Errorf("unknown array %.40q: the arrays are A0, B0 and, where something is added to A0*B0, "+
		"C0; then A1, B1 and so on", name)
}

// group sorts the arrays by problem: A0, B0, C0, A1, ... without gaps.
func group(arrays []npz.Array, o *planner.Options) ([]arraysOf, error) {
	byName := make(map[string]*npz.Array, len(arrays))
	for i := range arrays {
		name := arrays[i].Name
		switch {
		case !arrayName.MatchString(name):
			return nil, unknownArray(name)
		case byName[name] != nil:
			return nil, fmt.Errorf("array %.40s is there twice", name)
		case (name[0] == 'S' || name[0] == 'Z') && o.TypeB != element.Int4:
			return nil, fmt.Errorf("array %.40s is there, but scales and zero points are for B of %s",
				name, element.Int4)
		}
		byName[name] = &arrays[i]
	}
	var all []arraysOf
	for found := 0; found < len(arrays); {
		take := func(letter string) *npz.Array {
			a := byName[fmt.Sprint(letter, len(all))]
			if a != nil {
				found++
			}
			return a
		}
		t := arraysOf{take("A"), take("B"), take("C"), take("S"), take("Z")}
		switch i := len(all); {
		case t.a == nil:
			return nil, fmt.Errorf("array A%d is missing", i)
		case t.b == nil:
			return nil, fmt.Errorf("array B%d is missing", i)
		}
		all = append(all, t)
	}
	if len(all) == 0 {
		return nil, errors.New("no arrays, want A0, B0[, C0], A1 and so on")
	}
	return all, nil
}

// problem derives the sizes from the shapes. An array in Fortran order has the bytes of its transpose in C
// order.
func (t *arraysOf) problem(o *planner.Options) (planner.Problem, error) {
	int4 := o.TypeB == element.Int4
	for _, a := range []*npz.Array{t.a, t.b, t.c} {
		if a != nil && len(a.Shape) != 2 && !(int4 && a == t.b) {
			return planner.Problem{}, fmt.Errorf("%s has %d dimensions, want 2", a.Name, len(a.Shape))
		}
	}
	p := planner.GEMM(t.a.Rows(), t.b.Cols(), t.a.Cols())
	if int4 {
		if err := t.shapeInt4(&p); err != nil {
			return p, err
		}
	} else {
		p.TransA, p.TransB = t.a.Fortran, t.b.Fortran
		if t.b.Rows() != p.K {
			return p, fmt.Errorf("%s has shape %s, but %s has %d columns", t.b.Name, npz.Shape(t.b.Shape),
				t.a.Name, p.K)
		}
	}
	if t.c == nil {
		return p, nil
	}
	p.Beta = 1
	if err := inOrder(t.c); err != nil {
		return p, err
	}
	if t.c.Rows() != p.M || t.c.Cols() != p.N {
		return p, fmt.Errorf("%s has shape %s, but %s*%s has (%d, %d)", t.c.Name, npz.Shape(t.c.Shape),
			t.a.Name, t.b.Name, p.M, p.N)
	}
	return p, nil
}

// inOrder fails for an array whose rows do not follow each other.
func inOrder(a *npz.Array) error {
	if a.Fortran {
		return fmt.Errorf("%s is in Fortran order; convert it with numpy.ascontiguousarray", a.Name)
	}
	return nil
}

// WriteNPZ writes the results C0, C1, ... of a batch, numbers of a type. NumPy has no bf16, so these are
// written as float32, which is exact. Numbers of F64 are words. The file appears complete or not at all. c is
// placed like in the packed batch.
func WriteNPZ(w *npz.Writer, batch planner.Batch, of element.Type, c []float32) error {
	if of == element.BF16 {
		of = element.F32
	}
	each := elemtype.Words(elemtype.Sums(of), 1)
	for i, p := range batch {
		var data []float32
		if size := p.M * p.N; size > 0 {
			data = c[each*p.C.Offset : each*(p.C.Offset+size)]
		}
		if err := w.Write(fmt.Sprint("C", i), of, p.M, p.N, data); err != nil {
			return err
		}
	}
	return w.Commit()
}
