package drivertest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// step is a batch to which a program is updated, with what its run needs.
type step struct {
	batch   planner.Batch
	lens    [3]int
	options planner.Options
	facts   func(*planner.Device)
	renew   bool // the device makes the items, if it can
	operands
	buffers [3]driver.Buffer
}

// updates returns batches from empty to many problems, and plans with and without a workspace.
func (s *suite) updates(t *testing.T) (steps []*step) {
	rng := newRand(11)
	random := func(n, limit int) (b planner.Batch) {
		for i := range n {
			b = append(b, planner.Problem{M: 1 + rng.IntN(limit), N: 1 + rng.IntN(limit), K: rng.IntN(limit),
				TransA: i%2 == 1, TransB: i%3 == 1, Alpha: planner.Scale(float64(i%4) - 1),
				Beta: float64(i % 3)})
		}
		return b
	}
	alike := func(trans int, b planner.Batch) planner.Batch { // with one transposition
		for i := range b {
			b[i].TransA, b[i].TransB = trans&2 != 0, trans&1 != 0
		}
		return b
	}
	facts := s.device.Info().Planner
	small := planner.Options{Tile: s.instead(&facts, "small")}
	cut := planner.Options{Tile: small.Tile, Schedule: split.Schedule}
	many := func(m int) planner.Batch { return planner.Batch{{M: m, N: 650, K: 3}, {M: 90, N: 40, K: 50}} }
	all := []step{
		{batch: random(7, 60)},
		{batch: alike(0, random(30, 70)), renew: true},
		{batch: splitBatch(), options: cut, facts: manyUnits},
		{},
		{batch: random(300, 40)},
		{batch: alike(1, random(300, 40)), renew: true},
		{batch: planner.Batch{{M: 20, N: 20, Beta: 1}, {N: 3, K: 3}}, renew: true},
		{batch: alike(2, random(1100, 12)), renew: true},
		{batch: random(1, 9)},
		{batch: append(splitBatch(), splitBatch()...), options: cut, facts: manyUnits},
		{batch: planner.Batch{{M: 20, N: 20}, {N: 3, K: 3}}},
		{batch: random(40, 90)},
		// Few problems of many tiles, and many of few, which reuse each other's memory.
		{batch: many(700), options: small, renew: true},
		{batch: many(700), options: small, renew: true},
		{batch: alike(0, random(60, 9)), options: small, renew: true},
		{batch: alike(0, random(60, 9)), options: small, renew: true},
		{batch: many(600), options: small, renew: true},
		{batch: random(40, 90), renew: true},
	}
	// some have dynamic tiles, which each run deals anew
	for _, name := range s.tensorTiles() {
		b := alike(0, random(9, 400))
		for i := range b {
			b[i].K %= 100 // tiles count, not steps
		}
		all = append(all, step{batch: b, options: planner.Options{Tile: name}, renew: true})
	}
	for _, c := range all {
		c.lens[0], c.lens[1], c.lens[2] = narrow.place(c.batch)
		c.options.TypeA, c.options.TypeC = s.of, s.ofC
		if c.options.Tile == "" {
			c.options.Tile = s.tile()
		}
		c.operands = s.typed(fill(c.batch, c.lens, s.integers(uint64(len(steps)))))
		for i, src := range [][]float32{backend.ToWords(s.of, c.a), backend.ToWords(s.of, c.b),
			backend.ToWords(s.ofC, c.c)} {
			c.buffers[i] = s.alloc(t, len(src))
			require.NoError(t, c.buffers[i].Write(context.Background(), 0, src))
		}
		steps = append(steps, &c)
	}
	return steps
}

func (s *suite) replan(t *testing.T, plan *planner.Plan, c *step) {
	t.Helper()
	facts := s.device.Info().Planner
	if c.facts != nil {
		c.facts(&facts)
	}
	if c.renew {
		facts.LaunchMicros = min(facts.LaunchMicros, 1) // even if a CPU emulates the device
		require.NoError(t, planner.New(&facts).Renew(t.Context(), plan, c.batch, c.options))
		mixed := slices.ContainsFunc(c.batch, func(q planner.Problem) bool {
			return q.TransA != c.batch[0].TransA || q.TransB != c.batch[0].TransB
		})
		require.Equal(t, facts.KernelKind != encoding.KernelsCPU && !mixed, len(plan.Records) > 0)
		return
	}
	require.NoError(t, planner.New(&facts).Replan(t.Context(), plan, c.batch, c.options))
}

// testUpdateOn updates a program to one batch after another, which run with the same buffers.
func (s *suite) testUpdateOn(t *testing.T, program driver.Program, plan *planner.Plan, steps []*step) {
	t.Helper()
	var on [3]driver.Buffer
	for i := range on {
		n := 0
		for _, c := range steps {
			n = max(n, wordsOf([...]element.Type{s.of, s.of, s.ofC}[i], c.lens[i]))
		}
		on[i] = s.alloc(t, n)
	}
	for i, c := range steps {
		s.replan(t, plan, c)
		require.NoError(t, program.Update(context.Background(), plan))
		got, err := s.compute(program, on, c.operands)
		require.NoError(t, err)
		require.NoError(t, reference.CheckRounded(s.ofC, c.batch, c.a, c.b, c.c, got),
			"batch %d on the buffers of all", i)
	}
}

// testUpdate queues runs of one program and updates it between them, without a wait: each run computes the
// batch before it.
func (s *suite) testUpdate(t *testing.T) {
	ctx := context.Background()
	steps := s.updates(t)
	var plan planner.Plan // for all updates: drivers do not keep it
	s.replan(t, &plan, steps[0])
	program, err := s.device.Prepare(ctx, &plan)
	require.NoError(t, err)
	defer func() { require.NoError(t, program.Close()) }()
	for round, times := range []int{1, 3} { // the last often enough to make a graph
		for i, c := range steps {
			if round+i > 0 {
				s.replan(t, &plan, c)
				require.NoError(t, program.Update(ctx, &plan))
			}
			run := driver.Run{Program: program, A: c.buffers[0], B: c.buffers[1], C: c.buffers[2]}
			require.ErrorIs(t, s.device.Submit(ctx, []driver.Run{run, {Program: program}}), invalid.Err,
				"none of them is queued")
			for n := range times {
				if n > 0 { // it may wait for the run before
					require.NoError(t, c.buffers[2].Write(ctx, 0, backend.ToWords(s.ofC, c.c)))
				}
				require.NoError(t, s.device.Submit(ctx, []driver.Run{run}))
			}
		}
		for i, c := range steps {
			got := make([]float32, wordsOf(s.ofC, len(c.c)))
			require.NoError(t, c.buffers[2].Read(ctx, 0, got))
			got = backend.FromWords(s.ofC, got, len(c.c))
			require.NoError(t, reference.CheckRounded(s.ofC, c.batch, c.a, c.b, c.c, got),
				fmt.Sprintf("round %d, batch %d", round, i))
			require.NoError(t, c.buffers[2].Write(ctx, 0, backend.ToWords(s.ofC, c.c)))
		}
	}
	s.testUpdateOn(t, program, &plan, steps)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	s.replan(t, &plan, steps[0])
	require.ErrorIs(t, program.Update(ended, &plan), context.Canceled)
	last := steps[len(steps)-1]
	c, err := s.compute(program, last.buffers, last.operands)
	require.NoError(t, err)
	require.NoError(t, reference.CheckRounded(s.ofC, last.batch, last.a, last.b, last.c, c),
		"an update that failed changes nothing")
}
