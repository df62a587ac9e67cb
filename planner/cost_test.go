package planner

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPredict: the prediction is the cost of the plan, whatever the batch.
func TestPredict(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	batches := map[string]Batch{
		"none":   {},
		"empty":  randomBatch(t, rng, 5, 0, 0),
		"tiny":   randomBatch(t, rng, 200, 0, 9),
		"mixed":  randomBatch(t, rng, 60, 0, 300),
		"long K": mustPack(t, GEMM(64, 64, 8192), GEMM(33, 17, 4097)),
	}
	measured := *device(t, "h200")
	measured.Rates = &Rates{}
	*measured.Rates.Of(2, ComputeF32) = Rate{Efficiency: 0.01, Step: 40, Fixed: 50, Worker: 60}
	for _, d := range []*Device{device(t, "mi210"), device(t, "h200-webgpu"), device(t, "lavapipe"), &measured} {
		for name, b := range batches {
			for id := range tiles {
				if !d.Fits(TileID(id), ComputeTF32) {
					continue
				}
				for _, s := range append(Schedules(), ScheduleAuto) {
					p, err := New(d, b, Options{Tile: tiles[id].Name, Schedule: s, Compute: ComputeTF32})
					require.NoError(t, err)
					what := fmt.Sprintf("%s %s %s %s", d.Name, name, tiles[id].Name, s)
					got := d.Predict(b, TileID(id), s, ComputeTF32)
					if s == ScheduleStreamK && !p.sumsEverywhere() {
						require.GreaterOrEqual(t, got, p.Cost, what)
						continue
					}
					require.InDelta(t, p.Cost, got, 1e-9*p.Cost, what)
				}
			}
		}
	}
}

// sumsEverywhere reports whether each of the plan's kernels needs its fix-up.
func (p *Plan) sumsEverywhere() bool {
	fixups := 0
	for i := range p.Launches {
		if p.Launches[i].Fixup {
			fixups++
		}
	}
	return 2*fixups == len(p.Launches)
}

// TestRate: measured rates count where there are any, and the others as before.
func TestRate(t *testing.T) {
	d := *device(t, "h200")
	slow := d
	slow.TFLOPS /= 4
	shipped := nativeRates.Tiles[5]
	scaled := Rate{shipped.Efficiency, shipped.Step, 4 * shipped.Fixed, 4 * shipped.Worker}
	measured := Rate{Efficiency: 0.5, Step: 1, Worker: 2}
	near := func(want, got Rate) {
		t.Helper()
		require.InDelta(t, want.Efficiency, got.Efficiency, 1e-9)
		require.InDelta(t, want.Step, got.Step, 1e-9)
		require.InDelta(t, want.Fixed, got.Fixed, 1e-9)
		require.InDelta(t, want.Worker, got.Worker, 1e-3)
	}
	require.Positive(t, min(shipped.Step, shipped.Fixed, shipped.Worker))
	near(shipped, d.Rate(5, ComputeF32))
	near(scaled, slow.Rate(5, ComputeF32))
	fast := d
	fast.TFLOPS *= 2
	near(Rate{shipped.Efficiency, shipped.Step, shipped.Fixed, shipped.Worker / 2}, fast.Rate(5, ComputeF32)) // latencies stay
	slow.Rates = &Rates{}
	*slow.Rates.Of(2, ComputeTF32) = measured
	near(scaled, slow.Rate(5, ComputeF32))
	require.Equal(t, measured, slow.Rate(2, ComputeF32), "a tile without tensor cores has one rate")
}

func TestMaxEfficiency(t *testing.T) {
	for _, d := range KnownDevices() {
		for id := range tiles {
			for _, c := range d.Computes() {
				require.Less(t, d.Rate(TileID(id), c).Efficiency, d.MaxEfficiency(TileID(id), c), "%s %s", d.Name, tiles[id].Name)
			}
		}
	}
	require.Equal(t, 1.2, device(t, "h200").MaxEfficiency(0, ComputeTF32))
}

// TestMeasured: predictions are guesses where rates are neither of the device nor of
// compute units like those of the H200.
func TestMeasured(t *testing.T) {
	for _, d := range KnownDevices() {
		like := slices.Contains([]string{"h200", "h100", "h200-webgpu"}, d.Name)
		require.Equal(t, like, d.Measured(), d.Name)
		p, err := New(&d, mustPack(t, GEMM(20, 30, 40)), Options{})
		require.NoError(t, err)
		require.Equal(t, !like, p.Explain().Guess, d.Name)
		var text bytes.Buffer
		require.NoError(t, p.WriteText(&text))
		require.Equal(t, !like, strings.Contains(text.String(), " us (a guess, as no rates were measured), occupancy"), d.Name)
		d.Rates = d.shippedRates()
		require.True(t, d.Measured(), d.Name)
	}
}
