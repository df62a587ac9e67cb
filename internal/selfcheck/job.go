package selfcheck

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// session holds the batches of a check, and what must be closed after it.
type session struct {
	device driver.Device
	jobs   []job
	runs   []driver.Run
	opened []interface{ Close() error }
}

func (s *session) close() {
	for _, x := range slices.Backward(s.opened) {
		_ = x.Close() // no other call knows of it
	}
}

// job is a batch, with operands as they were before its run.
type job struct {
	plan    *planner.Plan
	batch   planner.Batch
	how     reference.Arithmetic
	a, b, c []float32
}

const (
	// guard is how many elements lie after the last matrix of a buffer.
	guard = 64
	// canary lies around C. All types of C have it, and no result reaches it.
	canary = -24576
	// most bounds values. Results are whole numbers, or halves, and all types have them or round them once.
	most = 4
)

// operands are empty. Offsets and leading dimensions are multiples of a unit.
func operands(of element.Type, unit int) *reference.Operands {
	rng := rand.New(rand.NewPCG(1, uint64(unit)))
	o := &reference.Operands{Unit: unit, Gap: float32(math.NaN()), Canary: canary, Rand: rng,
		Values: func(x []float32) { reference.Integers(rng, x, most) }}
	if elemtype.Whole(of) {
		o.Gap = 100 // there is no NaN
	}
	return o
}

// problems has whole tiles, edges on both sides, little work, and a long K.
func (c *Case) problems() planner.Batch {
	t, unit := c.Tile(), max(c.Options.Epilogue.ScaleB.UnitK(), 1)
	depth := func(k int) int { return (k + unit - 1) / unit * unit }
	b := planner.Batch{
		{M: t.TM + 3, N: t.TN + 5, K: depth(2*t.TK + 3)},
		{M: t.TM, N: t.TN, K: depth(t.TK)},
		{M: 3, N: 2, K: depth(5), Alpha: planner.Scale(-2)},
		{M: t.TM - 1, N: t.TN - 3, K: depth(7*t.TK + 1), Alpha: planner.Scale(0.5), Beta: 1},
	}
	for i := range b {
		p := &b[i]
		p.TransA, p.TransB = c.Transposition.A, c.Transposition.B
		if c.Options.Epilogue.Gated {
			p.Beta = 0
		}
	}
	return b
}

// add adds a run of the problems.
func (s *session) add(ctx context.Context, p *planner.Planner, c *Case, d dealing, unit int) error {
	o := c.options(d)
	x, batch := operands(o.TypeA, unit), c.problems()
	for i := range batch {
		x.Add(&batch[i], &o.Epilogue)
	}
	plan, err := p.Plan(ctx, batch, o)
	if err != nil {
		return err
	}
	x.E.Epilogue = o.Epilogue
	return s.prepare(ctx, plan, batch, x, nil)
}

// addRagged adds a run whose sizes are on the device: groups of some rows, of none, and of few.
func (s *session) addRagged(ctx context.Context, p *planner.Planner, c *Case) error {
	o, t := c.options(dealing{}), c.Tile()
	o.Custom = nil
	rows, n, k := []int{t.TM + 3, 0, 5}, t.TN+2, 2*t.TK+1
	whole := planner.Problem{M: t.TM + 8, N: n, K: k, TransA: c.Transposition.A, TransB: c.Transposition.B}
	x := operands(o.TypeA, 1)
	x.Add(&whole, &o.Epilogue)
	r := planner.Ragged{Form: planner.EndsOfRows, Groups: len(rows), M: whole.M, N: n, K: k,
		TransA: whole.TransA, TransB: whole.TransB, A: whole.A, B: whole.B, C: whole.C}
	heightB, _ := whole.ShapeB()
	r.StrideB = heightB * whole.B.LD
	var batch planner.Batch
	var ends []int32
	for i, at := 0, 0; i < len(rows); i++ {
		q := whole
		q.M, q.B.Offset, q.C.Offset = rows[i], whole.B.Offset+i*r.StrideB, whole.C.Offset+at*whole.C.LD
		q.A.Offset += at * whole.A.LD
		if q.TransA {
			q.A.Offset = whole.A.Offset + at
		}
		batch, at = append(batch, q), at+rows[i]
		ends = append(ends, int32(at))
	}
	more := make([]float32, (len(rows)-1)*r.StrideB)
	x.Values(more)
	x.B = append(x.B, more...)
	plan, err := p.PlanRagged(r, o)
	if err != nil {
		return err
	}
	return s.prepare(ctx, plan, batch, x, backend.Words(ends))
}

// prepare adds a run of a plan on operands.
func (s *session) prepare(ctx context.Context, plan *planner.Plan, b planner.Batch, x *reference.Operands,
	sizes []float32) error {
	o := &plan.Options
	beyond := func(numbers []float32, with float32) []float32 {
		return append(numbers, slices.Repeat([]float32{with}, guard)...)
	}
	x.C = beyond(x.C, canary)
	s.jobs = append(s.jobs, job{plan: plan, batch: b, a: x.A, b: x.B, c: x.C,
		how: reference.Arithmetic{Compute: o.Compute, TypeC: o.TypeC, Epilogue: x.E,
			FlushesSubnormals: s.device.Info().FlushesSubnormals, NarrowSums: reference.NarrowSums(plan)}})
	program, err := s.device.Prepare(ctx, plan)
	if err != nil {
		return err
	}
	s.opened = append(s.opened, program)
	run := driver.Run{Program: program}
	wordsB, wordsB2 := packed(x.PackedB, plan.ExtentB), packed(x.PackedB2, plan.ExtentB2)
	if !elemtype.Bits4(o.TypeB) {
		wordsB = backend.ToWords(o.TypeA, beyond(x.B, x.Gap))
		wordsB2 = backend.ToWords(o.TypeA, beyond(x.E.B2, x.Gap))
	}
	for _, operand := range []struct {
		to    *driver.Buffer
		words []float32
		taken bool
	}{
		{&run.A, backend.ToWords(o.TypeA, beyond(x.A, x.Gap)), true},
		{&run.B, wordsB, true},
		{&run.C, backend.ToWords(o.TypeC, x.C), true},
		{&run.B2, wordsB2, plan.ExtentB2 > 0},
		{&run.Bias, backend.ToWords(o.TypeC, beyond(x.E.Biases, 0)), plan.ExtentBias > 0},
		{&run.Rows, backend.Words(x.E.Rows), plan.ExtentRows > 0},
		{&run.Sizes, sizes, sizes != nil},
	} {
		if !operand.taken {
			continue
		}
		buffer, err := s.device.Alloc(len(operand.words))
		if err != nil {
			return err
		}
		s.opened = append(s.opened, buffer)
		if err := buffer.Write(ctx, 0, operand.words); err != nil {
			return err
		}
		*operand.to = buffer
	}
	s.runs = append(s.runs, run)
	return nil
}

// check reads C and compares it.
func (j *job) check(ctx context.Context, c driver.Buffer) error {
	words := make([]float32, c.Len())
	if err := c.Read(ctx, 0, words); err != nil {
		return err
	}
	after := backend.FromWords(j.how.TypeC, words, len(j.c))
	var err error
	if j.how.Epilogue.Epilogue == (planner.Epilogue{}) {
		err = reference.CheckExactIn(j.how, j.batch, j.a, j.b, j.c, after)
	} else {
		_, err = reference.CheckIn(j.how, j.batch, j.a, j.b, j.c, after)
	}
	if err == nil {
		return nil
	}
	var names []string
	for i := range j.plan.Launches {
		if name := j.plan.Launches[i].Kernel.String(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	o := &j.plan.Options
	return &Wrong{fmt.Sprintf("%s (%s)", strings.Join(names, ", "), elemtype.Show(o.TypeA, o.TypeB, o.TypeC)),
		err.Error()}
}

// packed returns words of 4-bit elements, and some after those that the last panel ends with.
func packed(words []uint32, elements int) []float32 {
	more := max(0, (element.Int4.Size(elements)+3)/4-len(words)) + guard
	return backend.Words(append(words, make([]uint32, more)...))
}
