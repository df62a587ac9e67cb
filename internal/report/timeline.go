package report

import (
	"fmt"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/timeline"
)

// maxLanes bounds the number of workgroup places that are drawn. If there are more, those of evenly spaced
// compute units are drawn.
const maxLanes = 160

// timelines draws which worker works when, predicted and measured, on one time axis.
func timelines(chosen *Timeline) *figure {
	names := []string{"predicted"}
	if !chosen.Predicted.Plan.Device.Measured() {
		names[0] = "predicted (a guess)"
	}
	all := []*timeline.Timeline{chosen.Predicted}
	if chosen.Measured != nil {
		names, all = append(names, "measured"), append(all, chosen.Measured)
	}
	keys := launchKeys(chosen.Predicted)
	end := 0.0
	for _, t := range all {
		end = max(end, t.Total)
	}
	if end == 0 {
		return nil // a plan without work
	}
	return &figure{
		Name:  "timeline",
		Label: "Workers of each compute unit over time, " + chosen.Workload,
		wide:  fullWidth,
		layout: func(width vg.Length) (vg.Length, func(draw.Canvas)) {
			heights := vg.Length(0)
			plots := make([][]*plot.Plot, len(all))
			for i, t := range all {
				w := newWork(t)
				p := newPlot(fmt.Sprintf("%s: %.3g µs", names[i], t.Total))
				p.X.Min, p.X.Max = 0, end
				p.X.Tick.Marker = evenTicks{int(width / 70)}
				p.Y.Min, p.Y.Max = -float64(len(w.lanes)), 0
				p.Y.Tick.Marker = w.unitTicks()
				p.Add(gridLines{x: true}, w)
				plots[i] = []*plot.Plot{p}
				heights = max(heights, min(max(3*vg.Length(len(w.lanes)), 60), 240))
			}
			const frame = 60 // title and axis of a part
			return withLegend(keys, width, vg.Length(len(all))*(heights+frame), func(c draw.Canvas) {
				tiles := draw.Tiles{Rows: len(all), Cols: 1, PadY: 10}
				for i, row := range plot.Align(plots, tiles, draw.Crop(c, 0, 0, 17, 0)) {
					plots[i][0].Draw(row[0])
					if i == len(all)-1 {
						nameX(&c, plots[i][0].DataCanvas(row[0]), "microseconds")
					}
				}
			})
		},
	}
}

// launchKeys names the kernels of the launches. Launches of one kernel share a colour.
func launchKeys(t *timeline.Timeline) (keys []key) {
	for i := range t.Plan.Launches {
		k := key{t.Plan.Launches[i].Kernel.String(), launchTone(t, i)}
		if !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys
}

func launchTone(t *timeline.Timeline, launch int) tone {
	l := &t.Plan.Launches[launch]
	if l.Fixup {
		return muted
	}
	first := slices.IndexFunc(t.Plan.Launches, func(other encoding.Launch) bool {
		return other.Kernel == l.Kernel
	})
	return seriesTone(first)
}

// work draws the bars of a timeline.
type work struct {
	*timeline.Timeline
	lanes []int // drawn lanes, from the top
}

func newWork(t *timeline.Timeline) *work { return &work{t, t.Sample(maxLanes)} }

// unitTicks names some of the compute units, at their first lanes.
func (w *work) unitTicks() (ticks plot.ConstantTicks) {
	const most = 8
	every := (len(w.lanes) + most - 1) / most
	next := 0
	for i, lane := range w.lanes {
		if l := w.Lanes[lane]; i >= next && (i == 0 || l.Unit != w.Lanes[w.lanes[i-1]].Unit) {
			ticks = append(ticks, plot.Tick{Value: -float64(i) - 0.5, Label: fmt.Sprint("unit ", l.Unit)})
			next = i + every
		}
	}
	return ticks
}

// bar is a worker's stretch of time.
type bar struct{ from, to vg.Length }

func (w *work) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	rows := map[int]int{}
	for i, lane := range w.lanes {
		rows[lane] = i
	}
	paths := map[tone]*vg.Path{}
	add := func(t tone, row int, b bar) {
		if paths[t] == nil {
			paths[t] = new(vg.Path)
		}
		top, bottom := ty(-float64(row)), ty(-float64(row)-1)
		gap := min(0.5, 0.2*(top-bottom))
		*paths[t] = append(*paths[t], vg.Rectangle{Min: vg.Point{X: b.from, Y: bottom + gap},
			Max: vg.Point{X: b.to, Y: top}}.Path()...)
	}
	for i := 0; i < len(w.Bars); {
		first := &w.Bars[i]
		row, drawn := rows[first.Lane]
		shade := launchTone(w.Timeline, first.Launch)
		b := bar{tx(first.Start), tx(first.End)}
		i++
		// A worker's segments are one bar. If they are narrower than about two points, others would be lost
		// in the gaps between them.
		for ; i < len(w.Bars); i++ {
			next := &w.Bars[i]
			from, to := tx(next.Start), tx(next.End)
			same := next.Lane == first.Lane && next.Launch == first.Launch
			narrow := b.to-b.from < 2 || to-from < 2
			if !same || next.Worker != first.Worker && !(narrow && from-b.to < 0.5) {
				break
			}
			b.to = to
		}
		if drawn {
			b.to = max(b.to-0.4, b.from+0.4)
			add(shade, row, b)
		}
	}
	for _, t := range append(slices.Clone(series), muted) {
		if paths[t] != nil {
			c.SetColor(t.rgba())
			c.Fill(*paths[t])
		}
	}
	c.StrokeLine2(line(ink, 1, 3, 3), tx(w.Total), c.Min.Y, tx(w.Total), c.Max.Y)
}

// busy returns the share of the time of places with work in which workgroups run.
func busy(t *timeline.Timeline) float64 {
	sum := 0.0
	for i := range t.Bars {
		sum += t.Bars[i].End - t.Bars[i].Start
	}
	if all := t.Total * float64(len(t.Lanes)); all > 0 {
		return sum / all
	}
	return 0
}
