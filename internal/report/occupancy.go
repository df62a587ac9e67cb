package report

import (
	"fmt"
	"github.com/batchgemm/batchgemm/planner"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/batchgemm/batchgemm/internal/tile"
)

// tileUse is a tile shape on the device.
type tileUse struct {
	name   string
	active float64 // share of the waves that a compute unit can hold
	note   string  // resident groups, and their limit
	used   bool    // by a plan of the report
}

func tileUses(data *Data) []tileUse {
	used := map[string]bool{}
	for _, c := range data.Bench.Cases {
		for _, name := range c.Tiles {
			used[name] = true
		}
	}
	var all []tileUse
	for _, t := range tile.Table() {
		u := tileUse{name: t.Name, note: "does not run", used: used[t.Name]}
		if data.Device.Fits(t, planner.Options{Compute: data.Compute}) {
			o := data.Device.Resident(t.Threads, data.Device.Kernel(t).Resources)
			u.active, u.note = o.Active, fmt.Sprintf("%d, %s", o.Groups, o.Limiter)
		}
		all = append(all, u)
	}
	return all
}

// occupancies draws the share of a compute unit's waves that each tile shape fills.
func occupancies(data *Data) *figure {
	uses := tileUses(data)
	return &figure{
		Name:  "occupancy",
		Label: fmt.Sprintf("Bars: occupancy of %d tile shapes", len(uses)),
		wide:  halfWidth,
		layout: func(width vg.Length) (vg.Length, func(draw.Canvas)) {
			p := newPlot("")
			p.X.Min, p.X.Max = 0, 100
			p.X.Tick.Marker = evenTicks{int(width / 80)}
			var names plot.ConstantTicks
			for i, u := range uses {
				names = append(names, plot.Tick{Value: float64(-i), Label: u.name})
			}
			rowAxis(p, names)
			p.Add(gridLines{x: true}, tileBars(uses))
			keys := []key{{"in a plan of this page", series[0]}, {"not used", faint}}
			return withLegend(keys, width, vg.Length(17*len(uses)+44), func(c draw.Canvas) {
				const room = 108 // for the notes
				named(p, "% of the waves that a compute unit can hold", "")(draw.Crop(c, 0, -room, 0, 0))
			})
		},
	}
}

// tileBars are the bars, with notes to the right of the plot.
type tileBars []tileUse

func (b tileBars) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	for i, u := range b {
		shade := faint
		if u.used {
			shade = series[0]
		}
		y := ty(float64(-i))
		c.SetColor(shade.rgba())
		c.Fill(vg.Rectangle{Min: vg.Point{X: c.Min.X, Y: y - 5},
			Max: vg.Point{X: tx(100 * u.active), Y: y + 5}}.Path())
		const gap = 20 // half of the last tick's label and some more
		fillText(&c, textStyle(muted, smallText), vg.Point{X: c.Max.X + gap, Y: y}, u.note)
	}
}
