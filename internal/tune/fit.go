package tune

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/optimize"

	"github.com/batchgemm/batchgemm/internal/ownrates"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
)

// Row is a tile in a compute mode, with its own rate.
type Row struct {
	Tile    *tile.Shape
	Compute planner.Compute
}

// Schedules returns the schedules to which the row's rate is fitted: one tile for each worker, or the way in
// which the planner uses the tile, and split-K, which separates the latency of a step from the rate.
func (r Row) Schedules() []planner.Schedule {
	if r.Tile.Unit == tile.WGMMA {
		return []planner.Schedule{planner.ScheduleLPT, planner.ScheduleSplitK}
	}
	return []planner.Schedule{planner.ScheduleDataParallel, planner.ScheduleSplitK}
}

// Rows lists what can be measured on a device. A tile without tensor cores has the same rate in every mode.
func Rows(d *planner.Device) (rows []Row) {
	for i := range d.Kernels {
		shape := d.Kernels[i].Tile
		modes := []planner.Compute{planner.ComputeF32Emulated, planner.ComputeTF32}
		if !shape.Unit.Tensor() {
			modes = []planner.Compute{planner.ComputeF32}
		}
		for _, c := range modes {
			if d.Fits(shape, planner.Options{Compute: c}) {
				rows = append(rows, Row{shape, c})
			}
		}
	}
	return rows
}

// Computes lists the compute modes that make a difference on a device.
func Computes(d *planner.Device) []planner.Compute {
	for i := range d.Kernels {
		if d.Kernels[i].Tile.Unit.Tensor() {
			return []planner.Compute{planner.ComputeF32Emulated, planner.ComputeF32, planner.ComputeTF32}
		}
	}
	return []planner.Compute{planner.ComputeF32}
}

// Observation is the measured time of a plan that uses one tile shape for a batch.
type Observation struct {
	Row
	Case     *Case
	Schedule planner.Schedule
	Micros   float64
}

func (o *Observation) predict(d *planner.Device) float64 {
	return d.Predict(o.Case.Batch, d.Kernel(o.Tile), o.Schedule, o.Compute)
}

// competes reports whether the planner may choose the plan in a compute mode. Rows of plain fp32 run in
// every mode.
func (o *Observation) competes(c planner.Compute) bool {
	return o.Compute == c || o.Compute == planner.ComputeF32
}

// Fitted is the rate of a row, and how well the model agrees with it.
type Fitted struct {
	Row
	Rate tile.Rate
	// RMS is the root mean square of the logarithms of predicted over measured times, with the weights of
	// the fit.
	RMS float64
}

// Tuned returns the device with the fitted rates.
func Tuned(d *planner.Device, rows []Fitted) *planner.Device {
	tuned := ownrates.Without(d)
	for _, r := range rows {
		*tuned.Kernel(r.Tile).Measured(r.Compute) = r.Rate
	}
	return tuned
}

// Fit finds the rates with which the planner's cost model comes nearest to the observations of every row.
// Their times must be positive. Rows without observations are left out.
func Fit(d *planner.Device, all []Observation) ([]Fitted, error) {
	facts := ownrates.Without(d)
	var fitted []Fitted
	for _, row := range Rows(d) {
		own := ofRow(row, all)
		if len(own) == 0 {
			continue
		}
		f, err := fitRow(facts, row, own, facts.Rate(facts.Kernel(row.Tile), row.Compute))
		if err != nil {
			return nil, fmt.Errorf("tile %s: %w", row.Tile.Name, err)
		}
		fitted = append(fitted, f)
	}
	return fitted, nil
}

type weighted struct {
	*Observation
	weight float64
}

// ofRow returns a row's observations with their weights.
func ofRow(row Row, all []Observation) (own []weighted) {
	for i := range all {
		if o := &all[i]; o.Row == row {
			own = append(own, weighted{o, weight(o, all)})
		}
	}
	return own
}

// weight returns how much an observation counts. Plans near the best of their batch must be distinguished.
// All others only need to be known as worse. With these numbers, the fit to 72 batches on an H200 chose
// plans 1.1 % slower than the best.
func weight(o *Observation, all []Observation) float64 {
	best := o.Micros
	for i := range all {
		if p := &all[i]; p.Case == o.Case && p.competes(o.Compute) {
			best = min(best, p.Micros)
		}
	}
	return math.Pow(best/o.Micros, 6) + 0.02
}

// rounds is how often the search restarts where it ended, with a new simplex: that of Nelder and Mead may
// collapse before the minimum.
const rounds = 3

// fitRow searches from the shipped rate, and from a rate that is slower or faster in everything, by as much
// as the row is.
func fitRow(d *planner.Device, row Row, own []weighted, shipped tile.Rate) (Fitted, error) {
	d = ownrates.Without(d)
	rate := d.Kernel(row.Tile).Measured(row.Compute)
	*rate = shipped
	_, bias := deviation(d, own)
	factor := math.Exp(-bias)
	far := tile.Rate{Efficiency: shipped.Efficiency / factor,
		Step: shipped.Step * factor, Fixed: shipped.Fixed * factor, Worker: shipped.Worker * factor}

	best := Fitted{Row: row, RMS: math.Inf(1)}
	for _, start := range []tile.Rate{shipped, far} {
		u := newUnits(start, row.Tile.MaxEfficiency(row.Compute == planner.ComputeTF32, d.PeakGuessed))
		x := u.encode(start)
		problem := optimize.Problem{Func: func(x []float64) float64 {
			*rate = u.decode(x)
			rms, _ := deviation(d, own)
			return rms
		}}
		for range rounds {
			found, err := optimize.Minimize(problem, x,
				&optimize.Settings{FuncEvaluations: 2000}, &optimize.NelderMead{SimplexSize: 0.3})
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

// deviation compares predictions with measured times, in logarithms: root mean square, and mean.
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

// units map the bounded values of a rate to unbounded numbers of the order of 1: the logistic function for
// the efficiency, squares for the times.
type units struct {
	limit               float64 // of the efficiency
	step, fixed, worker float64 // microseconds of 1
}

func newUnits(start tile.Rate, limit float64) units {
	step := max(start.Step, leastTime)
	return units{limit, step, max(start.Fixed, step), max(start.Worker, step/4)}
}

// leastTime is in microseconds; smaller times become 0.
const leastTime = 1e-4

func (u *units) encode(r tile.Rate) []float64 {
	e := min(max(r.Efficiency, tile.MinEfficiency), 0.95*u.limit)
	return []float64{math.Log(e / (u.limit - e)),
		math.Sqrt(r.Step / u.step), math.Sqrt(r.Fixed / u.fixed), math.Sqrt(r.Worker / u.worker)}
}

func (u *units) decode(x []float64) tile.Rate {
	return tile.Rate{
		Efficiency: max(u.limit/(1+math.Exp(-x[0])), tile.MinEfficiency),
		Step:       u.step * x[1] * x[1],
		Fixed:      u.fixed * x[2] * x[2],
		Worker:     u.worker * x[3] * x[3],
	}
}

// rounded leaves four digits, more than is known.
func (u *units) rounded(r tile.Rate) tile.Rate {
	for _, x := range []*float64{&r.Efficiency, &r.Step, &r.Fixed, &r.Worker} {
		digits := math.Pow(10, 3-math.Floor(math.Log10(max(*x, tile.MinEfficiency))))
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

// Choice is the planner's choice for a case among the observed plans, in microseconds.
type Choice struct {
	Case      *Case
	Chosen    float64 // measured
	Best      float64 // measured, of all plans
	predicted float64
}

// Choices returns what the planner chooses with the device's rates in a compute mode, case by case. It
// leaves out cases without observations in the mode.
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
