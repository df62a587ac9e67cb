package tune

import (
	"cmp"
	"fmt"
	"math"

	"gonum.org/v1/gonum/optimize"

	"github.com/batchgemm/batchgemm/planner"
)

// Row is a tile in a compute mode, which have a rate of their own.
type Row struct {
	Tile    planner.TileID
	Compute planner.Compute
}

// Schedules are those that the row's rate is fitted to: one tile a worker, or as
// the planner uses the tile, and tiles cut along K, which tells the latency of a
// step from the rate.
func (r Row) Schedules() []planner.Schedule {
	if r.Tile.Tile().Unit == planner.UnitWGMMA {
		return []planner.Schedule{planner.ScheduleLPT, planner.ScheduleSplitK}
	}
	return []planner.Schedule{planner.ScheduleDataParallel, planner.ScheduleSplitK}
}

// Rows lists what can be measured on a device. A tile without tensor cores has
// one rate in every mode.
func Rows(d *planner.Device) (rows []Row) {
	for id, tile := range planner.Tiles() {
		modes := []planner.Compute{planner.ComputeF32Emulated, planner.ComputeTF32}
		if tile.Unit == planner.UnitFMA {
			modes = []planner.Compute{planner.ComputeF32}
		}
		for _, c := range modes {
			if d.Fits(planner.TileID(id), c) {
				rows = append(rows, Row{planner.TileID(id), c})
			}
		}
	}
	return rows
}

// Observation is the measured time of a plan that takes one tile shape for a batch.
type Observation struct {
	Row
	Case     *Case
	Schedule planner.Schedule
	Micros   float64
}

func (o *Observation) predict(d *planner.Device) float64 {
	return d.Predict(o.Case.Batch, o.Tile, o.Schedule, o.Compute)
}

// competes reports whether the planner may choose the plan in a compute mode. What
// Rows lists in plain fp32 runs in every mode.
func (o *Observation) competes(c planner.Compute) bool {
	return o.Compute == c || o.Compute == planner.ComputeF32
}

// Fitted is the rate of a row, and how well the model then agrees.
type Fitted struct {
	Row
	Rate planner.Rate
	// RMS is the root mean square of the logarithms of predicted by measured
	// times, with the weights of the fit.
	RMS float64
}

// Rates collects the fitted rows.
func Rates(rows []Fitted) *planner.Rates {
	rates := &planner.Rates{}
	for _, r := range rows {
		*rates.Of(r.Tile, r.Compute) = r.Rate
	}
	return rates
}

// Fit finds the rates with which the planner's cost model comes nearest to the
// observations of every row. Their times must be positive. Rows that were not
// observed are left out.
func Fit(d *planner.Device, all []Observation) ([]Fitted, error) {
	facts := *d
	facts.Rates = nil
	var fitted []Fitted
	for _, row := range Rows(d) {
		var own []weighted
		for i := range all {
			if o := &all[i]; o.Row == row {
				own = append(own, weighted{o, weight(o, all)})
			}
		}
		if len(own) == 0 {
			continue
		}
		f, err := fitRow(facts, row, own, facts.Rate(row.Tile, row.Compute))
		if err != nil {
			return nil, fmt.Errorf("tile %s: %w", row.Tile.Tile().Name, err)
		}
		fitted = append(fitted, f)
	}
	return fitted, nil
}

type weighted struct {
	*Observation
	weight float64
}

// weight is how much an observation counts: plans near the best of their batch
// must be told apart, and all others only be known to be worse. With these numbers
// the fit to 72 batches on an H200 chose plans 1.1 percent slower than the best.
func weight(o *Observation, all []Observation) float64 {
	best := o.Micros
	for i := range all {
		if p := &all[i]; p.Case == o.Case && p.competes(o.Compute) {
			best = min(best, p.Micros)
		}
	}
	return math.Pow(best/o.Micros, 6) + 0.02
}

// rounds is how often the search begins again where it ended, with a new simplex:
// Nelder and Mead's may collapse before it is at the minimum.
const rounds = 2

// typical is where the search begins for a tile that no rates were shipped for.
var typical = planner.Rate{Efficiency: 0.5, Step: 0.5, Fixed: 0.5, Worker: 0.2}

// fitRow searches from the shipped rate, and from one that is as much slower or
// faster in everything as the row is.
func fitRow(d planner.Device, row Row, own []weighted, shipped planner.Rate) (Fitted, error) {
	d.Rates = &planner.Rates{}
	rate := d.Rates.Of(row.Tile, row.Compute)
	near := cmp.Or(shipped, typical)
	*rate = near
	_, bias := deviation(&d, own)
	factor := math.Exp(-bias)
	far := planner.Rate{Efficiency: near.Efficiency / factor, Step: near.Step * factor, Fixed: near.Fixed * factor, Worker: near.Worker * factor}

	best := Fitted{Row: row, RMS: math.Inf(1)}
	for _, start := range []planner.Rate{near, far} {
		u := newUnits(start, d.MaxEfficiency(row.Tile, row.Compute))
		x := u.encode(start)
		problem := optimize.Problem{Func: func(x []float64) float64 {
			*rate = u.decode(x)
			rms, _ := deviation(&d, own)
			return rms
		}}
		for range rounds {
			found, err := optimize.Minimize(problem, x, &optimize.Settings{FuncEvaluations: 2000}, &optimize.NelderMead{SimplexSize: 0.3})
			if err != nil {
				return best, err
			}
			x = found.X
			if found.F < best.RMS {
				best.Rate, best.RMS = u.rounded(u.decode(x)), found.F
			}
		}
	}
	return best, nil
}

// deviation compares predictions with measured times, in logarithms: root mean
// square, and mean.
func deviation(d *planner.Device, own []weighted) (rms, mean float64) {
	var weights, sum, squares float64
	for _, o := range own {
		e := math.Log(o.predict(d) / o.Micros)
		weights += o.weight
		sum += o.weight * e
		squares += o.weight * e * e
	}
	return math.Sqrt(squares / weights), sum / weights
}

// units map the bounds of a rate to numbers without bounds, of the order of 1: the
// logistic function for the efficiency, squares for the times.
type units struct {
	limit               float64 // of the efficiency
	step, fixed, worker float64 // microseconds of 1
}

func newUnits(start planner.Rate, limit float64) units {
	step := max(start.Step, leastTime)
	return units{limit, step, max(start.Fixed, step), max(start.Worker, step/4)}
}

// leastTime is in microseconds; what is less is nothing.
const leastTime = 1e-4

func (u *units) encode(r planner.Rate) []float64 {
	e := min(max(r.Efficiency, planner.MinEfficiency), 0.95*u.limit)
	return []float64{math.Log(e / (u.limit - e)), math.Sqrt(r.Step / u.step), math.Sqrt(r.Fixed / u.fixed), math.Sqrt(r.Worker / u.worker)}
}

func (u *units) decode(x []float64) planner.Rate {
	return planner.Rate{
		Efficiency: max(u.limit/(1+math.Exp(-x[0])), planner.MinEfficiency),
		Step:       u.step * x[1] * x[1],
		Fixed:      u.fixed * x[2] * x[2],
		Worker:     u.worker * x[3] * x[3],
	}
}

// rounded leaves four digits, which is more than is known.
func (u *units) rounded(r planner.Rate) planner.Rate {
	for _, x := range []*float64{&r.Efficiency, &r.Step, &r.Fixed, &r.Worker} {
		digits := math.Pow(10, 3-math.Floor(math.Log10(max(*x, planner.MinEfficiency))))
		*x = math.Round(*x*digits) / digits
	}
	for _, x := range []*float64{&r.Step, &r.Fixed, &r.Worker} {
		if *x < leastTime {
			*x = 0
		}
	}
	r.Efficiency = min(r.Efficiency, u.limit)
	return r
}

// Choice is the planner's choice for a case among the observed plans.
type Choice struct {
	Case      *Case
	Chosen    float64 // microseconds measured
	Best      float64 // of all plans
	predicted float64
}

// Choices finds what the planner chooses by the device's rates in a compute mode,
// case by case. Cases without observations in the mode are left out.
func Choices(d *planner.Device, c planner.Compute, all []Observation) (choices []Choice) {
	at := map[*Case]int{}
	for i := range all {
		o := &all[i]
		if !o.competes(c) {
			continue
		}
		predicted := o.predict(d)
		k, seen := at[o.Case]
		if !seen {
			at[o.Case] = len(choices)
			choices = append(choices, Choice{o.Case, o.Micros, o.Micros, predicted})
			continue
		}
		if r := &choices[k]; predicted < r.predicted {
			r.Chosen, r.predicted = o.Micros, predicted
		}
		choices[k].Best = min(choices[k].Best, o.Micros)
	}
	return choices
}
