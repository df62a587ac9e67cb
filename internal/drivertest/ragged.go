package drivertest

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// layout is a ragged batch in buffers of some lengths, with guards after what it reaches, and sizes that
// fit.
type layout struct {
	planner.Ragged
	lens [3]int
	sets [][]int32
}

// raggedJob is a ragged program with buffers.
type raggedJob struct {
	layout
	suite   *suite
	plan    *planner.Plan
	program driver.Program
	buffers [3]driver.Buffer
	sizes   driver.Buffer
	extent  int // of its runs
}

var transpositions = [][2]bool{{false, false}, {false, true}, {true, false}, {true, true}}

// ends places a batch whose sizes are ends, and distributes its rows, or K.
func (s spacing) ends(r planner.Ragged) (l layout) {
	whole := planner.Batch{{M: r.M, N: r.N, K: r.K, TransA: r.TransA, TransB: r.TransB}}
	l.lens[0], l.lens[1], l.lens[2] = s.place(whole)
	r.A, r.B, r.C = whole[0].A, whole[0].B, whole[0].C
	step := s.step()
	total := r.M
	if r.Form == planner.EndsOfRows {
		r.StrideB = l.lens[1] - guard - r.B.Offset + step
		l.lens[1] += (r.Groups - 1) * r.StrideB
	} else {
		total = r.K
		r.StrideC = l.lens[2] - guard - r.C.Offset + step
		l.lens[2] += (r.Groups - 1) * r.StrideC
	}
	l.Ragged = r
	rng := newRand(uint64(r.Groups))
	even, none, one := make([]int32, r.Groups), make([]int32, r.Groups), make([]int32, r.Groups)
	for g := range even {
		even[g] = int32(total * (g + 1) / r.Groups)
		if g >= r.Groups/2 {
			one[g] = int32(total)
		}
	}
	l.sets = [][]int32{even, none, one, randomEnds(rng, r.Groups, total), randomEnds(rng, r.Groups, total/2)}
	return l
}

// randomEnds distributes at most total; some groups get nothing.
func randomEnds(rng *rand.Rand, groups, total int) []int32 {
	ends := make([]int32, groups)
	for g := range ends {
		ends[g] = int32(rng.IntN(total + 1))
		if g > 0 && rng.IntN(3) == 0 {
			ends[g] = ends[g-1]
		}
	}
	slices.Sort(ends)
	return ends
}

// records places a ragged batch that may be any of some batches.
func (s spacing) records(t *testing.T, of element.Type, transA, transB bool,
	batches ...planner.Batch) (l layout) {
	t.Helper()
	l.Ragged = planner.Ragged{Form: planner.Records, TransA: transA, TransB: transB}
	for _, b := range batches {
		l.Groups = max(l.Groups, len(b))
		rows := 0
		for i := range b {
			b[i].TransA, b[i].TransB = transA, transB
			rows += b[i].M
			l.N, l.K = max(l.N, b[i].N), max(l.K, b[i].K)
		}
		l.M = max(l.M, rows)
		lenA, lenB, lenC := s.place(b)
		l.lens = [3]int{max(l.lens[0], lenA), max(l.lens[1], lenB), max(l.lens[2], lenC)}
	}
	l.LenA, l.LenB, l.LenC = l.lens[0]-guard, l.lens[1]-guard, l.lens[2]-guard
	for _, b := range batches {
		words, err := planner.AppendRecords(nil, b, planner.Options{TypeA: of, TypeC: of})
		require.NoError(t, err)
		each := encoding.Epilogue{}.RecordWords(of)
		l.sets = append(l.sets, append(words, make([]int32, l.Groups*each-len(words))...))
	}
	return l
}

// anyRecords places records of batches from empty ones to one large problem.
func (s spacing) anyRecords(t *testing.T, of element.Type, transA, transB bool) layout {
	rng := newRand(1)
	return s.records(t, of, transA, transB, irregular(rng, 6, 60, 40), irregular(rng, 3, 90, 30), nil,
		planner.Batch{{}, {M: 150, N: 50, K: 40, Beta: 1}}, make(planner.Batch, 6))
}

// layouts returns ragged batches of each form, with a few groups.
func (s spacing) layouts(t *testing.T, of element.Type, transA, transB bool, alpha planner.Factor,
	beta float64) map[string]layout {
	common := planner.Ragged{Groups: 6, TransA: transA, TransB: transB, Alpha: alpha, Beta: beta}
	rows, depth := common, common
	rows.Form, rows.M, rows.N, rows.K = planner.EndsOfRows, 150, 50, 40
	depth.Form, depth.M, depth.N, depth.K = planner.EndsOfDepth, 40, 50, 150
	return map[string]layout{"rows": s.ends(rows), "depth": s.ends(depth),
		"records": s.anyRecords(t, of, transA, transB)}
}

// prepareRagged plans and prepares a ragged batch.
func (s *suite) prepareRagged(t *testing.T, l layout, o planner.Options) *raggedJob {
	t.Helper()
	j := &raggedJob{layout: l, suite: s}
	o.TypeA, o.TypeC = s.of, s.ofC
	facts := s.device.Info().Planner
	var err error
	j.plan, err = planner.New(&facts).PlanRagged(l.Ragged, o)
	require.NoError(t, err)
	j.program, err = s.device.Prepare(context.Background(), j.plan)
	require.NoError(t, err)
	if !s.leave {
		t.Cleanup(func() { require.NoError(t, j.program.Close()) })
	}
	for i, of := range []element.Type{s.of, s.of, s.ofC} {
		j.buffers[i] = s.alloc(t, wordsOf(of, j.lens[i]))
	}
	j.sizes = j.newSizes(t)
	return j
}

// newSizes returns a buffer of sizes, followed by words that are not sizes.
func (j *raggedJob) newSizes(t *testing.T) driver.Buffer {
	t.Helper()
	b := j.suite.alloc(t, j.plan.ExtentSizes+guard)
	require.NoError(t, b.Write(context.Background(), j.plan.ExtentSizes,
		backend.Words(slices.Repeat([]int32{1 << 20}, guard))))
	return b
}

// batch returns what a run computes, with operands cleared that are not read.
func (j *raggedJob) batch(sizes []int32) (b planner.Batch, refused int) {
	there := j.Within(j.extent)
	b, refused = there.Batch(nil, sizes, j.plan.Options)
	for i := range b {
		q := &b[i]
		if q.M == 0 || q.N == 0 {
			*q = planner.Problem{}
		} else if !q.Reads() {
			q.K, q.A, q.B = 0, planner.Matrix{}, planner.Matrix{}
		}
	}
	return b, refused
}

// onto returns a run of the program.
func (j *raggedJob) onto(sizes, c driver.Buffer) driver.Run {
	return driver.Run{Program: j.program, A: j.buffers[0], B: j.buffers[1], C: c, Sizes: sizes,
		Extent: j.extent}
}

// run computes the operands with the sizes.
func (j *raggedJob) run(t *testing.T, sizes []int32, o operands) []float32 {
	t.Helper()
	require.NoError(t, j.sizes.Write(context.Background(), 0, backend.Words(sizes)))
	c, err := j.suite.computeRun(j.onto(j.sizes, j.buffers[2]), o)
	require.NoError(t, err)
	return c
}

// check runs the program with sizes twice, and verifies C and what is refused.
func (j *raggedJob) check(t *testing.T, sizes []int32, seed uint64) {
	t.Helper()
	b, refused := j.batch(sizes)
	o := j.suite.typed(fill(b, j.lens, j.suite.integers(seed)))
	c := j.run(t, sizes, o)
	j.suite.verify(t, b, o, c)
	require.Equal(t, refused, j.status(t))
	if again := j.run(t, sizes, o); !overlapping(b, len(c)) {
		require.True(t, sameBits(c, again), "the same run gave different bits")
	}
	require.Equal(t, refused, j.status(t))
}

func (j *raggedJob) checkAll(t *testing.T) {
	t.Helper()
	for i, sizes := range j.sets {
		j.check(t, sizes, uint64(i))
	}
}

func (j *raggedJob) status(t *testing.T) int {
	t.Helper()
	group, err := j.program.Status(context.Background())
	require.NoError(t, err)
	return group
}

// verify checks C. Elements of several problems may have any value.
func (s *suite) verify(t *testing.T, b planner.Batch, o operands, c []float32) {
	t.Helper()
	if !overlapping(b, len(c)) {
		require.NoError(t, reference.CheckRounded(s.ofC, b, o.a, o.b, o.c, c))
		return
	}
	for at, n := range writers(b, len(c)) {
		require.True(t, n > 0 || sameBits(o.c[at:at+1], c[at:at+1]), "element %d of C was written", at)
	}
}

// writers counts the problems that write each element of C.
func writers(b planner.Batch, length int) []int {
	n := make([]int, length)
	for i := range b {
		for row := range b[i].M {
			for col := range b[i].N {
				n[b[i].C.Offset+row*b[i].C.LD+col]++
			}
		}
	}
	return n
}

func overlapping(b planner.Batch, length int) bool {
	return slices.ContainsFunc(writers(b, length), func(n int) bool { return n > 1 })
}
