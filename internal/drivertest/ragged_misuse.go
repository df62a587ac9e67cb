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
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner"
)

// testRaggedTogether has several runs of a program in one submission, each with its own sizes and results,
// and submits from two goroutines.
func (s *suite) testRaggedTogether(t *testing.T) {
	ctx := context.Background()
	for name, l := range wide.layouts(t, s.of, true, false, planner.Factor{}, 0) {
		t.Run(name, func(t *testing.T) {
			j := s.prepareRagged(t, l, planner.Options{})
			var batches []planner.Batch
			for _, sizes := range j.sets {
				b, _ := j.batch(sizes)
				batches = append(batches, b)
			}
			o := fill(slices.Concat(batches...), j.lens, integers(4))
			require.NoError(t, j.buffers[0].Write(ctx, 0, o.a))
			require.NoError(t, j.buffers[1].Write(ctx, 0, o.b))
			errs := make(chan error)
			var runs [2][]driver.Run
			for g := range runs {
				for i, sizes := range j.sets {
					run := j.onto(j.newSizes(t), s.alloc(t, j.lens[2]))
					require.NoError(t, run.Sizes.Write(ctx, 0, backend.Words(sizes)))
					require.NoError(t, run.C.Write(ctx, 0, fill(batches[i], j.lens, integers(4)).c))
					runs[g] = append(runs[g], run)
				}
			}
			for _, runs := range runs {
				go func() { errs <- s.device.Submit(ctx, runs) }()
			}
			for range runs {
				require.NoError(t, <-errs)
			}
			for _, runs := range runs {
				for i, run := range runs {
					c := make([]float32, j.lens[2])
					require.NoError(t, run.C.Read(ctx, 0, c))
					s.verify(t, batches[i], operands{o.a, o.b, fill(batches[i], j.lens, integers(4)).c}, c)
				}
			}
			timing, err := s.device.Time(ctx, runs[0])
			require.NoError(t, err)
			require.Positive(t, timing.Device)
		})
	}
}

// testRaggedHostile has ends that no host would write.
func (s *suite) testRaggedHostile(t *testing.T) {
	draws := 30
	if testing.Short() {
		draws = 5
	}
	for name, l := range narrow.layouts(t, s.of, false, true, planner.Factor{}, 0) {
		if name == "records" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			j, rng := s.prepareRagged(t, l, planner.Options{}), newRand(5)
			bound := max(j.M, j.K)
			change := func(g int, by int32) {
				sizes := slices.Clone(j.sets[0])
				sizes[g] = by
				j.check(t, sizes, uint64(g))
			}
			for _, g := range []int{0, 2, j.Groups - 1} {
				for _, by := range []int32{-1, math.MinInt32, math.MaxInt32, int32(bound) + 1, 1 << 30,
					j.sets[0][g] - int32(bound)/2} {
					change(g, by)
				}
			}
			for draw := range draws {
				sizes := randomEnds(rng, j.Groups, bound)
				switch draw % 3 {
				case 0: // all bits
					for g := range sizes {
						sizes[g] = int32(rng.Uint32())
					}
				case 1: // some near valid values
					sizes[rng.IntN(j.Groups)] = int32(rng.IntN(bound+20) - 10)
				case 2:
					rng.Shuffle(len(sizes), func(x, y int) { sizes[x], sizes[y] = sizes[y], sizes[x] })
				}
				j.check(t, sizes, uint64(draw))
			}
		})
	}
}

// testRaggedHostileRecords changes one word of records, or all. Records that reach beyond what is declared
// are refused; others may overlap.
func (s *suite) testRaggedHostileRecords(t *testing.T) {
	draws := 60
	if testing.Short() {
		draws = 10
	}
	for _, trans := range [][2]bool{{false, false}, {true, true}} {
		b := planner.Batch{{M: 20, N: 33, K: 17}, {M: 1, N: 1, K: 1, Beta: 1},
			{M: 40, N: 9, K: 30, Alpha: planner.Scale(-0.5)}, {M: 9, N: 40, K: 5, Beta: -0.5}}
		l := narrow.records(t, s.of, trans[0], trans[1], b)
		t.Run(fmt.Sprint(trans), func(t *testing.T) {
			j, rng := s.prepareRagged(t, l, planner.Options{}), newRand(6)
			scalar := func(w encoding.RecordWord) bool {
				return w == encoding.RecordAlpha || w == encoding.RecordBeta
			}
			for w := range encoding.RecordWord(encoding.RecordWords) {
				for _, by := range []uint32{0, 1, 0x7fffffff, 0x80000000, 0xffffffff} {
					if scalar(w) && by > 0 {
						continue // not exact
					}
					sizes := slices.Clone(j.sets[0])
					sizes[2*encoding.RecordWords+int(w)] = int32(by)
					j.check(t, sizes, uint64(w))
				}
				if scalar(w) {
					continue
				}
				for _, by := range []int32{-1, 1, 2, 7} {
					for _, g := range []int{0, 3} {
						sizes := slices.Clone(j.sets[0])
						sizes[g*encoding.RecordWords+int(w)] += by
						j.check(t, sizes, uint64(w))
					}
				}
			}
			for draw := range draws {
				j.check(t, j.draw(rng.IntN, draw%2 == 0), uint64(draw))
			}
		})
	}
	t.Run("unread", func(t *testing.T) { // operands that are not read may lie anywhere
		b := planner.Batch{{M: 20, N: 33, K: 17, Alpha: planner.Scale(0), Beta: -0.5},
			{M: 9, N: 5, K: 7, Beta: 1}, {M: 9, N: 5, K: 7}}
		j := s.prepareRagged(t, narrow.records(t, s.of, false, false, b), planner.Options{})
		sizes := j.sets[0]
		for _, w := range []encoding.RecordWord{encoding.RecordLDA, encoding.RecordLDB, encoding.RecordOffA,
			encoding.RecordOffB} {
			sizes[w] = -1
		}
		for w := range encoding.RecordAlpha {
			sizes[encoding.RecordWords+int(w)] = -1
		}
		sizes[encoding.RecordWords+int(encoding.RecordN)], sizes[encoding.RecordWords+int(encoding.RecordK)] =
			5, 7
		sizes[encoding.RecordWords+int(encoding.RecordM)] = 0
		_, refused := j.batch(sizes)
		require.Equal(t, -1, refused)
		j.check(t, sizes, 1)
	})
	t.Run("too many rows", func(t *testing.T) {
		l := narrow.records(t, s.of, false, false, irregular(newRand(7), 9, 30, 20))
		l.M -= 25
		s.prepareRagged(t, l, planner.Options{}).checkAll(t)
	})
}

// draw makes records of random words: some near valid values, or one group of random bits.
func (j *raggedJob) draw(intN func(int) int, anything bool) []int32 {
	sizes := slices.Clone(j.sets[0])
	limits := [...]int{
		encoding.RecordM: j.M / 3, encoding.RecordN: j.N, encoding.RecordK: j.K,
		encoding.RecordLDA: 60, encoding.RecordLDB: 60, encoding.RecordLDC: 60,
		encoding.RecordOffA: j.LenA / 2, encoding.RecordOffB: j.LenB / 2, encoding.RecordOffC: j.LenC / 2,
	}
	hostile := intN(j.Groups)
	for g := range j.Groups {
		for w, limit := range limits {
			word := &sizes[g*encoding.RecordWords+w]
			switch {
			case anything && g == hostile:
				*word = int32(intN(math.MaxInt32)) * int32(1-2*intN(2))
			case intN(9) == 0:
				*word = int32(intN(limit + 1))
			}
		}
	}
	return sizes
}

// testRaggedStatus: Status returns the first group that was refused since the last call, and forgets it.
func (s *suite) testRaggedStatus(t *testing.T) {
	ctx := context.Background()
	for name, l := range narrow.layouts(t, s.of, false, false, planner.Factor{}, 0) {
		if name == "records" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			j := s.prepareRagged(t, l, planner.Options{})
			for _, x := range j.buffers { // so that tools do not report reads of uninitialised memory
				require.NoError(t, x.Write(ctx, 0, make([]float32, x.Len())))
			}
			require.Equal(t, -1, j.status(t), "before any run")
			queue := func(group int) {
				sizes := slices.Clone(j.sets[0])
				if group >= 0 {
					sizes[group] = -1
				}
				require.NoError(t, j.sizes.Write(ctx, 0, backend.Words(sizes)))
				require.NoError(t, s.device.Submit(ctx, []driver.Run{j.onto(j.sizes, j.buffers[2])}))
			}
			for _, c := range []struct {
				groups []int // refused by the runs, in order
				want   int
			}{{[]int{-1, 3, 1, -1}, 3}, {nil, -1}, {[]int{-1}, -1}, {[]int{0}, 0},
				{[]int{-1, -1, 5, 4, 5}, 5}, {nil, -1}} {
				for _, group := range c.groups {
					queue(group)
				}
				require.Equal(t, c.want, j.status(t), c)
			}
		})
	}
}

// testRaggedOrder: a run sees the sizes that the previous run wrote, also within one submission.
func (s *suite) testRaggedOrder(t *testing.T) {
	ctx := context.Background()
	j := s.prepareRagged(t, narrow.ends(planner.Ragged{Form: planner.EndsOfRows, Groups: 4, M: 40, N: 30,
		K: 20}), planner.Options{})
	one := s.prepare(t, planner.Batch{{M: 1, N: 1, K: 1}}, narrow, planner.Options{Tile: "small"}, nil)
	q := one.batch[0]
	q.C.Offset = 0
	plan, err := planner.New(one.plan.Device).Plan(ctx, planner.Batch{q}, planner.Options{Tile: "small"})
	require.NoError(t, err)
	program, err := s.device.Prepare(ctx, plan)
	require.NoError(t, err)
	defer func() { require.NoError(t, program.Close()) }()
	for _, buffer := range one.buffers[:2] {
		// 1 means far more rows than exist
		require.NoError(t, buffer.Write(ctx, 0, slices.Repeat([]float32{1}, buffer.Len())))
	}
	b, _ := j.batch(j.sets[0])
	o := fill(b, j.lens, integers(1))
	for round := range 4 { // the last ones use a graph
		for i, src := range [][]float32{o.a, o.b, o.c} {
			require.NoError(t, j.buffers[i].Write(ctx, 0, src))
		}
		require.NoError(t, j.sizes.Write(ctx, 0, backend.Words(j.sets[0])))
		write := driver.Run{Program: program, A: one.buffers[0], B: one.buffers[1], C: j.sizes}
		require.NoError(t, s.device.Submit(ctx, []driver.Run{write, j.onto(j.sizes, j.buffers[2])}))
		require.Equal(t, 0, j.status(t))
		c := make([]float32, j.lens[2])
		require.NoError(t, j.buffers[2].Read(ctx, 0, c))
		require.True(t, sameBits(o.c, c), "round %d", round)
	}
}

// testRaggedMisuse is testForeign and testCancelled for ragged programs.
func (s *suite) testRaggedMisuse(t *testing.T) {
	ctx := context.Background()
	device, err := s.driver.Open(ctx, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, device.Close()) }()
	other := &suite{driver: s.driver, device: device, leave: true}
	l := narrow.ends(planner.Ragged{Form: planner.EndsOfRows, Groups: 4, M: 40, N: 30, K: 20})
	j, foreign := s.prepareRagged(t, l, planner.Options{}), other.prepareRagged(t, l, planner.Options{})
	j.check(t, j.sets[0], 1)
	for name, sizes := range map[string]driver.Buffer{"no sizes": nil, "foreign sizes": foreign.sizes,
		"other sizes": struct{ driver.Buffer }{}} {
		good, bad := j.onto(j.sizes, j.buffers[2]), j.onto(sizes, j.buffers[2])
		require.ErrorIs(t, s.device.Submit(ctx, []driver.Run{good, bad}), invalid.Err, name)
		_, err := s.device.Time(ctx, []driver.Run{good, bad})
		require.ErrorIs(t, err, invalid.Err, name)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = j.program.Status(ended)
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.device.Prepare(ended, j.plan)
	require.ErrorIs(t, err, context.Canceled)
	j.check(t, j.sets[3], 2)
	plain := s.prepare(t, planner.Batch{{M: 2, N: 3, K: 4}}, narrow, planner.Options{Tile: "small"}, nil)
	group, err := plain.program.Status(ctx)
	require.NoError(t, err)
	require.Equal(t, -1, group, "not ragged")
	// Closed with queued work.
	require.NoError(t, foreign.sizes.Write(ctx, 0, backend.Words(foreign.sets[0])))
	run := foreign.onto(foreign.sizes, foreign.buffers[2])
	require.NoError(t, device.Submit(ctx, []driver.Run{run, run}))
	require.NoError(t, foreign.program.Close())
	require.NoError(t, foreign.sizes.Close())
}
