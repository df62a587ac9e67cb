package report

import (
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/batchgemm/batchgemm/internal/bench"
)

// errorShares returns, for each checked method, the share of elements in each bin of bench.Row.Errors.
func errorShares(r *bench.Report, all []method) (shares [][]float64, checked []method) {
	for _, m := range all {
		var counts []int64
		total := 0.0
		for i := range r.Cases {
			row := m.in(&r.Cases[i])
			if row == nil {
				continue
			}
			for j, n := range row.Errors {
				if j == len(counts) {
					counts = append(counts, 0)
				}
				counts[j] += n
				total += float64(n)
			}
		}
		if total == 0 {
			continue
		}
		share := make([]float64, len(counts))
		for j, n := range counts {
			share[j] = float64(n) / total
		}
		shares, checked = append(shares, share), append(checked, m)
	}
	return shares, checked
}

// errorsFigure draws the distribution of errors over the elements of C. It is nil if none were counted.
func errorsFigure(r *bench.Report, all []method) *figure {
	shares, checked := errorShares(r, all)
	if len(shares) == 0 {
		return nil
	}
	const rare = 0.001 // share of the elements
	bins, highest, rarest := 0, 0.0, 0
	for _, share := range shares {
		bins = max(bins, len(share))
		for i, x := range share {
			highest = max(highest, x)
			if x > rare && i < len(share)-1 {
				rarest = max(rarest, i)
			}
		}
	}
	shown := min(rarest+2, bins) // the others are one bin
	return &figure{
		Name:  "errors",
		Label: "Distribution of errors, as parts of what rounding explains",
		wide:  halfWidth,
		layout: func(width vg.Length) (vg.Length, func(draw.Canvas)) {
			p := newPlot("")
			p.Add(gridLines{x: true, y: true})
			for i := len(shares) - 1; i >= 0; i-- {
				width := vg.Length(1.4)
				if i == 0 {
					width = 2.4
				}
				p.Add(&steps{shares[i], shown, checked[i].tone, width})
			}
			p.X.Min, p.X.Max = float64(-shown), 0
			p.X.Tick.Marker = binTicks{shown, int(width / 64)}
			p.Y.Min, p.Y.Max = 0, 105*highest
			p.Y.Tick.Marker = evenTicks{6}
			return withLegend(keysOf(checked), width, 330, named(p, "error / bound", "% of the elements"))
		},
	}
}

// binTicks marks powers of two; the lowest stands for zero.
type binTicks struct{ shown, most int }

func (t binTicks) Ticks(_, _ float64) []plot.Tick {
	every := max(1, (t.shown+t.most-1)/max(t.most, 1))
	var ticks []plot.Tick
	for e := 0; e < t.shown; e += every {
		label := "1"
		if e > 0 {
			label = fmt.Sprintf("2^-%d", e)
		}
		ticks = append(ticks, plot.Tick{Value: float64(-e), Label: label})
	}
	return ticks
}

// steps is a histogram, drawn as an outline. Elements of bins that are not shown count in the last bin.
type steps struct {
	share []float64
	shown int
	tone  tone
	width vg.Length
}

func (s *steps) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	var outline plotter.XYs
	for i := range s.shown {
		y := 0.0
		if i < len(s.share) {
			y = 100 * s.share[i]
		}
		if i == s.shown-1 {
			y = 0
			for _, x := range s.share[min(i, len(s.share)):] {
				y += 100 * x
			}
		}
		outline = append(outline, plotter.XY{X: float64(-i), Y: y}, plotter.XY{X: float64(-i - 1), Y: y})
	}
	points := []vg.Point{{X: tx(0), Y: ty(0)}}
	for _, xy := range outline {
		points = append(points, vg.Point{X: tx(xy.X), Y: ty(xy.Y)})
	}
	points = append(points, vg.Point{X: tx(float64(-s.shown)), Y: ty(0)})
	c.StrokeLines(line(s.tone, s.width), points)
}
