package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/batchgemm/batchgemm/internal/bench"
)

// devices is the required part of `batchgemm devices --json`.
type devices struct {
	Backends []struct {
		Backend string `json:"backend"`
		Devices []struct {
			Planner struct {
				TFLOPS float64 `json:"tflops"`
			} `json:"planner"`
		} `json:"devices"`
	} `json:"backends"`
}

// peak returns the rate of plain fp32 of the first CUDA device in TFLOPS, or 0.
func (d *devices) peak() float64 {
	for _, b := range d.Backends {
		if b.Backend == "cuda" && len(b.Devices) > 0 {
			return b.Devices[0].Planner.TFLOPS
		}
	}
	return 0
}

// emulationTable is the throughput of emulated fp32.
func emulationTable(files results) (*table, error) {
	d, err := decode[devices](files, "devices.json")
	if err != nil {
		return nil, err
	}
	r, err := files.report("emulation")
	if err != nil {
		return nil, err
	}
	tf32, err := files.report("emulation-tf32")
	if err != nil {
		return nil, err
	}
	peak := d.peak()
	t := newTable("products x size", "default, TFLOPS", "of the fp32 peak", "tile, schedule", "`f32`",
		"`tf32`", "cuBLAS SGEMM in a graph", "grouped")
	t.row("paper of 2022, A100, TF32", "33", "169 %", none, none, none, none, none)
	t.row("paper of 2022, A100, FP16, small exponents", "51", "262 %", none, none, none, none, none)
	t.row("paper of 2023, A100, batch", "54.2", "278 %", none, none, none, none, none)
	for i := range r.Cases {
		c := &r.Cases[i]
		rate := func(c *bench.Case, method string) float64 {
			if us := micros(c, method); us > 0 {
				return c.GFLOP / us * 1e3
			}
			return 0
		}
		rounded := 0.0
		if other := find(tf32, c.Workload); other != nil {
			rounded = rate(other, "batchgemm")
		}
		part := none
		if peak > 0 {
			part = fmt.Sprintf("%.0f %%", 100*rate(c, "batchgemm")/peak)
		}
		t.row(c.Workload, digits(rate(c, "batchgemm")), part, c.Chosen(),
			digits(rate(c, "f32")), digits(rounded), digits(rate(c, graph)), digits(rate(c, grouped)))
	}
	return t, nil
}

// dataKinds are those of bench's --data, in the order of the table.
var dataKinds = []string{"uniform", "positive", "mixed", "cancelling", "tiny", "huge"}

// accuracyTable is the errors of each method by kind of data and K.
func accuracyTable(files results) (*table, error) {
	t := newTable("data", "K", "default", "`f32`", "cuBLAS SGEMM", "`tf32`", "default's largest over SGEMM's")
	rows := 0
	for _, kind := range dataKinds {
		r, err := files.report("accuracy-" + kind)
		if errors.Is(err, errAbsent) {
			continue
		}
		if err != nil {
			return nil, err
		}
		tf32, err := files.report("accuracy-tf32-" + kind)
		if errors.Is(err, errAbsent) {
			tf32 = &bench.Report{}
		} else if err != nil {
			return nil, err
		}
		for i := range r.Cases {
			c := &r.Cases[i]
			ratio := none
			if a, b := row(c, "batchgemm"), row(c, graph); a != nil && b != nil && a.Accuracy != nil &&
				b.Accuracy != nil && b.Accuracy.Max > 0 {
				ratio = fmt.Sprintf("%.2f", a.Accuracy.Max/b.Accuracy.Max)
			}
			_, k, _ := strings.Cut(c.Workload, "128x128x")
			t.row(kind, k, errorsOf(row(c, "batchgemm")), errorsOf(row(c, "f32")), errorsOf(row(c, graph)),
				errorsOf(rowIn(tf32, c.Workload)), ratio)
			rows++
		}
	}
	if rows == 0 {
		return nil, errAbsent
	}
	return t, nil
}

func rowIn(r *bench.Report, workload string) *bench.Row {
	if c := find(r, workload); c != nil {
		return row(c, "batchgemm")
	}
	return nil
}

// errorsOf formats the largest and the mean error of a row.
func errorsOf(r *bench.Row) string {
	switch {
	case r == nil:
		return none
	case r.Wrong != "":
		return "wrong"
	case r.Accuracy == nil:
		return none
	}
	return small(r.Accuracy.Max) + ", " + small(r.Accuracy.Mean)
}
