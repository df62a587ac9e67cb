package report

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"io"
	"math"
	"regexp"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// tone is a colour of plots and page: light, as plots are drawn, and dark, for pages of readers who prefer
// that.
type tone struct{ name, light, dark string }

var (
	surface = tone{"surface", "#FFFFFF", "#171D26"}
	ink     = tone{"ink", "#1D2733", "#E7ECF2"}
	muted   = tone{"muted", "#5D6B7A", "#9DABBA"}
	grid    = tone{"grid", "#E3E8EE", "#2C3644"}
	faint   = tone{"faint", "#C3CDD8", "#465364"}

	// series are the colours of methods, ours first: Paul Tol's scheme "bright", which colour-blind readers
	// can distinguish, in a darker and a lighter version.
	series = []tone{
		{"series-0", "#2F6DB0", "#6DB1F2"},
		{"series-1", "#E0702B", "#F79E63"},
		{"series-2", "#1E8A5F", "#5CCB9C"},
		{"series-3", "#A2478F", "#DD8CCB"},
		{"series-4", "#A88A0B", "#DCC24B"},
		{"series-5", "#B8405A", "#F08299"},
	}
)

// tones lists all colours, for the style sheet.
func tones() []tone { return append([]tone{surface, ink, muted, grid, faint}, series...) }

func seriesTone(i int) tone { return series[i%len(series)] }

// rgba returns the colour on a light page.
func (t tone) rgba() color.RGBA {
	n := func(at int) (v uint8) {
		for _, digit := range t.light[at : at+2] {
			v = v<<4 | uint8(strings.IndexRune("0123456789ABCDEF", digit))
		}
		return v
	}
	return color.RGBA{n(1), n(3), n(5), 255}
}

// Widths of plots in points. The page shows them as CSS pixels or slightly less.
const (
	fullWidth   = 1112
	halfWidth   = 524
	panelWidth  = 350
	narrowWidth = 326 // a phone of 390 pixels
)

// figure is one plot. Its size depends on the available width.
type figure struct {
	Name  string // of its files
	Label string // for screen readers
	wide  vg.Length
	// layout returns the height at a width, and a function that draws the plot.
	layout func(width vg.Length) (height vg.Length, paint func(draw.Canvas))
}

// writeSVG writes the wide version.
func (f *figure) writeSVG(w io.Writer) error { return f.svg(w, f.wide) }

func (f *figure) svg(w io.Writer, width vg.Length) error {
	height, paint := f.layout(width)
	canvas := &svgCanvas{Canvas: vgsvg.New(width, height)}
	paint(draw.New(canvas))
	svg, err := canvas.svg()
	if err == nil {
		_, err = io.WriteString(w, svg)
	}
	return err
}

// svgCanvas records the widths of texts in the font of the layout, so that they keep their places in other
// fonts.
type svgCanvas struct {
	*vgsvg.Canvas
	widths []vg.Length // of all texts, in order
}

func (c *svgCanvas) FillString(face font.Face, at vg.Point, text string) {
	c.widths = append(c.widths, face.Width(text))
	c.Canvas.FillString(face, at, text)
}

// The font in vgsvg's output. Without it, a browser would use one with serifs.
const (
	vgFont   = "font-family:Liberation Sans;font-variant:normal;font-weight:normal;font-style:normal;"
	fallback = "font-family:Liberation Sans,Arial,Helvetica,sans-serif;"
)

// svg returns the drawing with those widths.
func (c *svgCanvas) svg() (string, error) {
	var buf bytes.Buffer
	if _, err := c.WriteTo(&buf); err != nil {
		return "", err
	}
	const start = "<text "
	parts := strings.Split(strings.ReplaceAll(buf.String(), vgFont, fallback), start)
	for i, width := range c.widths {
		parts[i] += fmt.Sprintf(`%stextLength="%.5g" lengthAdjust="spacingAndGlyphs" `, start, width.Points())
	}
	return strings.Join(parts, ""), nil
}

func (f *figure) writePNG(w io.Writer) error {
	height, paint := f.layout(f.wide)
	canvas := vgimg.NewWith(vgimg.UseWH(f.wide, height), vgimg.UseDPI(144)) // two pixels per point
	paint(draw.New(canvas))
	_, err := vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}

// Panel reports whether one version serves all pages.
func (f *figure) Panel() bool { return f.wide == panelWidth }

// mark draws a point.
type mark func(*draw.Canvas, vg.Point, tone)

// dot stands out from dots below it.
func dot(radius vg.Length) mark {
	return func(c *draw.Canvas, at vg.Point, t tone) {
		for _, ring := range []struct {
			radius vg.Length
			tone   tone
		}{{radius + 0.6, surface}, {radius, t}} {
			c.SetColor(ring.tone.rgba())
			c.Fill(circle(at, ring.radius))
		}
	}
}

// ring and plus can be distinguished from dots without colours.
func ring(radius vg.Length) mark {
	return func(c *draw.Canvas, at vg.Point, t tone) {
		c.SetLineStyle(line(t, 0.9))
		c.Stroke(circle(at, radius))
	}
}

func plus(radius vg.Length) mark {
	return func(c *draw.Canvas, at vg.Point, t tone) {
		c.StrokeLine2(line(t, 0.9), at.X-radius, at.Y, at.X+radius, at.Y)
		c.StrokeLine2(line(t, 0.9), at.X, at.Y-radius, at.X, at.Y+radius)
	}
}

func circle(at vg.Point, radius vg.Length) (path vg.Path) {
	path.Move(vg.Point{X: at.X + radius, Y: at.Y})
	path.Arc(at, radius, 0, 2*math.Pi)
	path.Close()
	return path
}

// fillText writes a text after a point, vertically centred on it, like axes.
func fillText(c *draw.Canvas, style text.Style, at vg.Point, txt string) {
	style.YAlign = text.YCenter
	at.Y += style.FontExtents().Descent
	c.FillText(style, at, txt)
}

// Wide and Narrow are the versions for the page.
func (f *figure) Wide() (template.HTML, error)   { return f.inline(f.wide) }
func (f *figure) Narrow() (template.HTML, error) { return f.inline(min(narrowWidth, f.wide)) }

var (
	svgSize = regexp.MustCompile(`(?s)^.*?<svg width="[^"]*" height="[^"]*" (viewBox="[^"]*").*?>`)
	spaces  = regexp.MustCompile(`\n\s*`)
)

// inline returns the plot as an element of the page, which determines its size and colours.
func (f *figure) inline(width vg.Length) (template.HTML, error) {
	var buf bytes.Buffer
	if err := f.svg(&buf, width); err != nil {
		return "", err
	}
	colors := []string{fallback, ""} // the page's
	for _, t := range tones() {
		colors = append(colors, t.light, "var(--"+t.name+")")
	}
	svg := svgSize.ReplaceAllString(buf.String(), `<svg $1 role="img" aria-label="`+
		template.HTMLEscapeString(f.Label)+`">`)
	svg = spaces.ReplaceAllString(svg, " ")
	// made above, from numbers and escaped text
	return template.HTML(strings.NewReplacer(colors...).Replace(svg)), nil
}

// Sizes of text in points.
const (
	smallText = 11
	largeText = 13
)

func textStyle(t tone, size vg.Length) text.Style {
	return text.Style{Color: t.rgba(), Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: size},
		Handler: plot.DefaultTextHandler}
}

// newPlot returns an empty plot in the style of the page.
func newPlot(title string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil // the figure's own
	p.Title.Text = title
	p.Title.TextStyle = textStyle(ink, largeText)
	p.Title.TextStyle.XAlign, p.Title.TextStyle.YAlign = text.XCenter, text.YTop
	p.Title.Padding = 6
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		style := textStyle(ink, smallText)
		style.XAlign, style.YAlign = axis.Tick.Label.XAlign, axis.Tick.Label.YAlign
		axis.Tick.Label = style
		axis.Tick.Length = 0
		axis.Padding = 4
		axis.LineStyle.Width = 0
	}
	return p
}

// named draws a plot with the names of its axes, that of Y above. Plot supports names too, but makes room
// for them in the wrong place if axes are logarithmic.
func named(p *plot.Plot, x, y string) func(draw.Canvas) {
	return func(c draw.Canvas) {
		const room = 17
		top := vg.Length(0)
		if y != "" {
			top = room
			c.FillText(textStyle(muted, smallText), vg.Point{X: c.Min.X, Y: c.Max.Y - smallText}, y)
		}
		inner := draw.Crop(c, 0, 0, room, -top)
		p.Draw(inner)
		nameX(&c, p.DataCanvas(inner), x)
	}
}

// nameX writes the name of an axis at the bottom, in the middle of the data.
func nameX(c *draw.Canvas, data draw.Canvas, name string) {
	style := textStyle(muted, smallText)
	style.XAlign = text.XCenter
	c.FillText(style, vg.Point{X: (data.Min.X + data.Max.X) / 2, Y: c.Min.Y + 2}, name)
}

// line is a stroke of a plot.
func line(t tone, width vg.Length, dashes ...vg.Length) draw.LineStyle {
	return draw.LineStyle{Color: t.rgba(), Width: width, Dashes: dashes}
}

// key is a line of a legend.
type key struct {
	text string
	tone tone
}

const (
	keyLine  = 17
	keyChip  = 10
	keySpace = 16
)

// withLegend puts a legend above a plot, with as many keys in a line as fit.
func withLegend(keys []key, width, height vg.Length, paint func(draw.Canvas)) (vg.Length, func(draw.Canvas)) {
	style := textStyle(ink, smallText)
	var at []vg.Point
	var x, y vg.Length
	for _, k := range keys {
		w := keyChip + 5 + style.Width(k.text)
		if x > 0 && x+w > width {
			x, y = 0, y+keyLine
		}
		at = append(at, vg.Point{X: x, Y: y})
		x += w + keySpace
	}
	taken := vg.Length(0)
	if len(keys) > 0 {
		taken = y + keyLine + 6
	}
	return height + taken, func(c draw.Canvas) {
		c.SetColor(surface.rgba())
		c.Fill(c.Rectangle.Path())
		for i, k := range keys {
			p := vg.Point{X: c.Min.X + at[i].X, Y: c.Max.Y - at[i].Y - keyLine}
			c.SetColor(k.tone.rgba())
			c.Fill(vg.Rectangle{Min: vg.Point{X: p.X, Y: p.Y + 3},
				Max: vg.Point{X: p.X + keyChip, Y: p.Y + 3 + keyChip}}.Path())
			c.FillText(style, vg.Point{X: p.X + keyChip + 5, Y: p.Y + 4}, k.text)
		}
		const margin = 3 // for text that exceeds its box slightly
		paint(draw.Crop(c, margin, -margin, 0, -taken))
	}
}

// gridLines draws the major ticks of X across the plot, below everything else.
type gridLines struct{ x, y bool }

func (g gridLines) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	if g.x {
		for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
			if x := tx(t.Value); t.Label != "" && x >= c.Min.X-1 && x <= c.Max.X+1 {
				c.StrokeLine2(line(grid, 1), x, c.Min.Y, x, c.Max.Y)
			}
		}
	}
	if g.y {
		for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
			if y := ty(t.Value); t.Label != "" && y >= c.Min.Y-1 && y <= c.Max.Y+1 {
				c.StrokeLine2(line(grid, 1), c.Min.X, y, c.Max.X, y)
			}
		}
	}
}
