package drivertest

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// testEpilogueRecords runs various problems with an epilogue whose records are on the device.
func (s *suite) testEpilogueRecords(t *testing.T) {
	relu := all
	relu.Activation = planner.ReLU
	for i, c := range []struct {
		name           string
		e              planner.Epilogue
		transA, transB bool
		more           bool // only if kernels are made quickly, or elements are F32
	}{
		{name: "all", e: relu},
		{name: "all but a gate", e: planner.Epilogue{Activation: planner.ReLU, Bias: true, GatherRows: 80,
			ScatterRows: 100, Weights: true}, transB: true},
		{name: "bias", e: planner.Epilogue{Bias: true}, transA: true, more: true},
		{name: "scatter with weights", e: planner.Epilogue{ScatterRows: 90, Weights: true}, transA: true,
			transB: true, more: true},
		{name: "gated", e: planner.Epilogue{Gated: true, Bias: true}, transB: true, more: true},
	} {
		if c.more && s.slow() && s.of.Bytes() < 4 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			j := s.prepareRecords(t, recordProblems(c.transA, c.transB, c.e.Gated), s.scaled(c.e, i))
			j.checkSets(t)
			j.checkHostile(t)
		})
	}
	if s.of == 0 && !s.slow() {
		t.Run("many", func(t *testing.T) {
			e := planner.Epilogue{Bias: true, ScatterRows: 5, Weights: true}
			j := s.prepareRecords(t, irregular(newRand(12), planner.MaxGroups, 4, 6), e)
			j.checkRecords(t, j.all, -1)
		})
	}
}

// recordProblems returns problems of a transposition, of several tiles and of less than one, with and
// without products.
func recordProblems(transA, transB, gated bool) planner.Batch {
	b := planner.Batch{
		{M: 70, N: 45, K: 33, Beta: 1}, {M: 5, N: 7, K: 130}, {M: 33, N: 64, Beta: 1},
		{M: 1, N: 1, K: 1, Beta: -0.5},
		{M: 40, N: 21, K: 8, Alpha: planner.Scale(0)}, {M: 17, N: 90, K: 20, Alpha: planner.Scale(-0.5)},
		{M: 31, N: 33, K: 17, Beta: 1},
	}
	for i := range b {
		if b[i].TransA, b[i].TransB = transA, transB; gated {
			b[i].Beta = 0
		}
	}
	return b
}

// recordsJob is a ragged program of records with an epilogue, and the contents of its buffers for some
// problems.
type recordsJob struct {
	*epilogueJob
	d      epilogueData
	placed planner.Batch // as in the buffers
	moved  planner.Batch // as in records: the same, or with addresses
	all    []int         // their indices
}

// prepareRecords places problems of one transposition, which records describe to a program.
func (s *suite) prepareRecords(t *testing.T, b planner.Batch, e planner.Epilogue) *recordsJob {
	t.Helper()
	rng := newRand(uint64(len(fmt.Sprint(e))))
	for i := range b {
		b[i].TransA, b[i].TransB = b[0].TransA, b[0].TransB
	}
	j := &recordsJob{epilogueJob: &epilogueJob{suite: s}, placed: b, d: s.placeEpilogue(b, e, rng, few(rng))}
	n := &j.d.numbers
	for _, of := range []int{bufferA, bufferB, bufferB2, bufferBias} { // where changed records may lead
		for i, x := range n[of] {
			if math.IsNaN(float64(x)) {
				few(rng)(n[of][i : i+1])
			}
		}
	}
	j.moved = j.move(t, b, &j.d, e)
	r := planner.Ragged{Form: planner.Records, Groups: len(b), TransA: b[0].TransA, TransB: b[0].TransB,
		LenA: len(n[bufferA]) - guard,
		LenB: len(n[bufferB]) - guard, LenC: len(n[bufferC]) - guard, LenB2: len(n[bufferB2]) - guard,
		LenBias: len(n[bufferBias]) - guard, LenRows: len(j.d.rows)}
	for i := range b {
		r.M, r.N, r.K = r.M+b[i].M, max(r.N, b[i].N), max(r.K, b[i].K)
		j.all = append(j.all, i)
	}
	j.d.rows = append(j.d.rows, make([]int32, guard)...) // indices of rows that must not be found
	j.prepare(t, r, e)
	j.allocate(t, &j.d)
	return j
}

// words returns the records of some problems, by index. -1 is a group without rows.
func (j *recordsJob) words(t *testing.T, set []int) []int32 {
	t.Helper()
	var b planner.Batch
	for _, i := range set {
		if i < 0 {
			b = append(b, planner.Problem{})
		} else {
			b = append(b, j.moved[i])
		}
	}
	words, err := planner.AppendRecords(nil, b, j.plan.Options)
	require.NoError(t, err)
	return words
}

// checkRecords runs records of some problems. The first refused one is known.
func (j *recordsJob) checkRecords(t *testing.T, set []int, refused int) {
	t.Helper()
	j.batch = nil
	for g, i := range set {
		if i >= 0 && (refused < 0 || g < refused) {
			j.batch = append(j.batch, j.placed[i])
		}
	}
	j.runRecords(t, j.words(t, set), refused, true)
}

// runRecords runs records that describe the job's batch. exact: they share no elements of C.
func (j *recordsJob) runRecords(t *testing.T, words []int32, refused int, exact bool) {
	t.Helper()
	ctx := context.Background()
	require.NoError(t, j.sizes.Write(ctx, 0, backend.Words(words)))
	if exact {
		j.check(t, &j.d, true)
	} else {
		c, err := j.run(&j.d)
		require.NoError(t, err)
		for at, n := range j.writers(len(c)) {
			require.True(t, n > 0 || sameBits(j.d.numbers[bufferC][at:at+1], c[at:at+1]),
				"element %d of C was written", at)
		}
	}
	group, err := j.program.Status(ctx)
	require.NoError(t, err)
	require.Equal(t, refused, group)
}

// writers counts the rows that are stored to each element of C.
func (j *recordsJob) writers(length int) []int {
	n, e := make([]int, length), &j.plan.Options.Epilogue
	for i := range j.batch {
		p := &j.batch[i]
		for row := range p.M {
			to := row
			if e.ScatterRows > 0 {
				if to = int(j.d.rows[p.RowsC+row]); to < 0 || to >= e.ScatterRows {
					continue
				}
			}
			for col := range p.N {
				n[p.C.Offset+to*p.C.LD+col]++
			}
		}
	}
	return n
}

// checkSets runs all problems, some of them, another order, and too many rows.
func (j *recordsJob) checkSets(t *testing.T) {
	t.Helper()
	none, back := make([]int, len(j.all)), make([]int, len(j.all))
	for i := range none {
		none[i], back[len(back)-1-i] = -1, i
	}
	j.checkRecords(t, j.all, -1)
	j.checkRecords(t, none, -1)
	j.checkRecords(t, back, -1)
	j.checkRecords(t, []int{-1, 0, -1, 6, 2, -1, -1}, -1)
	// 70 rows too many: the first of these replaces the one of 48
	twice := append([]int{0, 1, 2, 3, 4}, 0, 0)
	j.checkRecords(t, twice, 5)
}

// checkHostile changes words of a record that belong to an epilogue. Words that lead beyond the buffers are
// refused; others may lead anywhere within them.
func (j *recordsJob) checkHostile(t *testing.T) {
	t.Helper()
	const g = 5
	q, r, e := &j.placed[g], j.plan.Ragged, j.plan.Options.Epilogue
	rowsB, colsB := q.ShapeB()
	for word, values := range map[encoding.RecordWord][]int{
		encoding.RecordOffB2: {q.B2.Offset + 1, r.LenB2 - end(q.B2, rowsB, colsB),
			r.LenB2 - end(q.B2, rowsB, colsB) + 1},
		encoding.RecordLDB2: {colsB - 1, colsB, math.MaxInt32},
		encoding.RecordBias: {q.Bias + 1, r.LenBias - 2*q.N, r.LenBias - 2*q.N + 1, r.LenBias - q.N,
			r.LenBias - q.N + 1},
		encoding.RecordRowsA:   {q.RowsA - 1, r.LenRows - q.M, r.LenRows - q.M + 1},
		encoding.RecordRowsC:   {q.RowsC - 1, r.LenRows - q.M, r.LenRows - q.M + 1},
		encoding.RecordWeights: {r.LenRows - q.M + 1}, // other words are inexact weights
		encoding.RecordBeta:    {0x3f800000},
		encoding.RecordScaleA:  {q.ScaleA, r.LenRows - e.ScalesA(q) + 1}, // like weights
		encoding.RecordScaleB:  {q.ScaleB, r.LenRows - e.ScalesB(q) + 1},
	} {
		each := j.plan.ExtentSizes / r.Groups
		if int(word) >= each || j.of == element.F64 && word >= encoding.RecordLow {
			continue
		}
		for _, value := range append(values, -1, math.MinInt32) {
			// -0 changes nothing, other values read a C of NaN
			if word == encoding.RecordBeta && value != math.MinInt32 && !e.Gated {
				continue
			}
			words := j.words(t, j.all)
			words[g*each+int(word)] = int32(uint32(value))
			var refused int
			j.batch, refused = r.Batch(nil, words, j.plan.Options)
			kept := j.batch[:0]
			for _, p := range j.batch {
				if p.M > 0 && p.N > 0 {
					kept = append(kept, p)
				}
			}
			j.batch = kept
			j.runRecords(t, words, refused, !j.overlap())
		}
	}
}

// overlap reports whether rows of the batch are stored to the same elements.
func (j *recordsJob) overlap() bool {
	for _, n := range j.writers(len(j.d.numbers[bufferC])) {
		if n > 1 {
			return true
		}
	}
	return false
}
