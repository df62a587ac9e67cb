package timeline

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"

	svg "github.com/ajstarks/svgo"

	"github.com/batchgemm/batchgemm/planner"
)

// Sizes of the drawing in pixels.
const (
	maxLanes   = 96 // if there are more, those of evenly spaced units are drawn
	left       = 90 // of the chart: room for lane names
	top        = 96
	chartWidth = 1080
	legendLine = 18
	margin     = 20
)

var css = fmt.Sprintf(`
text { font: %dpx %s; fill: #222 }
.title { font-size: %dpx; font-weight: bold }
.note { fill: #666 }
.lane { font-size: %dpx; text-anchor: end; fill: #666 }
.tick { text-anchor: middle; fill: #666 }
.grid { stroke: #ddd }
.launch { stroke: #444; stroke-dasharray: 4 3 }
.bar { stroke: #fff; stroke-width: 0.5 }
.partial { fill-opacity: 0.55 }
`, textSize, fonts, titleSize, laneSize)

// palette is Paul Tol's qualitative scheme "muted", which colour-blind readers can distinguish, with two
// more colours; fixupColor is for fix-ups.
var palette = [...]string{
	"#332288", "#88ccee", "#44aa99", "#117733", "#999933", "#ddcc77",
	"#cc6677", "#882255", "#aa4499", "#4477aa", "#ee8866", "#66bb55",
}

const fixupColor = "#555555"

// drawing is an SVG file being written.
type drawing struct {
	*Timeline
	*svg.SVG
	lanes      []int // drawn lanes
	laneHeight int
	byProblem  bool    // colours are for problems, otherwise for tile shapes
	unit       string  // of the time axis
	predicted  string  // says that it is predicted, and whether it is a guess
	perUnit    float64 // microseconds
}

// WriteSVG draws a lane for each place of a workgroup and a bar for each segment, with tool tips. It thins
// out large plans, and says so in the drawing.
func (t *Timeline) WriteSVG(w io.Writer, title string) error {
	buf := bufio.NewWriter(w)
	d := &drawing{Timeline: t, SVG: svg.New(buf), lanes: t.Sample(maxLanes),
		byProblem: len(t.Plan.Batch) <= len(palette)}
	d.unit, d.perUnit = "µs", 1
	if t.Total >= 1e4 {
		d.unit, d.perUnit = "ms", 1e3
	}
	d.predicted = "predicted"
	if !t.Plan.Device.Measured() {
		d.predicted = "predicted (a guess)"
	}
	d.laneHeight = min(max(640/max(len(d.lanes), 1), 7), 24)
	legend := d.legend()
	height := d.bottom() + 40 + legendLine*((len(legend)+1)/2) + margin
	d.Start(left+chartWidth+margin, height)
	d.Style("text/css", css)
	d.Rect(0, 0, left+chartWidth+margin, height, `fill="#fff"`)
	d.header(title)
	d.axis()
	merged := d.bars()
	d.launches()
	d.footer(legend, merged)
	d.End()
	return buf.Flush() // reports earlier errors too
}

// Sample selects lanes to draw: all, or all lanes of evenly spaced units if there are more than most.
func (t *Timeline) Sample(most int) []int {
	lanes := t.Lanes
	firsts := []int{} // first lane of each unit
	widest := 1       // lanes of a unit
	for i, l := range lanes {
		if i == 0 || l.Unit != lanes[i-1].Unit {
			firsts = append(firsts, i)
		}
		widest = max(widest, i-firsts[len(firsts)-1]+1)
	}
	units := len(firsts)
	if len(lanes) > most {
		units = max(most/widest, 1)
	}
	var picked []int
	for i := range units {
		first := firsts[i*len(firsts)/units]
		for j := first; j < len(lanes) && lanes[j].Unit == lanes[first].Unit; j++ {
			picked = append(picked, j)
		}
	}
	return picked
}

func (d *drawing) bottom() int { return top + d.laneHeight*max(len(d.lanes), 1) }

// x returns the pixel of a time.
func (d *drawing) x(micros float64) int {
	if d.Total <= 0 {
		return left
	}
	return left + int(math.Round(micros/d.Total*chartWidth))
}

func (d *drawing) header(title string) {
	p := d.Plan
	d.Text(margin, 28, title, `class="title"`)
	d.text(margin, 48, fmt.Sprintf("%s, %d compute units: %s, %d workers, %d segments, %s %.4g %s",
		p.Device.Name, units(p.Device), p.Explain().Schedule, len(p.Workers)-1, len(p.Segments), d.predicted,
		d.Total/d.perUnit, d.unit), "head")
	note := fmt.Sprintf("one lane for each place of a workgroup; %d of %d places have work",
		len(d.Lanes), d.Places)
	if len(d.lanes) < len(d.Lanes) {
		note += fmt.Sprintf("; %d of them are drawn", len(d.lanes))
	}
	d.text(margin, 66, note, "note")
}

// axis draws the grid, the time axis and the lane names.
func (d *drawing) axis() {
	step := tick(d.Total / d.perUnit)
	for i := 0; float64(i)*step*d.perUnit <= d.Total; i++ {
		x := d.x(float64(i) * step * d.perUnit)
		d.Line(x, top, x, d.bottom(), `class="grid"`)
		d.text(x, d.bottom()+16, fmt.Sprintf("%.4g", float64(i)*step), "tick")
		if step == 0 {
			break
		}
	}
	d.text(left, d.bottom()+32, d.unit+", "+d.predicted, "note")
	free := 0 // first place where the next name would not cover the last one
	for row, lane := range d.lanes {
		l, y := d.Lanes[lane], top+row*d.laneHeight
		if first := row == 0 || l.Unit != d.Lanes[d.lanes[row-1]].Unit; first && y >= free {
			d.text(left-6, y+min(d.laneHeight, 16)-2, fmt.Sprintf("unit %d", l.Unit), "lane")
			free = y + 11
		}
	}
}

// tick returns the distance of marks on the time axis: 1, 2 or 5 times a power of ten, with at most 12
// marks.
func tick(total float64) float64 {
	if total <= 0 {
		return 0
	}
	step := math.Pow(10, math.Floor(math.Log10(total/12)))
	for _, factor := range []float64{1, 2, 5} {
		if total/(step*factor) <= 12 {
			return step * factor
		}
	}
	return step * 10
}

// bars draws the lanes and returns how many bars were too narrow to be seen.
func (d *drawing) bars() (merged int) {
	last, lane := 0, -1 // of the current lane
	rows := make(map[int]int, len(d.lanes))
	for i, l := range d.lanes {
		rows[l] = i
	}
	for i := range d.Bars {
		b := &d.Bars[i]
		row, drawn := rows[b.Lane]
		if !drawn {
			continue
		}
		if b.Lane != lane {
			lane, last = b.Lane, left
		}
		from, to := max(d.x(b.Start), last), d.x(b.End)
		if to <= from {
			merged++
			continue
		}
		last = to
		class := "bar"
		if b.Partial {
			class = "bar partial"
		}
		d.Group(fmt.Sprintf(`fill="%s" class="%s"`, d.color(b), class))
		d.Title(d.tip(b))
		d.Rect(from, top+row*d.laneHeight, to-from, d.laneHeight-1)
		d.Gend()
	}
	return merged
}

func (d *drawing) color(b *Bar) string {
	switch {
	case b.Fixup:
		return fixupColor
	case d.byProblem:
		return palette[b.Problem%len(palette)]
	}
	return d.shade(b.Problem)
}

// shade returns the colour of a problem's tile shape.
func (d *drawing) shade(problem int) string {
	kernels := d.Plan.Device.Kernels
	return palette[slices.IndexFunc(kernels, func(k planner.KernelFacts) bool {
		return k.Tile == d.Plan.Tiles[problem]
	})%len(palette)]
}

// tip returns the text under the pointer.
func (d *drawing) tip(b *Bar) string {
	q, tile := &d.Plan.Batch[b.Problem], d.Plan.Tiles[b.Problem]
	lane := d.Lanes[b.Lane]
	head := fmt.Sprintf("problem %d (%dx%dx%d), tile %s [%d,%d]", b.Problem, q.M, q.N, q.K,
		tile.Name, b.Row, b.Col)
	where := fmt.Sprintf("unit %d, place %d, launch %d, worker %d, %.4g to %.4g %s",
		lane.Unit, lane.Place, b.Launch, b.Worker, b.Start/d.perUnit, b.End/d.perUnit, d.unit)
	switch {
	case b.Fixup:
		return fmt.Sprintf("%s: adds %d partial tiles\n%s", head, b.K1, where)
	case b.Partial:
		return fmt.Sprintf("%s: K %d to %d, partial\n%s", head, b.K0, b.K1, where)
	}
	return fmt.Sprintf("%s: K %d to %d\n%s", head, b.K0, b.K1, where)
}

// launches marks the start of each launch.
func (d *drawing) launches() {
	start := 0.0
	free := 0 // first place where the next name would not cover the last one
	for i := range d.Plan.Launches {
		l := &d.Plan.Launches[i]
		x := d.x(start)
		d.Line(x, top-6, x, d.bottom(), `class="launch"`)
		name := fmt.Sprintf("%d: %v", i, l.Kernel)
		width := int(math.Ceil(textWidth(name, textSize)))
		if at := min(x+3, left+chartWidth+margin-width); at >= free {
			d.text(at, top-8, name, "note")
			free = at + width + textSize
		}
		start += l.Cost
	}
}

// legendEntry is a colour with its meaning.
type legendEntry struct{ color, class, text string }

func (d *drawing) legend() []legendEntry {
	var list []legendEntry
	seen := map[string]bool{}
	partial, fixup := false, false
	for i := range d.Bars {
		b := &d.Bars[i]
		partial, fixup = partial || b.Partial, fixup || b.Fixup
	}
	for i, q := range d.Plan.Batch {
		tile := d.Plan.Tiles[i]
		color, text := d.shade(i), fmt.Sprintf("tile %v", tile)
		if d.byProblem {
			color, text = palette[i], fmt.Sprintf("problem %d: %dx%dx%d, tile %v", i, q.M, q.N, q.K, tile)
		}
		if !seen[color] {
			seen[color] = true
			list = append(list, legendEntry{color, "bar", text})
		}
	}
	if partial {
		list = append(list, legendEntry{"#332288", "bar partial",
			"paler: part of a tile's K range, stored as a partial tile"})
	}
	if fixup {
		list = append(list, legendEntry{fixupColor, "bar", "fix-up: adds the partial tiles"})
	}
	return list
}

// footer draws the legend in two columns.
func (d *drawing) footer(legend []legendEntry, merged int) {
	for i, e := range legend {
		x, y := left+i%2*chartWidth/2, d.bottom()+44+i/2*legendLine
		d.Rect(x, y, 14, 12, fmt.Sprintf(`fill="%s" class="%s"`, e.color, e.class))
		d.text(x+20, y+10, e.text, "entry")
	}
	if merged > 0 {
		d.text(left+chartWidth/2, d.bottom()+32, fmt.Sprintf("%d bars narrower than a pixel are left out",
			merged), "note")
	}
}
