package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/batchgemm/batchgemm/internal/bench"
)

// sections makes the plots and the sentences under them.
func (p *page) sections(data *Data, all []method) {
	r := data.Bench
	rivals := all[min(1, len(all)):]
	p.add(true, "Speed-up", speedups(r, rivals), speedupText(r, rivals), howTimed(all))
	p.add(false, "Roofline", []*figure{roofline(data, all)}, rooflineText(data)...)
	p.add(false, "Errors", []*figure{errorsFigure(r, all)}, errorsText(r, all)...)
	p.add(false, "Occupancy of the tiles", []*figure{occupancies(data)},
		"Numbers: workgroups resident on one compute unit, and what ends them; predicted by the planner "+
			"from what each kernel takes. Kernels of tensor cores need few.")
	if f := planning(data.Planning); f != nil {
		p.add(false, "Cost of planning", []*figure{f}, planningText(data.Planning))
	}
	if data.Chosen != nil {
		p.add(true, "Timeline of "+data.Chosen.Workload, []*figure{timelines(data.Chosen)},
			timelineText(data.Chosen)...)
	}
}

func speedupText(r *bench.Report, rivals []method) string {
	if len(rivals) == 0 {
		return "No rival was measured: --vs names some."
	}
	var parts []string
	for i := range rivals {
		longer, n := better(r, &rivals[i])
		parts = append(parts, fmt.Sprintf("%s takes longer in %d of %d", rivals[i].name, longer, n))
	}
	return "Bars to the right of 1× are batches in which the rival takes longer: " +
		strings.Join(parts, ", ") + "."
}

func howTimed(all []method) string {
	var parts []string
	seen := map[string]bool{}
	for _, m := range all {
		if !seen[m.timed] {
			seen[m.timed] = true
			parts = append(parts, m.timed+", "+bench.HowTimed(m.timed))
		}
	}
	var names []string
	for _, m := range all {
		names = append(names, m.name+" by "+m.timed)
	}
	if len(names) == 0 {
		return ""
	}
	return "Device time: " + strings.Join(names, ", ") + ". That is: " + strings.Join(parts, "; ") + "."
}

func rooflineText(data *Data) []string {
	text := []string{"A point for each batch and method. Bytes count A, B and C once each, and C twice " +
		"where beta is not 0."}
	switch {
	case roofOf(data) == nil:
		rates := data.Device.Name
		if of := data.Bench.Elements(); of != "" {
			rates += " for " + of
		}
		text = append(text, "No ceiling is drawn: the peak rates of "+rates+" are not known.")
	case data.Bench.Cold:
		text = append(text, "Ceilings are the data sheet's; operands came from memory.")
	default:
		text = append(text, "Ceilings are the data sheet's; small batches found their operands in cache "+
			"and may lie above the slope.")
	}
	return text
}

func errorsText(r *bench.Report, all []method) []string {
	shares, checked := errorShares(r, all)
	if len(shares) == 0 {
		return []string{"No errors were counted."}
	}
	var parts []string
	for _, m := range checked {
		worst := 0.0
		for i := range r.Cases {
			if row := m.in(&r.Cases[i]); row != nil {
				worst = max(worst, row.Error)
			}
		}
		parts = append(parts, fmt.Sprintf("%.2g for %s", worst, m.name))
	}
	below := "Elements of C against float64, of all batches together; the leftmost bin holds all smaller " +
		"errors and none at all."
	if slices.ContainsFunc(checked, func(m method) bool { return strings.Contains(m.name, "blas") }) {
		below += " Of the results of other libraries a sample was checked."
	}
	return []string{"The largest error is " + strings.Join(parts, ", ") +
		", as a part of the most that rounding explains.", below}
}

func planningText(all []Planning) string {
	last := all[len(all)-1]
	return fmt.Sprintf("A batch of %d problems takes %s µs, %s µs the first time, and %s µs in an update, "+
		"where the device makes the items: median on one core of the host, encoding included, M, N and K "+
		"uniform in [16, 256].",
		last.Problems, bench.Digits(last.Again), bench.Digits(last.New), bench.Digits(last.Renewed))
}

func timelineText(chosen *Timeline) []string {
	share := func(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }
	t := chosen.Predicted
	text := []string{fmt.Sprintf("A line for each place of a workgroup on a compute unit; predicted: %.3g "+
		"µs with the launch itself, places busy for %s of it.", t.Total, share(busy(t)))}
	if !t.Plan.Device.Measured() {
		text = append(text, "That time is a guess: rates were not measured on such a device. batchgemm "+
			"tune measures those of a GPU.")
	}
	m := chosen.Measured
	if m == nil {
		text = append(text, "Only the prediction is shown: "+chosen.Missing+".")
	} else {
		text = append(text, fmt.Sprintf("Measured: %.3g µs from the first workgroup's begin to the last "+
			"one's end, places busy for %s, by the clocks of one run of kernels that note them. "+
			"Units are numbered by the planner above and by the device below.", m.Total, share(busy(m))))
	}
	if drawn := len(t.Sample(maxLanes)); drawn < len(t.Lanes) {
		text = append(text, fmt.Sprintf("Of %d predicted places, those of evenly spaced units are drawn.",
			len(t.Lanes)))
	}
	return text
}
