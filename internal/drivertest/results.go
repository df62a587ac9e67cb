package drivertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// job is a batch prepared on the device with buffers.
type job struct {
	suite   *suite
	batch   planner.Batch
	lens    [3]int
	plan    *planner.Plan
	program driver.Program
	buffers [3]driver.Buffer
}

// prepare places and plans the batch for the device's facts, which edit may change, and prepares it.
func (s *suite) prepare(t *testing.T, b planner.Batch, how spacing, o planner.Options,
	edit func(*planner.Device)) *job {
	t.Helper()
	if s.lines {
		how = wide
		for i := range b {
			b[i].TransA, b[i].TransB = false, true
		}
	}
	j := &job{suite: s, batch: b}
	j.lens[0], j.lens[1], j.lens[2] = how.of(s.of).place(b)
	o.TypeA, o.TypeC = s.of, s.ofC
	facts := s.device.Info().Planner
	if edit != nil {
		edit(&facts)
	}
	if o.Tile != "" && s.of != element.F32 {
		o.Tile = s.instead(&facts, o.Tile)
	}
	var err error
	j.plan, err = planner.New(&facts).Plan(t.Context(), b, o)
	require.NoError(t, err)
	j.program, err = s.device.Prepare(context.Background(), j.plan)
	require.NoError(t, err)
	if !s.leave {
		t.Cleanup(func() { require.NoError(t, j.program.Close()) })
	}
	j.buffers = j.allocate(t)
	return j
}

func (j *job) allocate(t *testing.T) (buffers [3]driver.Buffer) {
	t.Helper()
	for i, of := range []element.Type{j.suite.of, j.suite.of, j.suite.ofC} {
		buffers[i] = j.suite.alloc(t, wordsOf(of, j.lens[i]))
	}
	return buffers
}

func (s *suite) alloc(t *testing.T, n int) driver.Buffer {
	t.Helper()
	b, err := s.device.Alloc(n)
	require.NoError(t, err)
	require.Equal(t, n, b.Len())
	if !s.leave {
		t.Cleanup(func() { require.NoError(t, b.Close()) })
	}
	return b
}

// run computes the operands on the job's buffers and returns the new C.
func (j *job) run(t *testing.T, o operands) []float32 {
	t.Helper()
	c, err := j.suite.compute(j.program, j.buffers, o)
	require.NoError(t, err)
	return c
}

// compute is computeRun of a program on buffers.
func (s *suite) compute(p driver.Program, buffers [3]driver.Buffer, o operands) ([]float32, error) {
	return s.computeRun(driver.Run{Program: p, A: buffers[0], B: buffers[1], C: buffers[2]}, o)
}

// computeRun writes the operands, does the run and reads C. It fails if A or B changed.
func (s *suite) computeRun(run driver.Run, o operands) ([]float32, error) {
	ctx := context.Background()
	buffers := [...]driver.Buffer{run.A, run.B, run.C}
	words := [...][]float32{backend.ToWords(s.of, o.a), backend.ToWords(s.of, o.b),
		backend.ToWords(s.ofC, o.c)}
	for i, src := range words {
		if err := buffers[i].Write(ctx, 0, src); err != nil {
			return nil, err
		}
	}
	if err := s.submit(run); err != nil {
		return nil, err
	}
	for i, src := range words[:2] {
		now := make([]float32, len(src))
		if err := buffers[i].Read(ctx, 0, now); err != nil {
			return nil, err
		}
		if !sameBits(src, now) {
			return nil, fmt.Errorf("%c was changed by a run", 'A'+i)
		}
	}
	c := make([]float32, len(words[2]))
	err := buffers[2].Read(ctx, 0, c)
	return backend.FromWords(s.ofC, c, len(o.c)), err
}

// check runs the job with uniform values and with integers, and verifies the results.
func (j *job) check(t *testing.T, seed uint64) {
	t.Helper()
	o := j.suite.typed(fill(j.batch, j.lens, uniform(seed)))
	_, err := reference.CheckIn(j.arithmetic(), j.batch, o.a, o.b, o.c, j.run(t, o))
	require.NoError(t, err, j)
	o = j.suite.typed(fill(j.batch, j.lens, j.suite.integers(seed)))
	require.NoError(t, reference.CheckRounded(j.suite.ofC, j.batch, o.a, o.b, o.c, j.run(t, o)), j)
}

// String lists the launches, for messages.
func (j *job) String() string {
	var s strings.Builder
	for i, l := range j.plan.Launches {
		fmt.Fprintf(&s, "launch %d: %+v, workers [%d, %d)\n", i, l.Kernel, l.First, l.First+l.Count)
	}
	return s.String()
}

// arithmetic returns how the device computes in the plan's compute mode.
func (j *job) arithmetic() reference.Arithmetic {
	return reference.Arithmetic{Compute: j.plan.Options.Compute,
		FlushesSubnormals: j.suite.device.Info().FlushesSubnormals,
		NarrowSums:        reference.NarrowSums(j.plan), TypeC: j.suite.ofC}
}

// some reports whether a launch of the plan has the property.
func (j *job) some(property func(encoding.Launch) bool) bool {
	return slices.ContainsFunc(j.plan.Launches, property)
}

func isSplit(l encoding.Launch) bool      { return l.Split }
func sumsPartials(l encoding.Launch) bool { return l.Fixup || l.Finishes > 0 }
func isLoop(l encoding.Launch) bool       { return l.Loop }
