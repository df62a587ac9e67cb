package dispatch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// BenchmarkChoices compares the planner's choice with the best plan of one tile and schedule, among those
// predicted to take up to 1.7 times as long. It draws batches of many kinds and times them as nodes of a
// CUDA graph. It reports how many times as long the choice takes: geometric mean, least and most. Run it
// once, -benchtime 1x; -short takes a few batches of each kind.
func BenchmarkChoices(b *testing.B) {
	x := newShapes(b)
	draws := 40
	if testing.Short() {
		draws = 4
	}
	for _, c := range []struct {
		name  string
		o     planner.Options
		round int // sizes are rounded up to multiples
	}{
		{"f32", planner.Options{}, 1},
		{"plain", planner.Options{Compute: planner.ComputeF32}, 1},
		{"tf32", planner.Options{Compute: planner.ComputeTF32}, 1},
		{"bf16", planner.Options{TypeA: element.BF16, TypeC: element.BF16}, 1},
		{"bf16, rounded", planner.Options{TypeA: element.BF16, TypeC: element.BF16}, 8},
	} {
		up := func(n int) int { return (n + c.round - 1) / c.round * c.round }
		for _, kind := range benchmarkedKinds {
			b.Run(c.name+"/"+kind.name, func(b *testing.B) {
				for b.Loop() {
					var found shapeRatios
					rng := rand.New(rand.NewPCG(uint64(draws), 1))
					for draw := range draws {
						problems := kind.draw(rng)
						for i, q := range problems {
							problems[i] = planner.GEMM(up(q.M), up(q.N), up(q.K))
						}
						batch, err := planner.Pack(problems...)
						require.NoError(b, err)
						found.add(x.regret(b, batch, c.o), fmt.Sprint("draw ", draw))
					}
					found.report(b, "regret")
				}
			})
		}
	}
}

// regret returns the time of the planner's choice over that of the best plan.
func (x *shapes) regret(b *testing.B, batch planner.Batch, o planner.Options) float64 {
	auto, err := x.device.Plan(b.Context(), batch, o)
	require.NoError(b, err)
	chosen, _ := x.planned(b, auto)
	best := chosen
	for i := range auto.Device.Kernels {
		for _, o.Schedule = range planner.Schedules() {
			o.Tile = auto.Device.Kernels[i].Tile.Name
			p, err := x.device.Plan(b.Context(), batch, o)
			if err != nil || p.Cost > 1.7*auto.Cost { // the tile does not have the type, or cannot win
				continue
			}
			us, _ := x.planned(b, p)
			best = min(best, us)
		}
	}
	return chosen / best
}

// benchmarkedKinds draw batches.
var benchmarkedKinds = []struct {
	name string
	draw func(rng *rand.Rand) []planner.Problem
}{
	{"single", func(rng *rand.Rand) []planner.Problem {
		return []planner.Problem{planner.GEMM(drawSide(rng, 32, 3000), drawSide(rng, 32, 3000),
			drawSide(rng, 64, 4096))}
	}},
	{"few", func(rng *rand.Rand) []planner.Problem {
		return drawProblems(rng, 2+rng.IntN(14), 8, 512, 2048)
	}},
	{"many", func(rng *rand.Rand) []planner.Problem {
		return drawProblems(rng, 16+rng.IntN(200), 16, 300, 600)
	}},
	{"tall", func(rng *rand.Rand) []planner.Problem {
		all := drawProblems(rng, 4+rng.IntN(60), 40, 6000, 64)
		for i := range all {
			all[i].N, all[i].K = 64, 64
		}
		return all
	}},
	{"few rows", func(rng *rand.Rand) []planner.Problem {
		all := drawProblems(rng, 4+rng.IntN(60), 64, 1024, 1024)
		for i := range all {
			all[i].M = 1 + all[i].M%4
		}
		return all
	}},
	{"tiny", func(rng *rand.Rand) []planner.Problem {
		return drawProblems(rng, 64+rng.IntN(1000), 1, 32, 32)
	}},
	{"one giant", func(rng *rand.Rand) []planner.Problem {
		return append(drawProblems(rng, 4+rng.IntN(60), 16, 128, 128), planner.GEMM(1024, 1024, 1024))
	}},
	{"equal", func(rng *rand.Rand) []planner.Problem {
		return slices.Repeat(drawProblems(rng, 1, 64, 384, 384), 4+rng.IntN(60))
	}},
}

// drawProblems draws n problems with rows and columns from least to most, and K up to depth.
func drawProblems(rng *rand.Rand, n, least, most, depth int) []planner.Problem {
	all := make([]planner.Problem, n)
	for i := range all {
		all[i] = planner.GEMM(least+rng.IntN(most-least+1), least+rng.IntN(most-least+1), 1+rng.IntN(depth))
	}
	return all
}
