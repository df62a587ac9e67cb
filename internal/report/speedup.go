package report

import (
	"fmt"
	"math"
	"regexp"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/batchgemm/batchgemm/internal/bench"
)

// method is a way to compute a batch, timed in one way; the first is ours.
type method struct {
	name, timed string
	tone        tone
}

// in returns the method's row of a case, or nil.
func (m *method) in(c *bench.Case) *bench.Row {
	for i := range c.Rows {
		if row := &c.Rows[i]; row.Method == m.name && row.Timed == m.timed && row.Device.Median > 0 {
			return row
		}
	}
	return nil
}

// methods lists ours, timed in the way that counts, and its rivals.
func methods(r *bench.Report) []method {
	var all []method
	if len(r.Cases) > 0 && len(r.Cases[0].Rows) > 0 {
		row := &r.Cases[0].Rows[0]
		all = append(all, method{row.Method, row.Timed, seriesTone(0)})
	}
	for i, s := range r.Speedups {
		all = append(all, method{s.Method, s.Timed, seriesTone(i + 1)})
	}
	return all
}

func keysOf(methods []method) []key {
	keys := make([]key, len(methods))
	for i, m := range methods {
		keys[i] = key{m.name, m.tone}
	}
	return keys
}

// panel is a group of cases whose speed-ups are drawn together.
type panel struct {
	name, title string
	cases       []*bench.Case
}

var zhangName = regexp.MustCompile(`^zhang-(\d+)-`)

// panels groups the cases with a rival: those of the sweep by their largest M and N, and all others
// together.
func panels(r *bench.Report, rivals []method) []*panel {
	byName := map[string]*panel{}
	var order []*panel
	for i := range r.Cases {
		c := &r.Cases[i]
		if !slices.ContainsFunc(rivals, func(m method) bool { return m.in(c) != nil }) {
			continue
		}
		name, title := "speedup", "Speed-up by batch"
		if m := zhangName.FindStringSubmatch(c.Workload); m != nil {
			name, title = "speedup-"+m[1], "M, N up to "+m[1]
		}
		p := byName[name]
		if p == nil {
			p = &panel{name: name, title: title}
			byName[name] = p
			order = append(order, p)
		}
		p.cases = append(p.cases, c)
	}
	return order
}

// speedups draws how many times as long each rival takes, with a figure for each panel. All have the same
// axis.
func speedups(r *bench.Report, rivals []method) []*figure {
	all := panels(r, rivals)
	var ratios span
	ratios.add(1)
	for _, p := range all {
		for _, c := range p.cases {
			for i := range rivals {
				if row := rivals[i].in(c); row != nil {
					ratios.add(row.Slower)
				}
			}
		}
	}
	low, high := ratios.powers(2)
	wide := vg.Length(panelWidth) // side by side
	switch len(all) {
	case 1:
		wide = fullWidth
	case 2:
		wide = halfWidth
	}
	var figures []*figure
	for _, p := range all {
		figures = append(figures, &figure{
			Name:  p.name,
			Label: fmt.Sprintf("Bars: how many times as long each rival takes, for %d batches", len(p.cases)),
			wide:  wide,
			layout: func(width vg.Length) (vg.Length, func(draw.Canvas)) {
				bars := &ratioBars{cases: p.cases, rivals: rivals, size: barSize(len(p.cases))}
				plotted := newPlot(p.title)
				logScale(&plotted.X, low, high, powerTicks{2, 7, times})
				bars.rows(plotted)
				plotted.Add(gridLines{x: true}, bars)
				return withLegend(keysOf(rivals), width, vg.Length(len(p.cases))*bars.pitch()+64,
					named(plotted, "times as long as batchgemm", ""))
			},
		})
	}
	return figures
}

// barSize returns thick bars, with room for a number, if there are few cases.
func barSize(cases int) vg.Length {
	if cases <= 8 {
		return 13
	}
	return 5
}

// ratioBars are rows of bars that start at 1, one bar for each rival.
type ratioBars struct {
	cases  []*bench.Case
	rivals []method
	size   vg.Length
}

// pitch returns the height of a row.
func (b *ratioBars) pitch() vg.Length { return max(vg.Length(len(b.rivals))*b.size, 8) + 6 }

// rows makes Y the axis of rows, with the first at the top.
func (b *ratioBars) rows(p *plot.Plot) {
	var names plot.ConstantTicks
	for i, c := range b.cases {
		names = append(names, plot.Tick{Value: float64(-i), Label: shorten(c.Workload)})
	}
	rowAxis(p, names)
}

// rowAxis makes Y an axis of rows, which start at 0 and go down.
func rowAxis(p *plot.Plot, names plot.ConstantTicks) {
	p.Y.Tick.Marker = names
	p.Y.Tick.Label.YAlign = text.YCenter
	p.Y.Min, p.Y.Max = 0.5-float64(len(names)), 0.5
}

// shorten shortens a name to the room for it.
func shorten(name string) string {
	const most = 22
	if runes := []rune(name); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return name
}

func (b *ratioBars) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	one := tx(1)
	style := textStyle(ink, smallText)
	for i, bc := range b.cases {
		top := ty(float64(-i)) + vg.Length(len(b.rivals))*b.size/2
		for j := range b.rivals {
			row := b.rivals[j].in(bc)
			if row == nil {
				continue
			}
			at := tx(row.Slower)
			y := top - vg.Length(j+1)*b.size
			from, to := min(one, at), max(one, at)
			if to-from < 1 {
				to = from + 1 // to show equal times
			}
			c.SetColor(b.rivals[j].tone.rgba())
			c.Fill(vg.Rectangle{Min: vg.Point{X: from, Y: y + 0.5},
				Max: vg.Point{X: to, Y: y + b.size - 0.5}}.Path())
			if b.size < 10 {
				continue
			}
			label, x, shade := bench.Digits(row.Slower)+"×", to+4, ink
			if w := style.Width(label); x+w > c.Max.X {
				x, shade = to-4-w, surface // such a long bar has room
			}
			fillText(&c, textStyle(shade, smallText), vg.Point{X: x, Y: y + b.size/2}, label)
		}
	}
	c.StrokeLine2(line(ink, 1), one, c.Min.Y, one, c.Max.Y)
}

// better returns the number of cases in which a rival takes longer.
func better(r *bench.Report, m *method) (longer, all int) {
	for i := range r.Cases {
		if row := m.in(&r.Cases[i]); row != nil {
			all++
			if row.Slower > 1 {
				longer++
			}
		}
	}
	return longer, all
}

// finite reports whether x can be drawn on a logarithmic axis.
func finite(x float64) bool { return x > 0 && !math.IsInf(x, 0) }
