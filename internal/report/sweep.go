package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/batchgemm/batchgemm/internal/bench"
)

// Sweep is how many times as fast as a rival some methods are, over many batches: the picture of README.md.
type Sweep struct {
	Rival   string // full name
	Short   string // short name
	Methods []Speeds
}

// Speeds are those of a method.
type Speeds struct {
	Name    string
	Batches []Speed
}

// Speed is that of a method on a batch.
type Speed struct {
	GFLOP float64 // of the batch
	Times float64 // as fast as the rival
}

// WriteSVG draws the picture for a light or a dark page. It leaves out methods without batches; at least one
// must have batches.
func (s *Sweep) WriteSVG(w io.Writer, dark bool) error {
	if !slices.ContainsFunc(s.Methods, func(m Speeds) bool { return len(m.Batches) > 0 }) {
		return errors.New("no batches to draw")
	}
	var svg strings.Builder
	if err := s.figure().writeSVG(&svg); err != nil {
		return err
	}
	var colors []string
	if dark {
		for _, t := range tones() {
			colors = append(colors, t.light, t.dark)
		}
	}
	_, err := strings.NewReplacer(colors...).WriteString(w, svg.String())
	return err
}

func (s *Sweep) figure() *figure {
	const (
		width, height = 400, 270 // so narrow that its texts are large enough on a phone
		margin        = 6
		names         = 102 // room for the names of the methods
	)
	return &figure{
		wide: width,
		layout: func(vg.Length) (vg.Length, func(draw.Canvas)) {
			var xs, ys span
			ys.add(1)
			means := &means{{name: s.Short, times: 1, tone: muted}}
			marks := []mark{dot(3), ring(2.5), plus(2.8)}
			p := newPlot("")
			p.Add(gridLines{x: true, y: true}, means)
			for i, m := range slices.Backward(s.Methods) { // the first one on top
				if len(m.Batches) == 0 {
					continue
				}
				dots := &dots{tone: seriesTone(i), mark: marks[i%len(marks)]}
				var all []float64
				for _, b := range m.Batches {
					xs.add(b.GFLOP)
					ys.add(b.Times)
					all = append(all, b.Times)
					dots.xys = append(dots.xys, plotter.XY{X: b.GFLOP, Y: b.Times})
				}
				*means = append(*means, mean{m.Name, bench.GeoMean(all), dots.tone, dots.mark})
				p.Add(dots)
			}
			const aside = 1.25 // keeps the outermost points away from the edges
			logScale(&p.X, xs.low/aside, xs.high*aside, powerTicks{10, 7, plain})
			low, high := ys.powers(2)
			logScale(&p.Y, low, high, powerTicks{2, 7, times})
			paint := named(p, "work in the batch, GFLOP", "times as fast as "+s.Rival)
			return height, func(c draw.Canvas) {
				c.SetColor(surface.rgba())
				c.Fill(c.Rectangle.Path())
				paint(draw.Crop(c, margin, -margin-names, margin, -margin))
			}
		},
	}
}

// means are lines at the geometric means, with their names to the right of the plot.
type means []mean

type mean struct {
	name  string
	times float64
	tone  tone
	mark  mark // nil: for the rival
}

func (m *means) Plot(c draw.Canvas, p *plot.Plot) {
	_, ty := p.Transforms(&c)
	const apart = largeText + 4 // of the names
	slices.SortFunc(*m, func(a, b mean) int { return cmp.Compare(a.times, b.times) })
	at := make([]vg.Length, len(*m))
	for i, one := range *m {
		at[i] = ty(one.times)
		c.StrokeLine2(line(one.tone, 1.5), c.Min.X, at[i], c.Max.X, at[i])
		if i > 0 {
			at[i] = max(at[i], at[i-1]+apart)
		}
	}
	for i, one := range *m {
		if one.mark != nil {
			one.mark(&c, vg.Point{X: c.Max.X + 9, Y: at[i]}, one.tone)
		}
		fillText(&c, textStyle(ink, largeText), vg.Point{X: c.Max.X + 17, Y: at[i]},
			fmt.Sprintf("%.2g× %s", one.times, one.name))
	}
	fillText(&c, textStyle(muted, smallText), vg.Point{X: c.Max.X + 6, Y: at[len(at)-1] + apart + 2},
		"geometric means")
}
