package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/bench"
	"github.com/batchgemm/batchgemm/internal/drivertest"
	"github.com/batchgemm/batchgemm/internal/ratefile"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/internal/tune"
	"github.com/batchgemm/batchgemm/planner"
)

func TestTuneErrors(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"argument", []string{"tune", "x"}, exitUsage, `unknown command "x" for "batchgemm tune"`},
		{"repeat", []string{"tune", "--repeat", "0"}, exitUsage, `--repeat 0 is not in [1, 1000000]`},
		{"unknown backend", []string{"tune", "--backend", "x"}, exitUsage, `unknown backend "x"`},
		{"cpu", []string{"tune"}, exitFailure,
			`backend cpu has one kernel for all tiles, and no rates to measure`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := batchgemm(t, "", tc.args...)
			require.Empty(t, stdout)
			require.True(t, strings.HasPrefix(stderr, "batchgemm: "+tc.want), stderr)
			require.Equal(t, tc.code, code)
		})
	}
}

// oneCase is a set so small that the model fits it exactly.
func oneCase(*planner.Device) ([]tune.Case, error) {
	batch, err := planner.Pack(slices.Repeat([]planner.Problem{planner.GEMM(50, 60, 70)}, 8)...)
	return []tune.Case{{Name: "one", Batch: batch}}, err
}

// tuneOne runs tune with that case on the backend webgpu.
func tuneOne(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	root, _ := newRoot()
	full, _, err := root.Find([]string{"tune"})
	require.NoError(t, err)
	root.RemoveCommand(full)
	root.AddCommand(newTune(oneCase))
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs(append([]string{"tune", "--backend", "webgpu", "--repeat", "1"}, args...))
	err = root.ExecuteContext(t.Context())
	return out.String(), err
}

// TestTune: rates are measured, kept, reported and used.
func TestTune(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles all kernels")
	}
	sample.Command.Whole(t)
	open := func() (*dispatch.Device, error) {
		return dispatch.Open(t.Context(), dispatch.WithBackend("webgpu"))
	}
	device, err := open()
	if errors.Is(err, dispatch.ErrUnavailable) &&
		!strings.Contains(os.Getenv(drivertest.RequireEnv), "webgpu") {
		t.Skip(err)
	}
	require.NoError(t, err)
	info := device.Info()
	require.NoError(t, device.Close())
	rates := func() deviceListing {
		l := decode[listing](t, "", "devices")
		return l.Backends[2].Devices[info.Index]
	}

	_, err = tuneOne(t)
	require.EqualError(t, err, "BATCHGEMM_CACHE turns files of measured rates off (--dry-run keeps nothing)")

	t.Setenv(ratefile.DirEnv, t.TempDir())
	stdout, err := tuneOne(t, "--dry-run")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^large-8x4 +f32 +\S+ +\S+ +\S+ +\S+ +\d+\.\d % +\S+ \S+ \S+ \S+$`, stdout)
	require.NotContains(t, stdout, "kept in")
	require.Equal(t, "shipped", rates().Rates)

	stdout, err = tuneOne(t, "--json")
	require.NoError(t, err)
	var r tuneReport
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.Len(t, r.Rows, len(tune.Rows(&info.Planner)))
	require.GreaterOrEqual(t, len(r.Times), len(r.Rows))
	require.Len(t, r.Regret, 1)
	require.InDelta(t, 1, r.Regret[0].Measured.GeoMean, 0.01, "one time of each tile is fitted exactly")
	require.FileExists(t, r.File)
	require.Equal(t, "measured", rates().Rates)

	device, err = open()
	require.NoError(t, err)
	facts := device.Info().Planner
	require.NoError(t, device.Close())
	for _, row := range r.Rows {
		shape, err := tile.ByName(row.Tile)
		require.NoError(t, err)
		want := row.Rate
		want.Rounds = shape.Rates.WGSL.Rounds // it is not measured
		require.Equal(t, want, facts.Rate(facts.Kernel(shape), row.Compute), row.Tile)
	}

	require.NoError(t, os.WriteFile(r.File, []byte("{"), 0o600))
	require.Equal(t, "shipped", rates().Rates)
	require.Equal(t, r.File+": damaged: unexpected end of JSON input", rates().RatesIgnored)
	require.Contains(t, succeed(t, "", "devices"),
		"\nwebgpu 0: measured rates are ignored, batchgemm tune makes new ones: "+r.File+": damaged")
}

// TestTuneReport: rates are kept unless they make choices worse, over all modes.
func TestTuneReport(t *testing.T) {
	regret := func(shipped, measured float64) tuneRegret {
		return tuneRegret{"f32", bench.Summary{GeoMean: shipped, Worst: 2, Case: "a"},
			bench.Summary{GeoMean: measured, Worst: 1.25, Case: "b"}}
	}
	const worse = "the planner chooses worse by the measured rates"
	for _, tc := range []struct {
		name   string
		regret []tuneRegret
		better bool
	}{
		{"better", []tuneRegret{regret(1.5, 1.03)}, true},
		{"as good", []tuneRegret{regret(1.5, 1.5)}, true},
		{"worse", []tuneRegret{regret(1.02, 1.5)}, false},
		{"better in the main", []tuneRegret{regret(1.5, 1), regret(1, 1.1)}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := &tuneReport{Device: "cuda 0: a GPU", Driver: "1", Regret: tc.regret,
				Rows: []tuneRow{{"small", "f32", tile.Rate{Efficiency: 0.5, Step: 1234.5, Worker: 0.25},
					0.0567, tile.Rate{Efficiency: 0.25}}}}
			require.Equal(t, tc.better, r.better())
			var out bytes.Buffer
			require.NoError(t, r.text(&out))
			require.Contains(t, out.String(),
				"small  f32      0.500       1234  0      0.250   5.7 %  0.250 0 0 0\n")
			require.Equal(t, !tc.better, strings.Contains(out.String(), worse))
			if tc.name == "better" {
				require.Contains(t, out.String(), "regret on these batches, f32: 50.0 % (at most 100 %, a) "+
					"by the shipped rates, 3.0 % (at most 25 %, b) by the measured ones\n")
			}
		})
	}
}
