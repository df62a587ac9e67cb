package dispatch

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/fakedriver"
	"github.com/batchgemm/batchgemm/internal/ratefile"
	"github.com/batchgemm/batchgemm/planner"
)

// TestMeasuredRates: a device plans by the rates that were measured on it, in every
// way that it makes plans.
func TestMeasuredRates(t *testing.T) {
	t.Setenv(BackendEnv, "")
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
	require.Nil(t, info.Planner.Rates)

	const fast = planner.TileID(3) // by these rates no other tile is worth a thought
	rates := &planner.Rates{}
	for i := range rates.Tiles {
		rates.Tiles[i] = planner.Rate{Efficiency: 1e-4}
	}
	rates.Tiles[fast].Efficiency = 1
	file, err := ratefile.Create(&info)
	require.NoError(t, err)
	require.NoError(t, file.Save(rates, time.Now()))

	first, second := openOne(), openOne()
	require.Equal(t, rates, first.Info().Planner.Rates)
	batch, err := planner.Pack(planner.GEMM(100, 100, 100))
	require.NoError(t, err)
	plan, err := first.Plan(batch, planner.Options{})
	require.NoError(t, err)
	require.Equal(t, fast, plan.Choice[0])
	program, err := second.Prepare(t.Context(), plan)
	require.NoError(t, err, "a device opened twice is the same")
	require.NoError(t, program.Close())

	a, b, c := make([]float32, 10000), make([]float32, 10000), make([]float32, 10000)
	require.NoError(t, second.GEMM(t.Context(), batch, planner.Options{}, a, b, c))
	require.Equal(t, fast, f.Last().Plan.Load().Choice[0])

	group, err := OpenAll(t.Context(), WithDriver(f))
	require.NoError(t, err)
	defer func() { require.NoError(t, group.Close()) }()
	require.Same(t, first.Info().Planner.Rates, group.Devices()[0].Info().Planner.Rates)

	// The caller's stream comes later, when the file may be another.
	shared, err := Open(t.Context(), WithDriver(sharingDriver{f}))
	require.NoError(t, err)
	defer shared.Close()
	require.NoError(t, os.WriteFile(file.Path, []byte("damaged"), 0o600))
	stream, err := shared.OnStream(7)
	require.NoError(t, err)
	defer stream.Close()
	require.Same(t, shared.Info().Planner.Rates, stream.Info().Planner.Rates)
	require.Nil(t, openOne().Info().Planner.Rates, "a damaged file does not serve, and does not stop")
}
