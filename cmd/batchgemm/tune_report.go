package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/bench"
	"github.com/batchgemm/batchgemm/internal/ownrates"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/internal/tune"
	"github.com/batchgemm/batchgemm/planner"
)

// tuneReport is the JSON of tune. Times are in microseconds.
type tuneReport struct {
	Device string       `json:"device"`
	Driver string       `json:"driver"`
	Repeat int          `json:"repeat"`
	Rows   []tuneRow    `json:"rows"`
	Regret []tuneRegret `json:"regret"` // for each compute mode
	Times  []tuneTime   `json:"times"`
	File   string       `json:"file,omitempty"` // file of the rates; empty: they are not kept
}

type tuneRow struct {
	Tile    string          `json:"tile"`
	Compute planner.Compute `json:"compute"`
	tile.Rate
	RMS     float64   `json:"rms"`
	Shipped tile.Rate `json:"shipped"`
}

// tuneRegret compares the planner's choices with the best of the measured plans, with the rates of the
// package and with the fitted ones.
type tuneRegret struct {
	Compute  planner.Compute `json:"compute"`
	Shipped  bench.Summary   `json:"shipped"`
	Measured bench.Summary   `json:"measured"`
}

type tuneTime struct {
	Case     string           `json:"case"`
	Tile     string           `json:"tile"`
	Compute  planner.Compute  `json:"compute"`
	Schedule planner.Schedule `json:"schedule"`
	Micros   float64          `json:"micros"`
}

// newTuneReport fits the rates to the times.
func newTuneReport(
	info *dispatch.Info, repeat int, observed []tune.Observation) (*tuneReport, *planner.Device, error) {
	shipped := ownrates.Without(&info.Planner)
	fitted, err := tune.Fit(shipped, observed)
	if err != nil {
		return nil, nil, err
	}
	tuned := tune.Tuned(shipped, fitted)
	name := fmt.Sprintf("%s %d: %s", info.Backend, info.Index, info.Name)
	r := &tuneReport{Device: name, Driver: info.Driver, Repeat: repeat}
	for _, f := range fitted {
		was := shipped.Rate(shipped.Kernel(f.Tile), f.Compute)
		r.Rows = append(r.Rows, tuneRow{f.Tile.Name, f.Compute, f.Rate, f.RMS, was})
	}
	for _, c := range tune.Computes(shipped) {
		r.Regret = append(r.Regret, tuneRegret{c, regret(shipped, c, observed), regret(tuned, c, observed)})
	}
	for _, o := range observed {
		r.Times = append(r.Times, tuneTime{o.Case.Name, o.Tile.Name, o.Compute, o.Schedule, o.Micros})
	}
	return r, tuned, nil
}

// regret summarises the choices with the rates of a device.
func regret(d *planner.Device, c planner.Compute, observed []tune.Observation) (s bench.Summary) {
	var ratios []float64
	for _, choice := range tune.Choices(d, c, observed) {
		ratio := choice.Chosen / choice.Best
		ratios = append(ratios, ratio)
		if ratio > s.Worst {
			s.Worst, s.Case = ratio, choice.Case.Name
		}
	}
	s.GeoMean = bench.GeoMean(ratios)
	return s
}

func (r *tuneReport) text(w io.Writer) error {
	fmt.Fprintf(w, "device  %s; %s\n\n", r.Device, r.Driver) // table reports the error
	rows := [][]string{{"TILE", "COMPUTE", "EFFICIENCY", "STEP", "FIXED", "WORKER", "RMS", "SHIPPED"}}
	for _, row := range r.Rows {
		cells := append([]string{row.Tile, string(row.Compute)}, show(row.Rate)...)
		shipped := strings.Join(show(row.Shipped), " ")
		rows = append(rows, append(cells, fmt.Sprintf("%.1f %%", 100*row.RMS), shipped))
	}
	var notes []string
	if !r.better() {
		notes = append(notes,
			"the planner chooses worse by the measured rates, which are not kept: was the device busy?")
	}
	for _, g := range r.Regret {
		const text = "regret on these batches, %s: %s by the shipped rates, %s by the measured ones"
		notes = append(notes, fmt.Sprintf(text, g.Compute, percent(g.Shipped), percent(g.Measured)))
	}
	if r.File != "" {
		notes = append(notes, "kept in "+r.File)
	}
	return table(w, rows, notes)
}

// better reports whether the planner chooses at least as well with the measured rates.
func (r *tuneReport) better() bool {
	shipped, measured := 1.0, 1.0
	for _, g := range r.Regret {
		shipped *= g.Shipped.GeoMean
		measured *= g.Measured.GeoMean
	}
	return measured <= shipped
}

// show writes the numbers of a rate.
func show(r tile.Rate) []string {
	return []string{
		bench.Digits(r.Efficiency), bench.Digits(r.Step), bench.Digits(r.Fixed), bench.Digits(r.Worker)}
}

func percent(s bench.Summary) string {
	return fmt.Sprintf("%.1f %% (at most %.0f %%, %s)", 100*(s.GeoMean-1), 100*(s.Worst-1), s.Case)
}
