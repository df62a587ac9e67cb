package drivertest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/occupancy"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
)

// NewTile is a new row, not in the tile table.
var NewTile = &tile.Shape{Name: "new-2x4", TM: 16, TN: 64, TK: 16, Threads: 128, RM: 2, RN: 4,
	Rates: tile.Rates{
		WGSL:   tile.Rate{Efficiency: 0.3, Step: 0.4, Fixed: 1, Worker: 0.2},
		Native: tile.Rate{Efficiency: 0.3, Step: 0.5, Fixed: 0.1, Worker: 0.1},
		CPU:    tile.Rate{Efficiency: 0.3, Worker: 0.1},
	}}

// WithTile returns the device with kernels of one more tile shape.
func WithTile(d *planner.Device, s *tile.Shape) *planner.Device {
	own := *d
	own.Kernels = append(slices.Clone(d.Kernels),
		planner.KernelFacts{Tile: s, Resources: occupancy.Resources{Registers: 64,
			Shared: 2 * s.StepBytes()}})
	return &own
}

// testNewTile runs a tile that the table does not have: planner, kernels and backends know only its row.
// Kernels that are compiled in advance cannot run it.
func (s *suite) testNewTile(t *testing.T) {
	facts := s.device.Info().Planner
	if facts.KernelKind == encoding.KernelsNative {
		t.Skip("kernels are not made at run time")
	}
	more := WithTile(&facts, NewTile)
	s.testTile(t, more, more.Kernel(NewTile), 1)
	j := s.prepare(t, splitBatch(), narrow, planner.Options{}, func(d *planner.Device) {
		only := WithTile(d, NewTile)
		d.Kernels = only.Kernels[len(only.Kernels)-1:]
	})
	require.Equal(t, NewTile, j.plan.Tiles[0], "the planner chooses it where there is no other")
	j.check(t, 1)
}
