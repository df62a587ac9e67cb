package report

import (
	"fmt"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// planning draws the time to plan against the size of the batch. It is nil if it was not measured.
func planning(all []Planning) *figure {
	var fresh, again, renewed plotter.XYs
	var xs, ys span
	for _, p := range all {
		for _, s := range []struct {
			to     *plotter.XYs
			micros float64
		}{{&fresh, p.New}, {&again, p.Again}, {&renewed, p.Renewed}} {
			if x := float64(p.Problems); finite(x) && finite(s.micros) {
				*s.to = append(*s.to, plotter.XY{X: x, Y: s.micros})
				xs.add(x)
				ys.add(s.micros)
			}
		}
	}
	if !xs.any {
		return nil
	}
	lines := []struct {
		key
		xys plotter.XYs
	}{{key{"in memory of an earlier plan", series[0]}, again}, {key{"in new memory", series[1]}, fresh},
		{key{"for an update", series[2]}, renewed}}
	return &figure{
		Name: "planning",
		Label: fmt.Sprintf("Lines: microseconds to plan a batch of %d to %d problems", all[0].Problems,
			all[len(all)-1].Problems),
		wide: halfWidth,
		layout: func(width vg.Length) (vg.Length, func(draw.Canvas)) {
			p := newPlot("")
			low, high := xs.powers(2)
			logScale(&p.X, low, high, powerTicks{2, 10, plain})
			low, high = ys.powers(10)
			logScale(&p.Y, low, high, powerTicks{10, 7, plain})
			p.Add(gridLines{x: true, y: true})
			var keys []key
			for _, l := range lines {
				keys = append(keys, l.key)
				if drawn, err := plotter.NewLine(l.xys); err == nil { // all numbers are finite
					drawn.LineStyle = line(l.tone, 2)
					p.Add(drawn)
				}
				p.Add(&dots{l.xys, l.tone, dot(3)})
			}
			p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = xs.low/1.15, xs.high*1.15, low, high
			return withLegend(keys, width, 330, named(p, "problems in the batch", "microseconds"))
		},
	}
}
