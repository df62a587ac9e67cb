package tune

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/ownrates"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/devices"
)

func known(t testing.TB, name string) *planner.Device {
	t.Helper()
	d, err := devices.Lookup(name)
	require.NoError(t, err)
	return d
}

func shape(t testing.TB, name string) *tile.Shape {
	t.Helper()
	s, err := tile.ByName(name)
	require.NoError(t, err)
	return s
}

// distort returns the device with kernels that differ from the shipped rates: each number is off by up to a
// factor, in either direction.
func distort(d *planner.Device, factor float64) *planner.Device {
	truth := ownrates.Without(d)
	for _, row := range Rows(d) {
		r := d.Rate(d.Kernel(row.Tile), row.Compute)
		h := fnv.New64a() // so that no row changes the others
		fmt.Fprint(h, row.Tile.Name, row.Compute)
		rng := rand.New(rand.NewPCG(2, h.Sum64()))
		off := func() float64 { return math.Pow(factor, 2*rng.Float64()-1) }
		most := row.Tile.MaxEfficiency(row.Compute == planner.ComputeTF32, d.PeakGuessed)
		*truth.Kernel(row.Tile).Measured(row.Compute) = tile.Rate{
			Efficiency: min(r.Efficiency*off(), most),
			Step:       r.Step * off(), Fixed: (r.Fixed + 0.1) * off(), Worker: r.Worker * off(),
		}
	}
	return truth
}

// observe times all cases on a device that runs exactly at its rates, except noise: the standard deviation
// of the times' logarithms.
func observe(t testing.TB, truth *planner.Device, rng *rand.Rand, noise float64) []Observation {
	t.Helper()
	cases, err := Cases(truth)
	require.NoError(t, err)
	var all []Observation
	for i := range cases {
		for _, row := range Rows(truth) {
			for _, s := range row.Schedules() {
				o := Observation{Row: row, Case: &cases[i], Schedule: s}
				o.Micros = o.predict(truth) * math.Exp(noise*rng.NormFloat64())
				all = append(all, o)
			}
		}
	}
	return all
}

// meanRegret returns the geometric mean of the choices' times over the best, less 1.
func meanRegret(d *planner.Device, all []Observation) float64 {
	sum, choices := 0.0, Choices(d, planner.ComputeF32, all)
	for _, c := range choices {
		sum += math.Log(c.Chosen / c.Best)
	}
	return math.Exp(sum/float64(len(choices))) - 1
}

// TestFit: the fit finds the rates of the device, wherever the shipped ones are.
func TestFit(t *testing.T) {
	for _, tc := range []struct {
		name, device string
		factor       float64 // between the device's rates and the shipped ones
		noise        float64
		rms, rate    float64 // allowed errors: of the model, and of the efficiencies
		regret       float64 // allowed
	}{
		{"as shipped", "h200", 1, 0, 5e-3, 1e-3, 0},
		{"without noise", "h200", 2.5, 0, 5e-3, 1e-3, 0},
		{"CUDA", "h200", 2.5, 0.02, 0.03, 0.05, 0.02},
		{"WebGPU", "webgpu-default", 6, 0.02, 0.03, 0.05, 0.02},
		{"AMD", "mi210", 2.5, 0.02, 0.03, 0.05, 0.02},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if testing.Short() && tc.name != "AMD" {
				t.Skip("a fit takes seconds, and ten times as long with the race detector")
			}
			if tc.name != "AMD" { // has the fewest kernels
				sample.Planner.Skip(t, 12)
			}
			rng := rand.New(rand.NewPCG(7, 0))
			d := known(t, tc.device)
			truth := distort(d, tc.factor)
			all := observe(t, truth, rng, tc.noise)
			rows, err := Fit(d, all)
			require.NoError(t, err)
			require.Len(t, rows, len(Rows(d)))
			for _, r := range rows {
				name, want := r.Tile.Name, truth.Rate(truth.Kernel(r.Tile), r.Compute)
				require.Less(t, r.RMS, tc.rms, name)
				rms, _ := deviation(truth, ofRow(r.Row, all))
				require.LessOrEqual(t, r.RMS, rms+tc.rms/6, name)
				if r.Tile.Unit != tile.WGMMA { // each unit has one of these workers: its steps are the unit's
					require.InEpsilon(t, want.Efficiency, r.Rate.Efficiency, tc.rate, name)
				}
				require.GreaterOrEqual(t, min(r.Rate.Step, r.Rate.Fixed, r.Rate.Worker), 0.0, name)
			}
			require.LessOrEqual(t, meanRegret(Tuned(d, rows), all), tc.regret)
			if tc.factor > 1 {
				require.Greater(t, meanRegret(d, all), 0.1, "else this shows nothing")
			}
		})
	}
}

// TestFitBounds: times that no kernel can have end at the bound.
func TestFitBounds(t *testing.T) {
	d := known(t, "h200")
	rng := rand.New(rand.NewPCG(1, 0))
	all := observe(t, d, rng, 0)
	large := shape(t, "large")
	var own []Observation
	for _, o := range all {
		if o.Tile == large {
			o.Micros /= 100
			own = append(own, o)
		}
	}
	rows, err := Fit(d, own)
	require.NoError(t, err)
	require.Len(t, rows, 1, "what was not observed is left out")
	require.LessOrEqual(t, rows[0].Rate.Efficiency, large.MaxEfficiency(false, d.PeakGuessed))
	require.Greater(t, rows[0].Rate.Efficiency, 1.1)
	tuned := Tuned(d, rows)
	require.Equal(t, rows[0].Rate, tuned.Kernel(large).Rate)
	require.Zero(t, tuned.Kernel(shape(t, "medium")).Rate)
	require.False(t, ownrates.Has(d))
}

func TestRounded(t *testing.T) {
	u := units{limit: 1.2}
	got := u.rounded(tile.Rate{Efficiency: 0.123456, Step: 12345.6, Fixed: 3e-18, Worker: 0.00123456})
	require.InDelta(t, 0.1235, got.Efficiency, 1e-12)
	require.InDelta(t, 12350, got.Step, 1e-6)
	require.Zero(t, got.Fixed)
	require.InDelta(t, 0.001235, got.Worker, 1e-12)
	u.limit = 1.2 - 1e-9
	require.Equal(t, u.limit, u.rounded(tile.Rate{Efficiency: u.limit}).Efficiency)
}

func TestWeight(t *testing.T) {
	a, b := &Case{}, &Case{}
	plain, tensor := shape(t, "small"), shape(t, "tensor-64x64")
	const f32, tf32, emulated = planner.ComputeF32, planner.ComputeTF32, planner.ComputeF32Emulated
	all := []Observation{
		{Case: a, Row: Row{plain, f32}, Micros: 4},
		{Case: a, Row: Row{tensor, emulated}, Micros: 2},
		{Case: a, Row: Row{tensor, tf32}, Micros: 1},
		{Case: b, Row: Row{tensor, tf32}, Micros: 4},
		{Case: b, Row: Row{plain, f32}, Micros: 2},
	}
	for i, want := range []float64{1.02, 1.02, 1.02, 1.0/64 + 0.02, 1.02} {
		require.InDelta(t, want, weight(&all[i], all), 1e-12, "observation %d", i)
	}
}

// TestChoices: the choice is by prediction, the comparison by time.
func TestChoices(t *testing.T) {
	d := known(t, "h200")
	batch, err := planner.Pack(planner.GEMM(512, 512, 512))
	require.NoError(t, err)
	k := &Case{Batch: batch}
	small := Row{shape(t, "small"), planner.ComputeF32}
	large := Row{shape(t, "large-8x8"), planner.ComputeF32}
	tensor := Row{shape(t, "tensor-64x64"), planner.ComputeTF32}
	all := []Observation{
		{Case: k, Row: large, Schedule: planner.ScheduleDataParallel, Micros: 30},
		{Case: k, Row: small, Schedule: planner.ScheduleDataParallel, Micros: 20},
		{Case: k, Row: tensor, Schedule: planner.ScheduleDataParallel, Micros: 10},
	}
	fast, slow := tile.Rate{Efficiency: 1}, tile.Rate{Efficiency: 0.01}
	for _, tc := range []struct {
		name         string
		small, large tile.Rate
		want         float64
	}{{"the faster one", fast, slow, 20}, {"the slower one", slow, fast, 30}} {
		t.Run(tc.name, func(t *testing.T) {
			facts := Tuned(d, []Fitted{{Row: small, Rate: tc.small}, {Row: large, Rate: tc.large}})
			got := Choices(facts, planner.ComputeF32, all)
			require.Len(t, got, 1)
			require.Equal(t, [2]float64{tc.want, 20}, [2]float64{got[0].Chosen, got[0].Best})
			got = Choices(facts, planner.ComputeTF32, all)
			require.Equal(t, 10.0, got[0].Best, "rows of all units compete")
		})
	}
}
