package bench

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Report is the result of one bench command.
type Report struct {
	Device  string `json:"device"`
	Driver  string `json:"driver"`
	Library string `json:"library,omitempty"` // version and arithmetic of the competitor
	Repeat  int    `json:"repeat"`

	Type  element.Type `json:"type,omitempty"`   // of A and B, if it is not float32
	TypeB element.Type `json:"type_b,omitempty"` // of B, if it differs from that of A
	TypeC element.Type `json:"type_c,omitempty"` // of C, if it differs from that of A

	Epilogue string `json:"epilogue,omitempty"` // its parts

	Cold  bool     `json:"cold"` // operands come from memory, not from the L2 cache
	Notes []string `json:"notes,omitempty"`

	Cases    []Case    `json:"cases"`
	Speedups []Speedup `json:"speedups,omitempty"`
	Regret   *Summary  `json:"regret,omitempty"`
}

// Case is one workload.
type Case struct {
	Workload string  `json:"workload"`
	Problems int     `json:"problems"`
	GFLOP    float64 `json:"gflop"`
	// A, B and C once each, C twice if beta is not 0, and what epilogues read
	Bytes    float64  `json:"bytes"`
	Plan     float64  `json:"plan_micros"`            // to plan and encode the batch again, on one core
	Renew    float64  `json:"renew_micros,omitempty"` // the same as in Update, if requested
	Schedule string   `json:"schedule"`               // of our plan, like Tiles
	Tiles    []string `json:"tiles"`
	Rows     []Row    `json:"rows"` // the others are compared with the first
	Regret   *Regret  `json:"regret,omitempty"`
}

// Chosen returns the tiles of our plan and its schedule.
func (c *Case) Chosen() string { return strings.Join(c.Tiles, " ") + ", " + c.Schedule }

// Row is a method, timed in one way. Times are in microseconds.
type Row struct {
	Method string  `json:"method"`
	Timed  string  `json:"timed"`
	Device Spread  `json:"device_micros"`
	Host   *Spread `json:"host_micros,omitempty"`
	GFLOPS float64 `json:"gflops"`
	Slower float64 `json:"slower"` // device time over that of the case's first row
	Error  float64 `json:"error"`  // the largest against float64, relative to its bound
	// Errors counts the checked elements by error. Element i counts errors in (2^-(i+1), 2^-i] of their
	// bound, the last element all smaller ones.
	Errors  []int64 `json:"errors,omitempty"`
	Checked int     `json:"checked_problems"`
	Wrong   string  `json:"wrong,omitempty"` // what no rounding explains

	Accuracy *Accuracy `json:"accuracy,omitempty"` // if requested
}

// NewRow returns the row of a method.
func NewRow(m Method, found Measurement) Row {
	row := Row{Method: m.Name, Timed: m.Timed, Device: found.Device}
	if found.Host != (Spread{}) {
		row.Host = &found.Host
	}
	return row
}

// Elements returns the types, or "" if all are float32.
func (r *Report) Elements() string {
	if r.Type == element.F32 {
		return ""
	}
	return elemtype.Show(r.Type, r.TypeB, r.TypeC)
}

// Wrong returns the number of rows with wrong results.
func (r *Report) Wrong() (n int) {
	for i := range r.Cases {
		for _, row := range r.Cases[i].Rows {
			if row.Wrong != "" {
				n++
			}
		}
	}
	return n
}

// Err returns an error if rows have wrong results.
func (r *Report) Err() error {
	if wrong := r.Wrong(); wrong > 0 {
		return fmt.Errorf("%d results are wrong", wrong)
	}
	return nil
}

// Regret compares the planner's choice with the best of the forced plans.
type Regret struct {
	Planner  float64  `json:"planner_micros"`
	Best     float64  `json:"best_micros"`
	Tile     string   `json:"tile"` // of the best
	Schedule string   `json:"schedule"`
	Ratio    float64  `json:"ratio"`              // Planner / Best
	Guess    bool     `json:"predicted_is_guess"` // predictions of Forced; see planner.Device.Measured
	Forced   []Forced `json:"forced"`             // all plans that were tried, fastest first
}

// Forced is a plan with one tile under one schedule.
type Forced struct {
	Tile      string  `json:"tile"`
	Schedule  string  `json:"schedule"`
	Micros    float64 `json:"micros"`
	Predicted float64 `json:"predicted_micros"` // by the planner
}

// Summary summarises ratios over the cases.
type Summary struct {
	GeoMean float64 `json:"geomean"`
	Worst   float64 `json:"worst"`
	Case    string  `json:"worst_case"`
}

// Speedup is how many times as long a method takes as the first row of each case.
type Speedup struct {
	Method string `json:"method"`
	Timed  string `json:"timed"`
	Summary
}

// Add computes from the times of a case's rows what follows from them, and adds the case to the report.
func (r *Report) Add(c Case) {
	for i := range c.Rows {
		row := &c.Rows[i]
		if row.Device.Median > 0 {
			row.GFLOPS = c.GFLOP / row.Device.Median * 1e6
		}
		if base := c.Rows[0].Device.Median; base > 0 {
			row.Slower = row.Device.Median / base
		}
	}
	if c.Regret != nil && c.Regret.Best > 0 {
		c.Regret.Ratio = c.Regret.Planner / c.Regret.Best
	}
	r.Cases = append(r.Cases, c)
}

// Finish summarises the cases.
func (r *Report) Finish() {
	for _, k := range r.columns() {
		ratio := func(c *Case) (float64, bool) {
			row := k.in(c)
			if row == nil || row.Slower == 0 || row.Method == c.Rows[0].Method {
				return 0, false
			}
			return row.Slower, true
		}
		if s := r.summarize(ratio, math.Min); s != nil {
			r.Speedups = append(r.Speedups, Speedup{k.method, k.timed, *s})
		}
	}
	r.Regret = r.summarize(func(c *Case) (float64, bool) {
		if c.Regret == nil || c.Regret.Ratio == 0 {
			return 0, false
		}
		return c.Regret.Ratio, true
	}, math.Max)
}

// summarize uses the ratio of every case that has one; worse selects the worst.
func (r *Report) summarize(ratio func(*Case) (float64, bool), worse func(a, b float64) float64) *Summary {
	var s Summary
	var all []float64
	for i := range r.Cases {
		x, ok := ratio(&r.Cases[i])
		if !ok {
			continue
		}
		if len(all) == 0 || worse(x, s.Worst) != s.Worst {
			s.Worst, s.Case = x, r.Cases[i].Workload
		}
		all = append(all, x)
	}
	if len(all) == 0 {
		return nil
	}
	s.GeoMean = GeoMean(all)
	return &s
}

// column identifies rows of the same kind.
type column struct{ method, timed string }

func (k column) in(c *Case) *Row {
	for i := range c.Rows {
		if row := &c.Rows[i]; row.Method == k.method && row.Timed == k.timed {
			return row
		}
	}
	return nil
}

// columns lists the kinds of rows in the order in which they first appear.
func (r *Report) columns() (all []column) {
	seen := map[column]bool{}
	for i := range r.Cases {
		for _, row := range r.Cases[i].Rows {
			if k := (column{row.Method, row.Timed}); !seen[k] {
				seen[k] = true
				all = append(all, k)
			}
		}
	}
	return all
}

// WriteText writes a line for each case, and below them the summary.
func (r *Report) WriteText(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fields := r.fields()
	line := func(cell func(field) string) {
		cells := make([]string, len(fields))
		for i, f := range fields {
			cells[i] = cell(f)
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t")) // Flush reports the error
	}
	line(func(f field) string { return f.head })
	for i := range r.Cases {
		line(func(f field) string { return f.cell(&r.Cases[i]) })
	}
	fmt.Fprintln(tw)
	if err := tw.Flush(); err != nil {
		return err
	}
	return r.writeNotes(w)
}

// field is a column of the table.
type field struct {
	head string
	cell func(*Case) string
}

// fields returns the columns: the first way to time our method with rate and error, the other ways with the
// host's time, and each competitor.
func (r *Report) fields() []field {
	all := []field{
		{"workload", func(c *Case) string { return c.Workload }},
		{"GFLOP", func(c *Case) string { return Digits(c.GFLOP) }},
		{"plan", func(c *Case) string { return Digits(c.Plan) }},
	}
	if r.renews() {
		all = append(all, field{"renew", func(c *Case) string { return Digits(c.Renew) }})
	}
	columns := r.columns()
	for i, k := range columns {
		add := func(head string, cell func(*Row) string) {
			all = append(all, field{head, func(c *Case) string {
				if row := k.in(c); row != nil {
					return cell(row)
				}
				return "-"
			}})
		}
		add(k.method+"/"+k.timed, func(row *Row) string {
			return fmt.Sprintf("%s (%s-%s)", Digits(row.Device.Median), Digits(row.Device.Min),
				Digits(row.Device.Max))
		})
		if i == 0 {
			add("TFLOP/s", func(row *Row) string { return Digits(row.GFLOPS / 1e3) })
		}
		switch own := k.method == columns[0].method; {
		case !own:
			add("x", func(row *Row) string { return Digits(row.Slower) })
		case r.hasHost(k):
			add("host", func(row *Row) string {
				if row.Host == nil {
					return "-"
				}
				return Digits(row.Host.Median)
			})
		}
		if i == 0 || k.method != columns[i-1].method {
			add("error", func(row *Row) string {
				if row.Wrong != "" {
					return "WRONG"
				}
				return fmt.Sprintf("%.2g", row.Error) + row.Accuracy.text()
			})
		}
	}
	if r.Regret != nil {
		regret := func(head string, cell func(*Regret) string) {
			all = append(all, field{head, func(c *Case) string {
				if c.Regret != nil {
					return cell(c.Regret)
				}
				return "-"
			}})
		}
		regret("planner/best", func(g *Regret) string { return Digits(g.Ratio) })
		regret("best forced", func(g *Regret) string { return g.Tile + " " + g.Schedule })
	}
	return all
}

// renews reports whether cases have the planning time of an Update.
func (r *Report) renews() bool { return len(r.Cases) > 0 && r.Cases[0].Renew > 0 }

// hasHost reports whether a row of a kind has a host time.
func (r *Report) hasHost(k column) bool {
	for i := range r.Cases {
		if row := k.in(&r.Cases[i]); row != nil && row.Host != nil {
			return true
		}
	}
	return false
}

func (r *Report) writeNotes(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, n := range r.Remarks() {
		fmt.Fprintf(tw, "%s\t%s\n", n.Name, n.Text)
	}
	return tw.Flush()
}

// Remark explains a name in a report, or summarises it.
type Remark struct{ Name, Text string }

// Remarks returns what a reader of the numbers must know.
func (r *Report) Remarks() (all []Remark) {
	note := func(name, format string, args ...any) {
		all = append(all, Remark{name, fmt.Sprintf(format, args...)})
	}
	note("device", "%s, %s", r.Device, r.Driver)
	if r.Library != "" {
		note("library", "%s", r.Library)
	}
	if of := r.Elements(); of != "" {
		note("elements", "%s", of)
	}
	if r.Epilogue != "" {
		note("epilogue", "%s; plain is without", r.Epilogue)
	}
	operands := "used again, so that small cases run from the L2 cache"
	if r.Cold {
		operands = "rotated beyond the L2 cache"
	}
	note("times", "microseconds of one execution: median of %d (least-most); operands %s", r.Repeat, operands)
	for _, k := range r.columns() {
		note(k.method+"/"+k.timed, "%s", timedHow[k.timed])
	}
	note("plan", "microseconds to plan and encode the batch once more, on one core of the host")
	if r.renews() {
		note("renew", "the same for a program that is updated: the device makes the items")
	}
	note("host", "microseconds of the call, without waiting")
	note("error", "the largest against float64, as a part of what rounding explains")
	for _, s := range r.Speedups {
		note("x "+s.Method+"/"+s.Timed, "geometric mean %s, least %s (%s)", Digits(s.GeoMean),
			Digits(s.Worst), s.Case)
	}
	if s := r.Regret; s != nil {
		note("planner/best", "geometric mean %s, most %s (%s)", Digits(s.GeoMean), Digits(s.Worst), s.Case)
	}
	for _, c := range r.Cases {
		for _, row := range c.Rows {
			if row.Wrong != "" {
				note("WRONG", "%s, %s: %s", c.Workload, row.Method, row.Wrong)
			}
		}
	}
	for _, n := range r.Notes {
		note("note", "%s", n)
	}
	return all
}

// HowTimed explains a source of device times.
func HowTimed(timed string) string { return timedHow[timed] }

var timedHow = map[string]string{
	Graph:       "a node of a CUDA graph of copies, by events around the graph",
	Stream:      "back-to-back calls in a CUDA stream, by events around them",
	Calls:       "back-to-back calls, by the host's clock around them",
	"event":     "by the device's events around one submission of copies",
	"timestamp": "by the device's timestamps around one submission of copies",
	"wall":      "by the host's clock around one submission of copies",
	Live:        "the program gets the batch anew, in another order, before each run; by the host's clock",
}

// Graph and Stream are the ways to time CUDA work, Calls that of a library on the host, Live that of steps
// with changing sizes.
const (
	Graph  = "graph"
	Stream = "stream"
	Calls  = "calls"
	Live   = "live"
)

// Digits formats three significant digits without an exponent.
func Digits(x float64) string {
	switch {
	case x == 0:
		return "0"
	case math.Abs(x) < 100:
		places := 2 - int(math.Floor(math.Log10(math.Abs(x))))
		return strconv.FormatFloat(x, 'f', min(places, 6), 64)
	}
	return strconv.FormatFloat(x, 'f', 0, 64)
}

// guard prevents spreadsheets from taking a text for a formula (OWASP, "CSV Injection"): workloads have the
// names of files.
func guard(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

// WriteCSV writes a line for each row of a case. Texts that a spreadsheet would take for a formula start
// with an apostrophe.
func (r *Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }
	records := [][]string{{"workload", "problems", "gflop", "bytes", "plan_us", "schedule", "tiles", "method",
		"timed", "device_us", "device_us_min", "device_us_max",
		"host_us", "host_us_min", "host_us_max", "gflops", "slower", "error", "checked_problems", "regret",
		"best_tile", "best_schedule", "type", "type_c", "type_b"}}
	for _, c := range r.Cases {
		for i, row := range c.Rows {
			host, regret := []string{"", "", ""}, []string{"", "", ""}
			if row.Host != nil {
				host = []string{number(row.Host.Median), number(row.Host.Min), number(row.Host.Max)}
			}
			if c.Regret != nil && i == 0 {
				regret = []string{number(c.Regret.Ratio), guard(c.Regret.Tile), guard(c.Regret.Schedule)}
			}
			record := []string{guard(c.Workload), strconv.Itoa(c.Problems), number(c.GFLOP), number(c.Bytes),
				number(c.Plan),
				guard(c.Schedule), guard(strings.Join(c.Tiles, " ")), guard(row.Method), guard(row.Timed),
				number(row.Device.Median), number(row.Device.Min), number(row.Device.Max)}
			record = append(append(record, host...), number(row.GFLOPS), number(row.Slower),
				number(row.Error), strconv.Itoa(row.Checked))
			records = append(records, append(append(record, regret...), r.Type.String(), r.TypeC.String(),
				cmp.Or(r.TypeB, r.Type).String()))
		}
	}
	return out.WriteAll(records)
}
