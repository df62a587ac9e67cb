package planner

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
)

// Shares count the start and store of a tile as the steps that they take as long as, so tiles of one step do
// not make a share long. Partials are long enough to pay, and shares as even as that allows.
func TestStreamKShares(t *testing.T) {
	d := device(t, "h200")
	rng, few := rand.New(rand.NewPCG(1, 1)), make([]Problem, 12)
	for i := range few {
		few[i] = GEMM(8+rng.IntN(505), 8+rng.IntN(505), 1+rng.IntN(2048))
	}
	for _, c := range []struct {
		name     string
		problems []Problem
	}{
		{"few", few},
		{"depths apart", []Problem{GEMM(512, 512, 4096), GEMM(2048, 2048, 20), GEMM(2048, 1024, 1)}},
		{"equal", []Problem{GEMM(1120, 1120, 2872)}},
		{"one tile", []Problem{GEMM(64, 64, 8192)}},
		{"short", []Problem{GEMM(2304, 264, 60)}},
	} {
		for _, tile := range []string{"wgmma-128x64", "wgmma-64x64-deep", "wgmma-64x128"} {
			t.Run(c.name+"/"+tile, func(t *testing.T) {
				p, err := New(d).Plan(t.Context(), mustPack(t, c.problems...),
					Options{Tile: tile, Schedule: ScheduleStreamK})
				require.NoError(t, err)
				checkPlan(t, p)
				var m model
				m.derive(d, arithmetic{compute: ComputeF32Emulated}, false)
				id, err := m.named(tile)
				require.NoError(t, err)
				start, least := m.streamUnits(id)
				require.Greater(t, start, 1)
				require.Equal(t, minPartialSteps, least)

				sum, most, workers := 0, 0, len(p.Workers)-1
				for w := range workers {
					share := 0
					for _, s := range p.Segments[p.Workers[w]:p.Workers[w+1]] {
						n := max(ceilDiv(int(s.K1-s.K0), shape(t, tile).TK), 1)
						require.True(t, n >= least || s.Slot == encoding.NoSlot, "a part of %d steps", n)
						share += start + n
					}
					require.Positive(t, share)
					sum += share
					most = max(most, share)
				}
				require.LessOrEqual(t, workers, m.tiles[id].resident)
				require.LessOrEqual(t, most, ceilDiv(sum, workers)+2*(least-1), "shares are even")
			})
		}
	}
}
