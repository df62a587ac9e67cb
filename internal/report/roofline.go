package report

import (
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/batchgemm/batchgemm/internal/bench"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// peak is what a GPU can do besides planner.Device.TFLOPS.
type peak struct {
	bandwidth float64 // of memory, TB/s
	tf32      float64 // of tensor cores on dense matrices, TFLOPS; 0: our kernels do not use them
}

// peaks are from the data sheets of the parts in the planner's table: "NVIDIA H200", "NVIDIA H100" (SXM),
// "AMD Instinct MI210", "MI100" and "MI300X". A100 and A800 have two kinds of memory, which the table does
// not distinguish.
var peaks = map[string]peak{
	"h200":        {4.8, 494},
	"h200-webgpu": {4.8, 0},
	"h100":        {3.35, 494},
	"mi210":       {1.6, 0},
	"mi100":       {1.2, 0},
	"mi300x":      {5.3, 0},
}

// roof is the limits of a device.
type roof struct {
	bandwidth float64 // TB/s
	levels    []level // lowest first
}

type level struct {
	tflops float64
	name   string
}

// roofOf returns nil if the peaks of a device are unknown. Those for 16-bit types are unknown.
func roofOf(data *Data) *roof {
	d, c := &data.Device, data.Compute
	known, ok := peaks[d.Name]
	if !ok || data.Bench.Type != element.F32 {
		return nil
	}
	r := &roof{bandwidth: known.bandwidth, levels: []level{{d.TFLOPS, "fp32 FMA"}}}
	switch {
	case known.tf32 == 0 || c == planner.ComputeF32:
	case c == planner.ComputeTF32:
		r.levels = append(r.levels, level{known.tf32, "tf32"})
	default:
		r.levels = append(r.levels, level{known.tf32 / 3, "three tf32 products"})
	}
	return r
}

// intensity returns the FLOPs of a case for each byte that it must move.
func intensity(c *bench.Case) float64 { return c.GFLOP * 1e9 / c.Bytes }

// roofline draws every case as a point for each method. It is nil if no case has work.
func roofline(data *Data, all []method) *figure {
	points := make([]plotter.XYs, len(all))
	var xs, ys span
	for i := range data.Bench.Cases {
		c := &data.Bench.Cases[i]
		for j := range all {
			row := all[j].in(c)
			if row == nil || !finite(intensity(c)) || !finite(row.GFLOPS) {
				continue
			}
			p := plotter.XY{X: intensity(c), Y: row.GFLOPS}
			points[j] = append(points[j], p)
			xs.add(p.X)
			ys.add(p.Y)
		}
	}
	if !xs.any {
		return nil
	}
	top := roofOf(data)
	if top != nil {
		for _, l := range top.levels {
			ys.add(1e3 * l.tflops)
			xs.add(l.tflops / top.bandwidth) // where it bends
		}
	}
	unit, per := rateUnit(ys.high)
	ys.low, ys.high = ys.low/per, ys.high/per
	for _, list := range points {
		for i := range list {
			list[i].Y /= per
		}
	}
	return &figure{
		Name:  "roofline",
		Label: fmt.Sprintf("Rates of %d batches against their FLOPs for each byte", len(data.Bench.Cases)),
		wide:  halfWidth,
		layout: func(width vg.Length) (vg.Length, func(draw.Canvas)) {
			p := newPlot("")
			p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
			ticks := func(base float64) powerTicks { return powerTicks{base, 7, plain} }
			low, high := xs.powers(2)
			logScale(&p.X, low, high, ticks(2))
			low, high = ys.powers(10)
			if top == nil && high/low < 1000 {
				low, high = ys.powers(2)
				logScale(&p.Y, low, high, ticks(2))
			} else {
				logScale(&p.Y, low, high, ticks(10))
			}
			p.Add(gridLines{x: true, y: true})
			if top != nil {
				p.Add(top)
			}
			for j := len(all) - 1; j >= 0; j-- { // ours on top
				mark := dot(2.2)
				if j == 0 {
					mark = dot(3)
				}
				p.Add(&dots{points[j], all[j].tone, mark})
			}
			return withLegend(keysOf(all), width, 330, named(p, "FLOP for each byte of A, B and C", unit))
		},
	}
}

// Plot draws the slope of memory and the levels, with their names.
func (r *roof) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	style := textStyle(muted, smallText)
	stroke := line(muted, 1.2)
	reach := 0.0 // TFLOPS up to which the slope is drawn
	for _, l := range r.levels {
		bend := l.tflops / r.bandwidth
		reach = max(reach, l.tflops)
		from := max(bend, p.X.Min)
		if from < p.X.Max {
			c.StrokeLine2(stroke, tx(from), ty(l.tflops), tx(p.X.Max), ty(l.tflops))
		}
		label := style
		label.XAlign = text.XRight
		c.FillText(label, vg.Point{X: c.Max.X - 2, Y: ty(l.tflops) + 3},
			fmt.Sprintf("%s, %.3g TFLOP/s", l.name, l.tflops))
	}
	start := max(p.X.Min, p.Y.Min/r.bandwidth)
	end := min(p.X.Max, reach/r.bandwidth)
	if start >= end {
		return
	}
	x0, y0, x1, y1 := tx(start), ty(start*r.bandwidth), tx(end), ty(end*r.bandwidth)
	c.StrokeLine2(stroke, x0, y0, x1, y1)
	label := style
	label.Rotation = math.Atan2(float64(y1-y0), float64(x1-x0))
	c.FillText(label, vg.Point{X: x0 + 0.12*(x1-x0) - 5, Y: y0 + 0.12*(y1-y0) + 5},
		fmt.Sprintf("memory, %.3g TB/s", r.bandwidth))
}

// dots are points, many of which may overlap.
type dots struct {
	xys  plotter.XYs
	tone tone
	mark mark
}

func (d *dots) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	for _, xy := range d.xys {
		d.mark(&c, vg.Point{X: tx(xy.X), Y: ty(xy.Y)}, d.tone)
	}
}
