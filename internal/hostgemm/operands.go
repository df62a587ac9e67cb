package hostgemm

import (
	"iter"

	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner"
)

// Operands are the memory of a call: A, B and C, and the operands of its epilogue. Elements of 16 and 8 bits
// are given as the words that hold them, like those of backend.InHost.
type Operands struct {
	A, B, C, B2, Bias []float32
	Rows              []int32
}

// Lengths returns the lengths of operands of fp32.
func (x *Operands) Lengths() planner.Lengths {
	return planner.Lengths{A: len(x.A), B: len(x.B), C: len(x.C), B2: len(x.B2), Bias: len(x.Bias),
		Rows: len(x.Rows)}
}

// Indices of operands, as for buffers of programs.
const (
	operandA = iota
	operandB
	operandC
	operandB2
	operandBias
	operandRows
	operands
)

// all returns the operands that are copied without change.
func (x *Operands) all() [operands][]float32 {
	return [...][]float32{x.A, x.B, x.C, x.B2, x.Bias, backend.Words(x.Rows)}
}

// CheckEpilogue fails for epilogues that are impossible with operands of these lengths in host memory, and
// for operands that the epilogue does not use.
func CheckEpilogue(o *planner.Options, have planner.Lengths) error {
	e := &o.Epilogue
	if e.Pointers.Any() {
		return invalid.Errorf("operands on the host cannot have addresses: use Plan, Prepare and Run")
	}
	only := planner.Options{TypeA: o.TypeA, TypeB: o.TypeB, TypeC: o.TypeC, Epilogue: *e}
	if err := only.Check(); err != nil {
		return err
	}
	for _, o := range [...]struct {
		name   string
		length int
		used   bool
	}{{"B2", have.B2, e.Gated}, {"Bias", have.Bias, e.Bias}, {"Rows", have.Rows, e.UsesRows()}} {
		if o.length > 0 && !o.used {
			return invalid.Errorf("%s has %d elements, but the epilogue does not use it", o.name, o.length)
		}
	}
	return nil
}

// onDevice returns the part of an epilogue that the device does. Rows are gathered and scattered on the way
// to it and back, so only these rows are copied.
func onDevice(e planner.Epilogue) planner.Epilogue {
	e.GatherRows, e.ScatterRows = 0, 0
	return e
}

// matrix is an operand in host memory: rows of cols elements, ld apart. If stored is not 0, words of Rows
// from list on name the rows, among that many stored rows. An index that is none of them is a zero row, or
// is not stored.
type matrix struct{ offset, ld, rows, cols, list, stored int }

// stretches returns a matrix without gaps as one row.
func (m matrix) stretches() matrix {
	if m.ld == m.cols && m.stored == 0 {
		m.rows, m.cols = 1, m.rows*m.cols
	}
	return m
}

// end returns the index after the last element that there may be.
func (m *matrix) end() int {
	rows := m.rows
	if m.stored > 0 {
		rows = m.stored
	}
	return m.offset + (rows-1)*m.ld + m.cols
}

// row returns where a row starts, or -1 if it does not exist.
func (m *matrix) row(i int, lists []int32) int {
	if m.stored > 0 {
		if i = int(lists[m.list+i]); uint(i) >= uint(m.stored) {
			return -1
		}
	}
	return m.offset + i*m.ld
}

// operandsOf returns those of a problem, including C. Operands that it does not read have no rows.
func operandsOf(p *planner.Problem, e *planner.Epilogue) (all [operands]matrix) {
	a, b, b2 := &all[operandA], &all[operandB], &all[operandB2]
	a.ld, b.ld, b2.ld = p.A.LD, p.B.LD, p.B2.LD
	if p.Reads() {
		a.offset, b.offset = p.A.Offset, p.B.Offset
		a.rows, a.cols = p.ShapeA()
		b.rows, b.cols = p.ShapeB()
		if e.GatherRows > 0 {
			a.list, a.stored = p.RowsA, e.GatherRows
		}
		if e.Gated {
			b2.offset, b2.rows, b2.cols = p.B2.Offset, b.rows, b.cols
		}
	}
	c := &all[operandC]
	*c = matrix{offset: p.C.Offset, ld: p.C.LD, rows: p.M, cols: p.N}
	if e.ScatterRows > 0 {
		c.list, c.stored = p.RowsC, e.ScatterRows
	}
	if n := e.Biases(p.N); e.Bias {
		all[operandBias] = matrix{offset: p.Bias, ld: n, rows: 1, cols: n}
	}
	if e.Weights {
		all[operandRows] = matrix{offset: p.Weights, ld: p.M, rows: 1, cols: p.M}
	}
	return all
}

// written returns C of the problems that write it.
func written(batch planner.Batch, e *planner.Epilogue) iter.Seq[matrix] {
	return func(yield func(matrix) bool) {
		for i := range batch {
			if q := &batch[i]; e.Writes(q) && !yield(operandsOf(q, e)[operandC]) {
				return
			}
		}
	}
}

// elements returns how many elements a problem moves between host and device.
func elements(p *planner.Problem, e *planner.Epilogue) (n int) {
	if left := onDevice(*e); !left.Writes(p) {
		return 0
	}
	for i, m := range operandsOf(p, e) {
		if i != operandC || p.Beta != 0 {
			n += m.rows * m.cols
		}
	}
	return n + p.M*p.N
}
