package main

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The metrics of Nsight Compute that scripts/results.sh asks for.
const (
	achieved = "sm__warps_active.avg.pct_of_peak_sustained_active"
	possible = "sm__maximum_warps_per_active_cycle_pct"
	issued   = "smsp__issue_active.avg.per_cycle_active"
	duration = "gpu__time_duration.sum" // ns
)

// profile summarises the launches of a kernel, weighted by their times.
type profile struct {
	kernel   string
	launches int
	time     float64
	sums     map[string]float64 // of metric * time
}

func (p *profile) mean(metric string) float64 { return p.sums[metric] / p.time }

// launches reads the output of ncu --csv: messages, then a table with a line for each metric of each launch.
func launches(data []byte) (all []map[string]string, err error) {
	start := bytes.Index(data, []byte(`"ID",`))
	if start < 0 {
		return nil, fmt.Errorf("no table of ncu")
	}
	table := data[start:]
	if end := bytes.Index(table, []byte("\n==")); end >= 0 { // messages at the end
		table = table[:end+1]
	}
	r := csv.NewReader(bytes.NewReader(table))
	r.FieldsPerRecord = -1 // the command's own output may follow
	head, err := r.Read()
	if err != nil {
		return nil, err
	}
	column := func(name string) int { return slices.Index(head, name) }
	id, kernel, metric, value := column("ID"), column("Kernel Name"), column("Metric Name"),
		column("Metric Value")
	if min(id, kernel, metric, value) < 0 {
		return nil, fmt.Errorf("ncu's table has the columns %q", head)
	}
	last := ""
	for {
		record, err := r.Read()
		if err != nil || len(record) != len(head) {
			return all, nil
		}
		if record[id] != last {
			all = append(all, map[string]string{"kernel": record[kernel]})
			last = record[id]
		}
		all[len(all)-1][record[metric]] = record[value]
	}
}

// kernelName leaves out arguments, and for our kernels the prefix.
func kernelName(s string) (name string, ours bool) {
	name, _, _ = strings.Cut(s, "(")
	return strings.CutPrefix(name, "bg_")
}

// profiles sums up the launches by kernel: ours by name, without those that add partials, and all others as
// the rival.
func profiles(data []byte, rival string) ([]*profile, error) {
	all, err := launches(data)
	if err != nil {
		return nil, err
	}
	var found []*profile
	for _, l := range all {
		name, ours := kernelName(l["kernel"])
		if ours && strings.HasSuffix(name, "fixup") {
			continue
		}
		if !ours {
			name = rival
		}
		i := slices.IndexFunc(found, func(p *profile) bool { return p.kernel == name })
		if i < 0 {
			i = len(found)
			found = append(found, &profile{kernel: name, sums: map[string]float64{}})
		}
		values := map[string]float64{}
		for _, m := range []string{achieved, possible, issued, duration} {
			x, err := strconv.ParseFloat(strings.ReplaceAll(l[m], ",", ""), 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %s is %q", l["kernel"], m, l[m])
			}
			values[m] = x
		}
		p := found[i]
		p.launches++
		p.time += values[duration]
		for m, x := range values {
			p.sums[m] += x * values[duration]
		}
	}
	return found, nil
}

// occupancyTable is Fig. 6: warps on the device, relative to those that fit.
func occupancyTable(files results) (*table, error) {
	names := profileNames(files)
	if len(names) == 0 {
		return nil, errAbsent
	}
	t := newTable("batch", "kernel", "launches", "µs of one", "occupancy", "most that its resources allow",
		"instructions a cycle and scheduler")
	for _, name := range names {
		part, load, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(name, "occupancy-"), ".csv"),
			"-zhang-")
		rival := map[string]string{"chosen": "cuBLAS grouped", "zhang2025": "cuBLAS loop"}[part]
		found, err := profiles(files[name], rival)
		if err != nil { // an error of ncu does not affect the rest
			t.row(strings.ReplaceAll(load, "-", ", "), fmt.Sprintf("%s: %v", part, err), none, none,
				none, none, none)
		}
		for _, p := range found {
			kernel := p.kernel
			if part == "zhang2025" && kernel != rival {
				kernel += " (rule zhang2025)"
			}
			t.row(strings.ReplaceAll(load, "-", ", "), kernel, fmt.Sprint(p.launches),
				digits(p.time/float64(p.launches)/1e3),
				fmt.Sprintf("%.0f %%", p.mean(achieved)), fmt.Sprintf("%.0f %%", p.mean(possible)),
				digits(p.mean(issued)))
		}
	}
	return t, nil
}

// profileNames lists the files of ncu by batch.
func profileNames(files results) (names []string) {
	for name := range files {
		if strings.HasPrefix(name, "occupancy-") && strings.HasSuffix(name, ".csv") {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		_, loadA, _ := strings.Cut(a, "-zhang-")
		_, loadB, _ := strings.Cut(b, "-zhang-")
		return cmp.Or(cmp.Compare(loadA, loadB), cmp.Compare(a, b))
	})
	return names
}

// smallLatencyTable is the time of a small batch compared with an empty kernel.
func smallLatencyTable(files results) (*table, error) {
	records, err := files.csv("latency.csv")
	if err != nil {
		return nil, err
	}
	t := newTable("", "node of a graph, µs", "call, µs", "call until the stream is idle, µs")
	for _, r := range records[1:] {
		name := r[0]
		if r[1] != "0" {
			name = fmt.Sprintf("%s of %sx%sx%s", r[1], r[2], r[2], r[2])
		}
		t.row(append([]string{name}, r[3:]...)...)
	}
	return t, nil
}
