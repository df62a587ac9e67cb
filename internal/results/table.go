package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/batchgemm/batchgemm/internal/bench"
)

// table is a table of Markdown.
type table struct{ text strings.Builder }

func newTable(head ...string) *table {
	t := &table{}
	t.row(head...)
	t.row(slices.Repeat([]string{"---"}, len(head))...)
	return t
}

func (t *table) row(cells ...string) {
	fmt.Fprintf(&t.text, "| %s |\n", strings.Join(cells, " | "))
}

func (t *table) String() string { return t.text.String() }

// none stands for a missing figure.
const none = "–"

// digits returns three significant digits, or none if it was not measured.
func digits(x float64) string {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return none
	}
	return bench.Digits(x)
}

func percent(x float64) string {
	if x == 0 {
		return none
	}
	return fmt.Sprintf("%.2g %%", 100*x)
}

func small(x float64) string { return fmt.Sprintf("%.2g", x) }

// ratios are speed-ups with their cases.
type ratios struct {
	all   []float64
	cases []string
}

func (r *ratios) add(name string, x float64) {
	if x > 0 && !math.IsInf(x, 0) {
		r.all, r.cases = append(r.all, x), append(r.cases, name)
	}
}

func (r *ratios) geomean() float64 { return bench.GeoMean(r.all) }

// mean returns the arithmetic mean, which papers report.
func (r *ratios) mean() float64 {
	sum := 0.0
	for _, x := range r.all {
		sum += x
	}
	return sum / float64(max(len(r.all), 1))
}

// sorted has the largest first.
func (r *ratios) sorted() *ratios {
	order := make([]int, len(r.all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(r.all[j], r.all[i]) })
	s := &ratios{}
	for _, i := range order {
		s.add(r.cases[i], r.all[i])
	}
	return s
}

// named formats a ratio and, in brackets, its case.
func (r *ratios) named(i int) string { return fmt.Sprintf("%s (%s)", digits(r.all[i]), r.cases[i]) }

// below returns the number of ratios below a limit.
func (r *ratios) below(limit float64) (n int) {
	for _, x := range r.all {
		if x < limit {
			n++
		}
	}
	return n
}

// spread formats the geometric mean and, in brackets, the least and the most.
func (r *ratios) spread() string {
	if len(r.all) == 0 {
		return none
	}
	return fmt.Sprintf("%s (%s–%s)", digits(r.geomean()), digits(slices.Min(r.all)),
		digits(slices.Max(r.all)))
}

// row returns a method's row of a case: the first way in which it was timed.
func row(c *bench.Case, method string) *bench.Row {
	for i := range c.Rows {
		if c.Rows[i].Method == method {
			return &c.Rows[i]
		}
	}
	return nil
}

// micros returns the time of a method, or 0.
func micros(c *bench.Case, method string) float64 {
	if r := row(c, method); r != nil && r.Wrong == "" {
		return r.Device.Median
	}
	return 0
}

// speedups returns those of a method over a rival in the cases that keep selects.
func speedups(r *bench.Report, method, rival string, keep func(*bench.Case) bool) *ratios {
	s := &ratios{}
	for i := range r.Cases {
		c := &r.Cases[i]
		if own := micros(c, method); own > 0 && keep(c) {
			s.add(c.Workload, micros(c, rival)/own)
		}
	}
	return s
}

func every(*bench.Case) bool { return true }

// find returns the case of a workload in a report, or nil.
func find(r *bench.Report, workload string) *bench.Case {
	if i := slices.IndexFunc(r.Cases, func(c bench.Case) bool { return c.Workload == workload }); i >= 0 {
		return &r.Cases[i]
	}
	return nil
}
