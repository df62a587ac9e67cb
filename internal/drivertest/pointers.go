package drivertest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// apart is a matrix in a buffer of its own, between elements that must not be read or stored.
type apart struct {
	buffer         driver.Buffer
	of             int // the operand
	first, end     int // of its elements
	address        uint64
	before, offset int // elements before it: in the buffer, and after the address
}

// moveOut makes such a buffer. Addresses and offsets are any, or multiples of 16 bytes.
func (j *epilogueJob) moveOut(t *testing.T, of int, m planner.Matrix, stored int, aligned bool) apart {
	t.Helper()
	k, step, size := len(j.apart), 1, j.types()[of].Bytes()
	if aligned {
		step = elemtype.Line(j.types()[of])
	}
	shift := step * ((k + 1) % 4)
	a := apart{of: of, first: m.Offset, end: m.Offset + stored*m.LD, offset: step * (k % 3)}
	a.before = shift + a.offset
	a.buffer = j.alloc(t, (a.length()*size+3)/4)
	base, err := a.buffer.(backend.Addressed).Address()
	require.NoError(t, err)
	require.Zero(t, base%16)
	a.address = base + uint64(shift*size)
	j.apart = append(j.apart, a)
	return a
}

func (a *apart) length() int { return a.before + a.end - a.first + guard }

// contents returns the buffer's elements, with those of the matrix from operands.
func (a *apart) contents(of element.Type, numbers []float32) []float32 {
	filler := float32(math.NaN())
	if a.of == bufferC {
		filler = canary
	}
	all := slices.Repeat([]float32{filler}, a.length())
	round(of, all)
	copy(all[a.before:], numbers[a.first:a.end])
	return all
}

func (a *apart) write(ctx context.Context, s *suite, d *epilogueData) error {
	of := s.types()[a.of]
	return a.buffer.Write(ctx, 0, backend.ToWords(of, a.contents(of, d.numbers[a.of])))
}

// read copies the buffer's C to that of the other buffers. It fails if anything else has changed.
func (a *apart) read(ctx context.Context, s *suite, d *epilogueData, c []float32) error {
	of := s.types()[a.of]
	before := a.contents(of, d.numbers[a.of])
	now := make([]float32, a.buffer.Len())
	if err := a.buffer.Read(ctx, 0, now); err != nil {
		return err
	}
	after := backend.FromWords(of, now, a.length())
	if a.of == bufferC {
		copy(c[a.first:a.end], after[a.before:])
		copy(after[a.before:], before[a.before:][:a.end-a.first])
	}
	if !sameBits(before, after) {
		return fmt.Errorf("what lies around a matrix of operand %d was changed by a run", a.of)
	}
	return nil
}

// nowhere replaces an address that must not be read.
const nowhere = 0xdead_beef_0000_0004

// preparePointed prepares a batch from placeEpilogue, with operands by pointers in separate buffers.
func (s *suite) preparePointed(t *testing.T, b planner.Batch, d *epilogueData, o planner.Options,
	edit func(*planner.Device)) *epilogueJob {
	t.Helper()
	own := epilogueJob{suite: s}
	j := s.prepareEpilogue(t, own.move(t, b, d, o.Epilogue), d, o, edit)
	j.batch, j.apart = b, own.apart
	return j
}

// move returns the problems to plan, with the addresses of their matrices in the lists of rows.
func (j *epilogueJob) move(t *testing.T, b planner.Batch, d *epilogueData, e planner.Epilogue) planner.Batch {
	t.Helper()
	moved, by := slices.Clone(b), e.Pointers
	if !by.Any() {
		return b
	}
	for i := range moved {
		p := &moved[i]
		to := [4]uint64{nowhere, nowhere, nowhere, nowhere}
		out := func(used bool, place, of int, m *planner.Matrix, stored int) {
			if used {
				a := j.moveOut(t, of, *m, stored, by.Aligned)
				to[place], m.Offset = a.address, a.offset
			}
		}
		rowsA, _ := p.ShapeA()
		rowsB, _ := p.ShapeB()
		out(by.A && p.Reads(), 0, bufferA, &p.A, max(rowsA, e.GatherRows))
		out(by.B && p.Reads(), 1, bufferB, &p.B, rowsB)
		out(by.C && p.M > 0 && p.N > 0, 2, bufferC, &p.C, max(p.M, e.ScatterRows))
		out(by.B && p.Reads() && e.Gated, 3, bufferB2, &p.B2, rowsB)
		d.rows = append(d.rows, -1) // a gap
		p.Pointers = len(d.rows)
		(*planner.Rows)(&d.rows).Pointers(to[0], to[1], to[2], to[3])
	}
	return moved
}

// moveGroups is move for the ragged batch of a job. Each group has its own A and B, or a copy, and its own C
// unless all share one.
func (j *epilogueJob) moveGroups(t *testing.T, d *epilogueData, e planner.Epilogue) planner.Ragged {
	t.Helper()
	r, by := j.ragged, e.Pointers
	if !by.Any() {
		return r
	}
	whole := planner.Problem{M: max(r.M, e.GatherRows), N: r.N, K: r.K, TransA: r.TransA, TransB: r.TransB}
	rowsA, _ := whole.ShapeA()
	rowsB, _ := whole.ShapeB()
	from, c := r, uint64(nowhere)
	if by.C && r.StrideC == 0 {
		m := j.moveOut(t, bufferC, r.C, max(r.M, e.ScatterRows), by.Aligned)
		c, r.C.Offset = m.address, m.offset
	}
	// All groups have one offset, so it is added to the address of the others.
	same := func(of int, m, first *planner.Matrix, g, stored int) uint64 {
		a := j.moveOut(t, of, *m, stored, by.Aligned)
		if g == 0 {
			first.Offset = a.offset
		}
		size := j.types()[of].Bytes()
		return a.address + uint64(size*a.offset) - uint64(size*first.Offset)
	}
	r.Pointers = len(d.rows)
	for g := range r.Groups {
		to := [4]uint64{nowhere, nowhere, c, nowhere}
		if by.A {
			to[0] = same(bufferA, &from.A, &r.A, g, rowsA)
		}
		if by.B {
			to[1] = same(bufferB, &from.B, &r.B, g, rowsB)
			from.B.Offset += r.StrideB
		}
		if by.C && from.StrideC > 0 {
			to[2] = same(bufferC, &from.C, &r.C, g, max(r.M, e.ScatterRows))
			from.C.Offset += from.StrideC
		}
		if by.B && e.Gated {
			to[3] = same(bufferB2, &from.B2, &r.B2, g, rowsB)
			from.B2.Offset += r.StrideB
		}
		(*planner.Rows)(&d.rows).Pointers(to[0], to[1], to[2], to[3])
	}
	if by.B {
		r.StrideB = 0
	}
	if by.C {
		r.StrideC = 0
	}
	return r
}
