package drivertest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
)

// interleaved is a caller's own schedule. It cuts long tiles into parts of three K steps and deals all parts
// backwards to five workers, round-robin. Later parts of a tile are computed before earlier ones, between
// whole tiles.
var interleaved = &planner.CustomSchedule{Name: "interleaved", Deal: func(w planner.Work) [][]planner.Part {
	var parts []planner.Part
	for _, t := range w.Tiles {
		for from := 0; from < t.Steps; from += 3 {
			parts = append(parts, planner.Part{Tile: t.Index, From: from, To: min(from+3, t.Steps)})
		}
	}
	workers := make([][]planner.Part, 5)
	for i := range parts {
		workers[i%5] = append(workers[i%5], parts[len(parts)-1-i])
	}
	return workers
}}

// testCustom runs a schedule that the planner does not know, with split tiles and several segments for each
// worker.
func (s *suite) testCustom(t *testing.T) {
	for _, name := range append(s.tensorTiles(), "small") {
		t.Run(name, func(t *testing.T) {
			shape, err := tile.ByName(name)
			require.NoError(t, err)
			rng := newRand(9)
			b := covering(rng, around(shape.TM), around(shape.TN), long(shape.TK), false, false)
			b = append(b, covering(rng, around(shape.TM), around(shape.TN), long(shape.TK), true, true)...)
			j := s.prepare(t, b, narrow, planner.Options{Tile: name, Custom: interleaved}, nil)
			require.True(t, j.some(func(l encoding.Launch) bool { return l.Split && l.Loop }), j)
			require.True(t, j.some(sumsPartials), j)
			for _, l := range j.plan.Launches {
				require.EqualValues(t, "interleaved", l.Schedule, j)
			}
			j.check(t, 9)
		})
	}
}
