package workload

import (
	"errors"
	"fmt"
	"io"
	"regexp"

	"github.com/batchgemm/batchgemm/internal/npz"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// readNPZ reads a batch with its matrices from an archive of NumPy's with the arrays
// A0, B0[, C0], A1, B1[, C1], ... of shapes (M, K), (K, N) and (M, N).
// They are of float32 or float16, whose numbers float32 has.
// Problem i is C_i = A_i*B_i, or C_i = A_i*B_i + C_i when C_i is given. A and B
// in Fortran order are read as transposed. Errors name the array.
func readNPZ(archive io.ReaderAt, size int64) (planner.Batch, *Operands, error) {
	arrays, err := npz.List(archive, size)
	if about := (*npz.ArrayError)(nil); errors.As(err, &about) && !arrayName.MatchString(about.Name) {
		err = unknownArray(about.Name) // which matters more than what it is like
	}
	if err != nil {
		return nil, nil, err
	}
	return readOperands(arrays)
}

// triple holds the arrays of one problem; c may be nil.
type triple struct{ a, b, c *npz.Array }

func readOperands(arrays []npz.Array) (planner.Batch, *Operands, error) {
	triples, err := group(arrays)
	if err != nil {
		return nil, nil, err
	}
	problems := make([]planner.Problem, len(triples))
	for i := range triples {
		if problems[i], err = triples[i].problem(); err != nil {
			return nil, nil, err
		}
	}
	batch, err := planner.Pack(problems...)
	if err != nil {
		return nil, nil, err
	}
	ops, err := NewOperands(batch)
	if err != nil {
		return nil, nil, err
	}
	for i, t := range triples {
		p := &batch[i]
		for _, m := range []struct {
			array *npz.Array
			at    planner.Matrix
			buf   []float32
		}{{t.a, p.A, ops.A}, {t.b, p.B, ops.B}, {t.c, p.C, ops.C}} {
			if m.array == nil || m.array.Rows*m.array.Cols == 0 || p.M == 0 || p.N == 0 {
				continue // nothing to read, and Extent leaves no room for it
			}
			size := m.array.Rows * m.array.Cols
			if err := m.array.Read(m.buf[m.at.Offset : m.at.Offset+size]); err != nil {
				return nil, nil, err
			}
		}
	}
	return batch, ops, nil
}

var arrayName = regexp.MustCompile(`^[ABC](0|[1-9][0-9]*)$`)

func unknownArray(name string) error {
	return fmt.Errorf("unknown array %.40q: the arrays are A0, B0 and, where something is added to A0*B0, C0; then A1, B1 and so on", name)
}

// group sorts the arrays by problem: A0, B0, C0, A1, ... without gaps.
func group(arrays []npz.Array) ([]triple, error) {
	byName := make(map[string]*npz.Array, len(arrays))
	for i := range arrays {
		name := arrays[i].Name
		if !arrayName.MatchString(name) {
			return nil, unknownArray(name)
		}
		if byName[name] != nil {
			return nil, fmt.Errorf("array %.40s is there twice", name)
		}
		byName[name] = &arrays[i]
	}
	var triples []triple
	for found := 0; found < len(arrays); {
		take := func(letter string) *npz.Array {
			a := byName[fmt.Sprint(letter, len(triples))]
			if a != nil {
				found++
			}
			return a
		}
		t := triple{take("A"), take("B"), take("C")}
		switch i := len(triples); {
		case t.a == nil:
			return nil, fmt.Errorf("array A%d is missing", i)
		case t.b == nil:
			return nil, fmt.Errorf("array B%d is missing", i)
		}
		triples = append(triples, t)
	}
	if len(triples) == 0 {
		return nil, errors.New("no arrays, want A0, B0[, C0], A1 and so on")
	}
	return triples, nil
}

// problem derives the sizes from the shapes. An array in Fortran order is, byte
// for byte, its transpose in C order.
func (t *triple) problem() (planner.Problem, error) {
	p := planner.GEMM(t.a.Rows, t.b.Cols, t.a.Cols)
	p.TransA, p.TransB = t.a.Fortran, t.b.Fortran
	if t.b.Rows != p.K {
		return p, fmt.Errorf("%s has shape (%d, %d), but %s has %d columns", t.b.Name, t.b.Rows, t.b.Cols, t.a.Name, p.K)
	}
	if t.c == nil {
		return p, nil
	}
	p.Beta = 1
	if t.c.Fortran {
		return p, fmt.Errorf("%s is in Fortran order; convert it with numpy.ascontiguousarray", t.c.Name)
	}
	if t.c.Rows != p.M || t.c.Cols != p.N {
		return p, fmt.Errorf("%s has shape (%d, %d), but %s*%s has (%d, %d)", t.c.Name, t.c.Rows, t.c.Cols, t.a.Name, t.b.Name, p.M, p.N)
	}
	return p, nil
}

// WriteNPZ writes the results C0, C1, ... of a batch, numbers of a type. Those of bf16,
// for which NumPy has no arrays, are written as float32, which has them all. The file
// appears complete or not at all. c is laid out as the packed batch says.
func WriteNPZ(w *npz.Writer, batch planner.Batch, of element.Type, c []float32) error {
	if of == element.BF16 {
		of = element.F32
	}
	for i, p := range batch {
		var data []float32
		if size := p.M * p.N; size > 0 {
			data = c[p.C.Offset : p.C.Offset+size]
		}
		if err := w.Write(fmt.Sprint("C", i), of, p.M, p.N, data); err != nil {
			return err
		}
	}
	return w.Commit()
}
