package dispatch

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/fakedriver"
	"github.com/batchgemm/batchgemm/internal/ownrates"
	"github.com/batchgemm/batchgemm/internal/ratefile"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
)

// TestMeasuredRates: all plans of a device use the rates that were measured on it.
func TestMeasuredRates(t *testing.T) {
	t.Setenv(backendEnv, "")
	t.Setenv(ratefile.DirEnv, t.TempDir())
	f := fakedriver.New(t)
	openOne := func() *Device {
		d, err := Open(t.Context(), WithDriver(f))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		return d
	}
	plain := openOne()
	info := plain.Info()
	require.False(t, ownrates.Has(&info.Planner))

	tuned := ownrates.Without(&info.Planner)
	for i := range tuned.Kernels {
		tuned.Kernels[i].Rate = tile.Rate{Efficiency: 1e-4}
	}
	fast := &tuned.Kernels[3] // with these rates, no other tile can win
	fast.Rate.Efficiency = 1
	file, err := ratefile.Create(&info)
	require.NoError(t, err)
	require.NoError(t, file.Save(tuned, time.Now()))

	first, second := openOne(), openOne()
	require.Equal(t, *tuned, first.Info().Planner)
	batch, err := planner.Pack(planner.GEMM(100, 100, 100))
	require.NoError(t, err)
	plan, err := first.Plan(t.Context(), batch, planner.Options{})
	require.NoError(t, err)
	require.Same(t, fast.Tile, plan.Tiles[0])
	program, err := second.Prepare(t.Context(), plan)
	require.NoError(t, err, "a device opened twice is the same")
	require.NoError(t, program.Close())

	a, b, c := make([]float32, 10000), make([]float32, 10000), make([]float32, 10000)
	require.NoError(t, gemmOf(t.Context(), second, batch, planner.Options{}, a, b, c))
	require.Same(t, fast.Tile, f.Last().Plan.Load().Tiles[0])

	group, err := OpenAll(t.Context(), WithDriver(f))
	require.NoError(t, err)
	defer func() { require.NoError(t, group.Close()) }()
	require.Equal(t, first.Info().Planner, group.Devices()[0].Info().Planner)

	// The caller's stream comes later, when the file may have changed.
	shared, err := Open(t.Context(), WithDriver(sharingDriver{f}))
	require.NoError(t, err)
	defer shared.Close()
	require.NoError(t, os.WriteFile(file.Path, []byte("damaged"), 0o600))
	stream, err := shared.OnStream(7)
	require.NoError(t, err)
	defer stream.Close()
	require.Equal(t, shared.Info().Planner, stream.Info().Planner)
	info = openOne().Info()
	require.False(t, ownrates.Has(&info.Planner), "a damaged file does not serve, and does not stop")
}
