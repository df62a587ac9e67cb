package drivertest

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// unit is the unit of offsets of slices, in words.
const unit = backend.SliceBytes / 4

// testStartRead starts reads at every alignment, several at once and one long read, before other elements
// are written. They return the old content.
func (s *suite) testStartRead(t *testing.T) {
	ctx := context.Background()
	for _, n := range []int{1, 5, 1023, 70001, 3 << 20} {
		b := s.alloc(t, n)
		want := make([]float32, n)
		uniform(uint64(n))(want)
		require.NoError(t, b.Write(ctx, 0, want))
		var reads []driver.Reading
		got := make([][]float32, min(n, 5))
		for i := range got {
			got[i] = make([]float32, n-i)
			r, err := b.StartRead(ctx, i, got[i])
			require.NoError(t, err)
			reads = append(reads, r)
		}
		require.NoError(t, b.Write(ctx, 0, make([]float32, n)))
		ended, cancel := context.WithCancel(ctx)
		cancel()
		given, err := b.StartRead(ctx, 0, make([]float32, n))
		require.NoError(t, err)
		require.ErrorIs(t, given.Finish(ended), context.Canceled)
		for i, r := range slices.Backward(reads) { // in any order, on any goroutine
			done := make(chan error)
			go func() { done <- r.Finish(ctx) }()
			require.NoError(t, <-done)
			require.True(t, sameBits(want[i:], got[i]), "%d elements, offset %d", n, i)
		}
	}
}

// adding returns a run that adds to C. C has the content of the operands, and the run has run once.
func (s *suite) adding(t *testing.T) (j *job, o operands, run driver.Run) {
	t.Helper()
	j = s.prepare(t, planner.Batch{{M: 120, N: 130, K: 140, Beta: 1}}, narrow, planner.Options{}, nil)
	o = fill(j.batch, j.lens, integers(1))
	j.run(t, o)
	require.NoError(t, j.buffers[2].Write(context.Background(), 0, o.c))
	run = driver.Run{Program: j.program, A: j.buffers[0], B: j.buffers[1], C: j.buffers[2]}
	return j, o, run
}

// testStartReadOrder starts a read between runs that add to C. It returns the result of those before it.
func (s *suite) testStartReadOrder(t *testing.T) {
	ctx := context.Background()
	j, o, run := s.adding(t)
	var reads []driver.Reading
	got := make([][]float32, 3)
	for i := range got {
		require.NoError(t, s.device.Submit(ctx, []driver.Run{run}))
		got[i] = make([]float32, len(o.c))
		r, err := j.buffers[2].StartRead(ctx, 0, got[i])
		require.NoError(t, err)
		reads = append(reads, r)
	}
	for i, r := range reads {
		require.NoError(t, r.Finish(ctx))
		j.batch[0].Alpha = planner.Scale(float64(i + 1))
		require.NoError(t, reference.CheckExact(j.batch, o.a, o.b, o.c, got[i]), "read %d", i)
	}
}

// testSlices runs with A and B in one buffer and C in another, in slices that start and end anywhere
// allowed. Elements beside C are unchanged.
func (s *suite) testSlices(t *testing.T) {
	types := append([]element.Type{element.F32}, s.device.Info().Planner.Types...)
	for _, of := range types {
		if elemtype.TypesC(of) == nil { // only for B
			continue
		}
		t.Run(of.String(), func(t *testing.T) {
			typed := *s
			typed.of, typed.ofC = of, elemtype.TypesC(of)[0]
			typed.runSlices(t)
		})
		if s.oneType != "" {
			return
		}
	}
}

func (s *suite) runSlices(t *testing.T) {
	ctx := context.Background()
	batch := planner.Batch{{M: 33, N: 35, K: 65, Beta: 1}, {M: 17, N: 16, K: 500, Beta: -0.5}}
	j := s.prepare(t, batch, narrow, planner.Options{}, nil)
	words := [3]int{wordsOf(s.of, j.lens[0]), wordsOf(s.of, j.lens[1]), wordsOf(s.ofC, j.lens[2])}
	atB := 2*unit + roundUp(words[0], unit)
	operands, results := s.alloc(t, atB+words[1]), s.alloc(t, unit+words[2]+3)
	canaries := slices.Repeat([]float32{canary}, results.Len())
	require.NoError(t, results.Write(ctx, 0, canaries))
	shifted := operands.Slice(unit, operands.Len()-unit)
	j.buffers = [3]driver.Buffer{shifted.Slice(unit, words[0]), operands.Slice(atB, words[1]),
		results.Slice(unit, words[2])}
	for i, b := range j.buffers {
		require.Equal(t, words[i], b.Len())
	}
	for seed := range uint64(2) { // the second time with objects made for the first
		j.run(t, s.typed(fill(j.batch, j.lens, uniform(seed))))
		j.check(t, 3+seed)
	}
	all := make([]float32, results.Len())
	require.NoError(t, results.Read(ctx, 0, all))
	require.True(t, sameBits(canaries[:unit], all[:unit]), "in front of C")
	require.True(t, sameBits(canaries[:3], all[unit+words[2]:]), "after C")

	part := make([]float32, 7)
	reading, err := j.buffers[2].StartRead(ctx, 5, part)
	require.NoError(t, err)
	require.NoError(t, reading.Finish(ctx))
	require.True(t, sameBits(all[unit+5:][:7], part))
	require.NoError(t, j.buffers[2].Write(ctx, 1, []float32{1, 2}))
	require.NoError(t, results.Read(ctx, unit, part[:4]))
	require.Equal(t, []float32{1, 2}, part[1:3])
	require.Zero(t, operands.Slice(operands.Len()/unit*unit, 0).Len())
}

// testCopy copies between buffers and slices of all lengths, in order with queued work.
func (s *suite) testCopy(t *testing.T) {
	ctx := context.Background()
	for _, n := range []int{1, 2, 3, 4, 5, 63, 1023, 70001} {
		src, dst := s.alloc(t, n), s.alloc(t, unit+n+2)
		want := make([]float32, n)
		uniform(uint64(n))(want)
		require.NoError(t, src.Write(ctx, 0, want))
		require.NoError(t, dst.Write(ctx, 0, slices.Repeat([]float32{canary}, dst.Len())))
		require.NoError(t, s.device.Copy(ctx, dst.Slice(unit, n), src, 4*n))
		require.NoError(t, src.Write(ctx, 0, make([]float32, n)), "after the copy")
		got := make([]float32, dst.Len())
		require.NoError(t, dst.Read(ctx, 0, got))
		require.True(t, sameBits(want, got[unit:][:n]), "%d elements", n)
		for _, x := range slices.Concat(got[:unit], got[unit+n:]) {
			require.Equal(t, math.Float32bits(canary), math.Float32bits(x),
				"%d elements: what lies beside them", n)
		}
		fresh := s.alloc(t, n)
		require.NoError(t, s.device.Copy(ctx, fresh, dst.Slice(unit, n), 4*n))
		require.NoError(t, fresh.Read(ctx, 0, got[:n]))
		require.True(t, sameBits(want, got[:n]), "%d elements, back", n)
	}
	// Three bytes more than a word: devices may copy the fourth.
	src, dst := s.alloc(t, 2), s.alloc(t, 2)
	require.NoError(t, src.Write(ctx, 0, []float32{1, 2}))
	require.NoError(t, s.device.Copy(ctx, dst, src, 6))
	got := make([]float32, 1)
	require.NoError(t, dst.Read(ctx, 0, got))
	require.Equal(t, []float32{1}, got)
}

// testCopyOrder copies C between runs that add to it.
func (s *suite) testCopyOrder(t *testing.T) {
	ctx := context.Background()
	j, o, run := s.adding(t)
	kept := s.alloc(t, len(o.c))
	require.NoError(t, s.device.Submit(ctx, []driver.Run{run, run}))
	require.NoError(t, s.device.Copy(ctx, kept, j.buffers[2], 4*len(o.c)))
	require.NoError(t, s.device.Submit(ctx, []driver.Run{run}))
	for i, b := range []driver.Buffer{kept, j.buffers[2]} {
		got := make([]float32, len(o.c))
		require.NoError(t, b.Read(ctx, 0, got))
		j.batch[0].Alpha = planner.Scale(float64(i + 2))
		require.NoError(t, reference.CheckExact(j.batch, o.a, o.b, o.c, got))
	}
}
