package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/batchgemm/batchgemm/internal/bench"
)

// inception is the output of examples/python/inception.py.
type inception struct {
	Device string `json:"device"`
	Torch  string `json:"torch"`
	CuDNN  int    `json:"cudnn"`
	Rows   []struct {
		Workload string  `json:"workload"`
		Method   string  `json:"method"`
		Timed    string  `json:"timed"`
		Micros   float64 `json:"micros"`
		Error    float64 `json:"error"`
	} `json:"rows"`
}

// time returns that of a method for one module, or 0.
func (in *inception) time(workload, method, timed string) float64 {
	for _, r := range in.Rows {
		if r.Workload == workload && r.Method == method && r.Timed == timed {
			return r.Micros
		}
	}
	return 0
}

func (in *inception) modules() (names []string) {
	for _, r := range in.Rows {
		if !slices.Contains(names, r.Workload) {
			names = append(names, r.Workload)
		}
	}
	return names
}

func (in *inception) methods() (names []string) {
	for _, r := range in.Rows {
		if !slices.Contains(names, r.Method) {
			names = append(names, r.Method)
		}
	}
	return names
}

// inceptionMachineTable describes the machine of cuDNN's figures, which may be measured separately.
func inceptionMachineTable(in *inception) *table {
	t := newTable("what", "which")
	t.row("device", in.Device)
	t.row("PyTorch", in.Torch)
	t.row("cuDNN", strconv.Itoa(in.CuDNN))
	return t
}

// inceptionTable is Fig. 11: times of the branches of each module, in graphs.
func inceptionTable(in *inception) *table { return in.table("graph") }

// inceptionCallTable is the same from Python, call by call.
func inceptionCallTable(in *inception) *table { return in.table("calls") }

func (in *inception) table(timed string) *table {
	t := newTable(append([]string{"module"}, in.methods()...)...)
	for _, w := range in.modules() {
		cells := []string{strings.TrimPrefix(w, "inception-")}
		for _, m := range in.methods() {
			cells = append(cells, digits(in.time(w, m, timed)))
		}
		t.row(cells...)
	}
	return t
}

// inceptionSpeedUpTable summarises Fig. 11.
func inceptionSpeedUpTable(in *inception) *table {
	t := newTable("over", "mean of all", "default: all", "8 and 9", "`f32`: all", "8 and 9",
		"default, calls: all")
	t.row("MIOpen on MI210 (paper)", "2.88", none, none, none, none, none)
	t.row("cuDNN on A800 (paper)", "1.87", none, none, none, none, none)
	last := func(w string) bool { return w == "inception-8" || w == "inception-9" }
	all := func(string) bool { return true }
	for _, rival := range in.methods() {
		if !strings.HasPrefix(rival, "cudnn") {
			continue
		}
		over := func(method, timed string, keep func(string) bool) *ratios {
			s := &ratios{}
			for _, w := range in.modules() {
				if us := in.time(w, method, timed); keep(w) && us > 0 {
					s.add(w, in.time(w, rival, timed)/us)
				}
			}
			return s
		}
		t.row(rival, digits(over("batchgemm", "graph", all).mean()), over("batchgemm", "graph", all).spread(),
			over("batchgemm", "graph", last).spread(),
			over("batchgemm-f32", "graph", all).spread(), over("batchgemm-f32", "graph", last).spread(),
			over("batchgemm", "calls", all).spread())
	}
	return t
}

// inceptionRivalTable compares the same batches with cuBLAS, by bench.
func inceptionRivalTable(r *bench.Report) *table {
	t := newTable("module", "default, µs", "`f32`, µs", "tile, schedule", "x grouped", "x graph")
	for i := range r.Cases {
		c := &r.Cases[i]
		us := micros(c, "batchgemm")
		t.row(strings.TrimPrefix(c.Workload, "inception-"), digits(us), digits(micros(c, "f32")), c.Chosen(),
			digits(micros(c, grouped)/us), digits(micros(c, graph)/us))
	}
	over := func(rival string) string { return speedups(r, "batchgemm", rival, every).spread() }
	t.row("all", "", "", "", over(grouped), over(graph))
	return t
}
