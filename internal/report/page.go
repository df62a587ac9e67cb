package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"

	"github.com/batchgemm/batchgemm/internal/bench"
	"github.com/batchgemm/batchgemm/planner"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// generator marks pages of this package, so that no other pages are replaced.
const generator = "batchgemm bench --report"

// page is what the template shows.
type page struct {
	Generator string
	Title     string
	Tones     []toneRule
	Facts     []bench.Remark // device, driver, ...
	Headline  []headline
	Wrong     int
	Sections  []*section
	Heads     []string // of the table of cases
	Cases     [][]cell
	Remarks   []bench.Remark
}

// toneRule is a colour in the style sheet.
type toneRule struct{ Name, Light, Dark template.CSS }

// headline is a number that summarises.
type headline struct{ Number, Text, Below string }

// section is a heading, plots, and a text about what they show and how it was measured.
type section struct {
	Title   string
	Text    []string
	Figures []*figure
	Full    bool // takes the whole width
}

type cell struct {
	Text   string
	Number bool
	Wrong  bool
}

func newPage(data *Data) *page {
	r := data.Bench
	all := methods(r)
	p := &page{Generator: generator, Title: "batchgemm on " + r.Device, Wrong: r.Wrong(),
		Remarks: r.Remarks()}
	for _, t := range tones() {
		p.Tones = append(p.Tones, toneRule{template.CSS(t.name), template.CSS(t.light), template.CSS(t.dark)})
	}
	p.facts(data)
	p.headline(r)
	p.sections(data, all)
	p.table(r, all)
	return p
}

func (p *page) write(w io.Writer) error { return pageTemplate.Execute(w, p) }

func (p *page) facts(data *Data) {
	r := data.Bench
	fact := func(name, text string) {
		if text != "" {
			p.Facts = append(p.Facts, bench.Remark{Name: name, Text: text})
		}
	}
	fact("Driver", r.Driver)
	fact("Library", r.Library)
	fact("Compute mode", string(cmp.Or(data.Compute, planner.ComputeF32Emulated)))
	fact("Elements", r.Elements())
	operands := "used again, so that small batches find them in cache"
	if r.Cold {
		operands = "rotated beyond the L2 cache"
	}
	fact("Operands", operands)
	fact("Times", fmt.Sprintf("median of %d", r.Repeat))
	fact("Version", data.Version)
	if !data.Date.IsZero() {
		fact("Date", data.Date.UTC().Format("2006-01-02 15:04 UTC"))
	}
	fact("Command", data.Command)
}

func (p *page) headline(r *bench.Report) {
	for _, s := range r.Speedups {
		p.Headline = append(p.Headline, headline{bench.Digits(s.GeoMean) + "×", "as fast as " + s.Method,
			fmt.Sprintf("geometric mean; least %s× (%s)", bench.Digits(s.Worst), s.Case)})
	}
	if s := r.Regret; s != nil {
		p.Headline = append(p.Headline,
			headline{bench.Digits(s.GeoMean) + "×", "the time of the best forced plan",
				fmt.Sprintf("geometric mean; most %s× (%s)", bench.Digits(s.Worst), s.Case)})
	}
	problems, best := 0, 0.0
	for i := range r.Cases {
		c := &r.Cases[i]
		problems += c.Problems
		if len(c.Rows) > 0 {
			best = max(best, c.Rows[0].GFLOPS)
		}
	}
	unit, per := rateUnit(best)
	p.Headline = append(p.Headline, headline{bench.Digits(best / per), unit + " at best",
		fmt.Sprintf("batches: %d, problems: %d", len(r.Cases), problems)})
}

// rateUnit returns the unit that suits a rate in GFLOP/s, and its size in GFLOP/s.
func rateUnit(gflops float64) (name string, per float64) {
	if gflops < 1e3 {
		return "GFLOP/s", 1
	}
	return "TFLOP/s", 1e3
}

// table has a line for each case.
func (p *page) table(r *bench.Report, all []method) {
	p.Heads = []string{"workload", "problems", "GFLOP", "MB", "plan", "tile, schedule", "µs", "least-most",
		"TFLOP/s", "error"}
	for _, m := range all[min(1, len(all)):] {
		p.Heads = append(p.Heads, m.name+" µs", "×")
	}
	for i := range r.Cases {
		c := &r.Cases[i]
		if len(c.Rows) == 0 {
			continue
		}
		own := &c.Rows[0]
		line := []cell{{Text: c.Workload}}
		number := func(text string) { line = append(line, cell{Text: text, Number: true}) }
		number(fmt.Sprint(c.Problems))
		number(bench.Digits(c.GFLOP))
		number(bench.Digits(c.Bytes / 1e6))
		number(bench.Digits(c.Plan))
		line = append(line, cell{Text: c.Chosen()})
		number(bench.Digits(own.Device.Median))
		number(bench.Digits(own.Device.Min) + "-" + bench.Digits(own.Device.Max))
		number(bench.Digits(own.GFLOPS / 1e3))
		line = append(line, errorCell(own))
		for _, m := range all[1:] {
			row := m.in(c)
			if row == nil {
				number("-")
				number("-")
				continue
			}
			line = append(line, cell{Text: bench.Digits(row.Device.Median), Number: true,
				Wrong: row.Wrong != ""})
			number(bench.Digits(row.Slower))
		}
		p.Cases = append(p.Cases, line)
	}
}

func errorCell(row *bench.Row) cell {
	if row.Wrong != "" {
		return cell{Text: "wrong", Number: true, Wrong: true}
	}
	return cell{Text: fmt.Sprintf("%.2g", row.Error), Number: true}
}

// add adds a section with the figures that exist.
func (p *page) add(full bool, title string, figures []*figure, text ...string) {
	figures = slices.DeleteFunc(figures, func(f *figure) bool { return f == nil })
	p.Sections = append(p.Sections, &section{Title: title, Text: slices.DeleteFunc(text, func(s string) bool {
		return s == ""
	}), Figures: figures, Full: full})
}
