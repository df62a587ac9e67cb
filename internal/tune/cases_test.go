package tune

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/devices"
)

func TestCases(t *testing.T) {
	for _, name := range devices.Names() {
		t.Run(name, func(t *testing.T) {
			d := known(t, name)
			all, err := Cases(d)
			require.NoError(t, err)
			require.GreaterOrEqual(t, len(all), 12)
			require.LessOrEqual(t, len(all), 16)
			names := map[string]bool{}
			for _, c := range all {
				require.False(t, names[c.Name], c.Name)
				names[c.Name] = true
				need := c.Batch.Lengths(planner.Epilogue{})
				require.NoError(t, c.Batch.Check(t.Context(), planner.Epilogue{}, need))
				require.LessOrEqual(t, c.Batch.FLOPs()/(d.TFLOPS*1e6), longestCase, c.Name)
				if d.MaxBinding > 0 {
					longest := 4 * max(need.A, need.B, need.C)
					require.LessOrEqual(t, longest, d.MaxBinding, "windows are not in the model")
				}
			}
			again, err := Cases(d)
			require.NoError(t, err)
			require.Equal(t, all, again)
		})
	}
}

// TestCasesOfFastDevices: a GPU gets the whole set, from tiny to full.
func TestCasesOfFastDevices(t *testing.T) {
	all, err := Cases(known(t, "h200"))
	require.NoError(t, err)
	require.Len(t, all, len(cases))
	require.Len(t, all[0].Batch, 8)
	require.Less(t, all[0].Batch.FLOPs(), 1e6)
	last := all[len(all)-1].Batch
	require.Len(t, last, 256)
	require.Greater(t, last.FLOPs(), 15e9)
}

func TestCasesTooSlow(t *testing.T) {
	_, err := Cases(&planner.Device{Name: "abacus", TFLOPS: 1e-12})
	require.EqualError(t, err, "device abacus is too slow, or too small, for a product of 16 x 16 x 16")
}

// TestRows: tiles of tensor cores have a rate in each of their modes.
func TestRows(t *testing.T) {
	plain, tensor := 0, 0
	for _, s := range tile.Table() {
		switch {
		case s.Unit == tile.FMA:
			plain++
		case s.Unit.Tensor() && !s.NarrowOnly:
			tensor++
		}
	}
	require.Len(t, Rows(known(t, "h200")), plain+2*tensor)
	require.Len(t, Rows(known(t, "h200-webgpu")), plain)
	small := known(t, "webgpu-default")
	small.GroupShared = 4 << 10
	for _, row := range Rows(small) {
		require.LessOrEqual(t, row.Tile.StepBytes(), small.GroupShared)
	}
	require.Less(t, len(Rows(small)), plain)
}
