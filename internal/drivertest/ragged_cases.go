package drivertest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/planner"
)

// testRagged runs programs with sizes on the device.
func (s *suite) testRagged(t *testing.T) {
	t.Run("Forms", s.testRaggedForms)
	t.Run("Scalars", s.testRaggedScalars)
	t.Run("Rest", s.testRaggedRest)
	t.Run("Extent", s.testRaggedExtent)
	t.Run("Mean", s.testRaggedMean)
	t.Run("Invariant", s.testRaggedInvariant)
	t.Run("Tiles", s.testRaggedTiles)
	t.Run("Many", s.testRaggedMany)
	t.Run("Changing", s.testRaggedChanging)
	t.Run("Together", s.testRaggedTogether)
	t.Run("Hostile", s.testRaggedHostile)
	t.Run("HostileRecords", s.testRaggedHostileRecords)
	t.Run("Status", s.testRaggedStatus)
	t.Run("Order", s.testRaggedOrder)
	t.Run("Misuse", s.testRaggedMisuse)
}

// testRaggedForms runs each form in all transpositions.
func (s *suite) testRaggedForms(t *testing.T) {
	for i, trans := range transpositions {
		for _, how := range []spacing{narrow, wide} {
			if testing.Short() && int(how) != i%2 {
				continue
			}
			beta := []float64{0, 1, -0.5}[(i+int(how))%3]
			for name, l := range how.of(s.of).layouts(t, s.of, trans[0], trans[1], planner.Factor{}, beta) {
				t.Run(fmt.Sprintf("%s/%v%v/%v", name, trans[0], trans[1], how), func(t *testing.T) {
					if i > 0 {
						s.sampled(t, 1)
					}
					s.prepareRagged(t, l, planner.Options{Tile: s.tile()}).checkAll(t)
				})
			}
		}
	}
}

// testRaggedScalars takes alpha and beta of all kinds. C is NaN if beta is 0.
func (s *suite) testRaggedScalars(t *testing.T) {
	var records planner.Batch
	for _, alpha := range []float64{1, -0.5, 0} {
		for _, beta := range []float64{0, 1, -0.5} {
			records = append(records,
				planner.Problem{M: 7, N: 20, K: 9, Alpha: planner.Scale(alpha), Beta: beta})
			for name, l := range narrow.layouts(t, s.of, false, false, planner.Scale(alpha), beta) {
				if name == "records" {
					continue
				}
				t.Run(fmt.Sprintf("%s/%v/%v", name, alpha, beta), func(t *testing.T) {
					j := s.prepareRagged(t, l, planner.Options{})
					j.check(t, j.sets[3], 1)
				})
			}
		}
	}
	for i := range records { // with and without products
		q := records[i]
		q.K = 0
		records = append(records, q)
	}
	t.Run("records", func(t *testing.T) {
		s.prepareRagged(t, narrow.records(t, s.of, false, false, records), planner.Options{}).checkAll(t)
	})
}

// testRaggedMean has groups of few rows, of many, and of both. The planner takes two tile shapes and each
// run chooses, or the planner is told the mean.
func (s *suite) testRaggedMean(t *testing.T) {
	const groups = 8
	facts := s.device.Info().Planner
	for form, lay := range map[string]func(share int) layout{
		"rows":    func(share int) layout { return wide.shares(groups, share) },
		"records": func(share int) layout { return wide.sharesOfRecords(t, groups, share) },
	} {
		var l layout
		for share := 8; share <= 512; share *= 2 {
			l = lay(share)
			plan, err := planner.New(&facts).PlanRagged(l.Ragged, planner.Options{})
			require.NoError(t, err)
			if n := products(plan); n != 1 { // otherwise the device chooses
				break
			}
		}
		for _, mean := range []int{0, 1, l.M / 2} {
			t.Run(fmt.Sprintf("%s/%d", form, mean), func(t *testing.T) {
				l.Mean.M = mean
				j := s.prepareRagged(t, l, planner.Options{})
				require.True(t, mean > 0 || products(j.plan) != 1, "no number of rows makes it two shapes")
				j.checkAll(t)
			})
		}
	}
}

// shares returns groups of few rows, of a share, and of both.
func (s spacing) shares(groups, share int) layout {
	l := s.ends(planner.Ragged{Form: planner.EndsOfRows, Groups: groups, M: groups * share, N: 130, K: 70})
	few, mixed := make([]int32, groups), make([]int32, groups)
	for g := range groups {
		few[g], mixed[g] = int32(g+1), int32(g+1)
		if g > groups/2 {
			mixed[g] = int32(l.M - groups + g)
		}
	}
	l.sets = [][]int32{few, mixed, l.sets[0], l.sets[2]}
	return l
}

func (s spacing) sharesOfRecords(t *testing.T, groups, share int) layout {
	few, mixed, many := make(planner.Batch, groups), make(planner.Batch, groups), make(planner.Batch, groups)
	for g := range groups {
		few[g], many[g] = planner.GEMM(1+g%3, 130, 70), planner.GEMM(share, 130, 70)
		mixed[g] = [...]planner.Problem{few[g], many[g]}[g%2]
	}
	return s.records(t, 0, false, false, few, mixed, many)
}

// products counts the launches that multiply.
func products(p *planner.Plan) (n int) {
	for _, l := range p.Launches {
		if l.Ragged == 0 {
			n++
		}
	}
	return n
}

// testRaggedTiles forces each tile shape.
func (s *suite) testRaggedTiles(t *testing.T) {
	facts := s.device.Info().Planner
	for i := range facts.Kernels {
		shape := facts.Kernels[i].Tile
		for _, compute := range []planner.Compute{planner.ComputeF32Emulated, planner.ComputeTF32} {
			if !facts.Fits(shape, planner.Options{Compute: compute}) || compute == planner.ComputeTF32 &&
				!shape.Unit.Tensor() {
				continue
			}
			trans := transpositions[i%4]
			l := spacing(i / 4 % 2).ends(planner.Ragged{Form: planner.EndsOfRows, Groups: 4,
				M: 3*shape.TM + 5, N: shape.TN + 3, K: 2*shape.TK + 1,
				TransA: trans[0], TransB: trans[1], Beta: -0.5})
			tm := int32(shape.TM)
			l.sets = [][]int32{{tm - 1, 2 * tm, 2 * tm, 3*tm + 1}}
			s.part(t, fmt.Sprintf("%s/%s", shape.Name, compute), func(t *testing.T) {
				s.prepareRagged(t, l, planner.Options{Tile: shape.Name, Compute: compute}).checkAll(t)
			})
		}
	}
}

// testRaggedHalfLines forces tiles for aligned rows on rows at multiples of 8 bytes, if they have kernels
// for such rows.
func (s *suite) testRaggedHalfLines(t *testing.T) {
	facts := s.device.Info().Planner
	for i := range facts.Kernels {
		shape := facts.Kernels[i].Tile
		own := s.alongK(shape)
		if !shape.NarrowOnly || !own.fits(&facts, shape) {
			continue
		}
		trans, how := transpositions[i%4], wide
		if own.lines {
			trans, how = [2]bool{false, true}, wideBytes
		}
		l := how.ends(planner.Ragged{Form: planner.EndsOfRows, Groups: 3, M: 2*shape.TM + 5, N: shape.TN + 4,
			K:      2 * shape.TK,
			TransA: trans[0], TransB: trans[1]})
		t.Run(shape.Name, func(t *testing.T) {
			own.prepareRagged(t, l, planner.Options{Tile: shape.Name}).checkAll(t)
		})
	}
}

// testRaggedMany has the largest number of groups.
func (s *suite) testRaggedMany(t *testing.T) {
	const groups = planner.MaxGroups
	one := make(planner.Batch, groups)
	one[groups-3] = planner.Problem{M: 70, N: 60, K: 50}
	for name, l := range map[string]layout{
		"rows": narrow.ends(planner.Ragged{Form: planner.EndsOfRows, Groups: groups, M: 6000, N: 8, K: 7,
			Rest: planner.RestZero}),
		"depth": narrow.ends(planner.Ragged{Form: planner.EndsOfDepth, Groups: groups, M: 5, N: 6,
			K: 9000, Beta: 1}),
		"records": narrow.records(t, s.of, false, false, irregular(newRand(2), groups, 9, 12), nil, one),
	} {
		s.part(t, name, func(t *testing.T) { s.prepareRagged(t, l, planner.Options{}).checkAll(t) })
	}
}

// testRaggedChanging queues runs of one program whose sizes change between them, without a wait, repeatedly
// on the same operands.
func (s *suite) testRaggedChanging(t *testing.T) {
	for name, l := range narrow.layouts(t, s.of, false, false, planner.Factor{}, 1) {
		t.Run(name, func(t *testing.T) {
			rounds := 5
			if name == "rows" && !testing.Short() {
				rounds = 20 // 5 sizes each
			}
			j, rng := s.prepareRagged(t, l, planner.Options{}), newRand(3)
			results := make([]driver.Buffer, len(j.sets))
			for i := range results {
				results[i] = s.alloc(t, j.lens[2])
			}
			for round := range rounds {
				switch j.Form {
				case planner.EndsOfRows:
					j.sets[round%len(j.sets)] = randomEnds(rng, j.Groups, j.M)
				case planner.EndsOfDepth:
					j.sets[round%len(j.sets)] = randomEnds(rng, j.Groups, j.K)
				}
				rng.Shuffle(len(j.sets), func(x, y int) { j.sets[x], j.sets[y] = j.sets[y], j.sets[x] })
				j.change(t, results, uint64(round))
			}
			require.Equal(t, -1, j.status(t))
		})
	}
}

// change queues a run for each of the sizes with the same A and B, and verifies all.
func (j *raggedJob) change(t *testing.T, results []driver.Buffer, seed uint64) {
	t.Helper()
	ctx := context.Background()
	batches := make([]planner.Batch, len(j.sets))
	for i, sizes := range j.sets {
		batches[i], _ = j.batch(sizes)
	}
	all := fill(slices.Concat(batches...), j.lens, integers(seed))
	require.NoError(t, j.buffers[0].Write(ctx, 0, all.a))
	require.NoError(t, j.buffers[1].Write(ctx, 0, all.b))
	before := make([]operands, len(j.sets))
	for i := range j.sets {
		before[i] = operands{all.a, all.b, fill(batches[i], j.lens, integers(seed)).c}
		require.NoError(t, results[i].Write(ctx, 0, before[i].c))
	}
	for i, sizes := range j.sets {
		require.NoError(t, j.sizes.Write(ctx, 0, backend.Words(sizes)))
		require.NoError(t, j.suite.device.Submit(ctx, []driver.Run{j.onto(j.sizes, results[i])}))
	}
	for i := range j.sets {
		c := make([]float32, j.lens[2])
		require.NoError(t, results[i].Read(ctx, 0, c))
		j.suite.verify(t, batches[i], before[i], c)
	}
}
