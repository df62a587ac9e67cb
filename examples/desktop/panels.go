package main

import (
	"fmt"
	"image"
	"image/color"
	"slices"
	"time"

	"github.com/hajimehoshi/ebiten/v2"
	"github.com/hajimehoshi/ebiten/v2/vector"

	"github.com/batchgemm/batchgemm/examples/desktop/paint"
)

var (
	background = color.RGBA{17, 19, 24, 255}
	panel      = color.RGBA{30, 33, 41, 255}
	raised     = color.RGBA{46, 52, 66, 255}
	shade      = color.RGBA{12, 13, 17, 225}
	bright     = color.RGBA{240, 242, 246, 255}
	plain      = color.RGBA{196, 201, 212, 255}
	dim        = color.RGBA{138, 145, 160, 255}
	blue       = color.RGBA{94, 173, 255, 255}
	amber      = color.RGBA{247, 178, 89, 255}
	alarm      = color.RGBA{240, 92, 92, 255}
)

// white is the source of the triangles' colours.
var white = func() *ebiten.Image {
	i := ebiten.NewImage(3, 3)
	i.Fill(color.White)
	return i
}()

// drawPicture draws the picture, with errors on top of it.
func (w *window) drawPicture(screen *ebiten.Image) {
	fill(screen, pictureAt, panel)
	if w.shown != nil {
		options := &ebiten.DrawImageOptions{Filter: ebiten.FilterLinear}
		options.GeoM.Scale(float64(pictureAt.Dx())/paint.Width, float64(pictureAt.Dy())/paint.Height)
		options.GeoM.Translate(float64(pictureAt.Min.X), float64(pictureAt.Min.Y))
		screen.DrawImage(w.picture, options)
	}
	const shown = 3 * time.Second
	s := &w.state
	troubled := s.Trouble != "" && time.Since(s.Troubled) < shown
	if !troubled && s.Ready == s.All && s.All > 0 {
		return
	}
	banner := pictureAt
	banner.Min.Y = banner.Max.Y - 56
	fill(screen, banner, shade)
	inside := banner.Inset(12)
	if troubled {
		fill(screen, image.Rect(banner.Min.X, banner.Min.Y, banner.Min.X+4, banner.Max.Y), alarm)
		w.fonts.medium.draw(screen, s.Trouble, inside, bright)
		inside.Min.Y += 20
		w.fonts.small.draw(screen, "Opening it again, or the best device if it is gone.", inside, dim)
		return
	}
	w.fonts.medium.draw(screen, "Getting the device ready", inside, bright)
	inside.Min.Y = inside.Max.Y - 5
	fill(screen, inside, raised)
	inside.Max.X = inside.Min.X + inside.Dx()*s.Ready/max(1, s.All)
	fill(screen, inside, blue)
}

// drawText draws the texts around the graphs.
func (w *window) drawText(screen *ebiten.Image) {
	w.fonts.large.draw(screen, "A mixture of painters", column(16), bright)
	w.fonts.small.draw(screen, fmt.Sprintf("%d small networks paint it. A router chooses one", paint.Experts),
		column(46), dim)
	w.fonts.small.draw(screen, "for each pixel, so that batches are ragged.", column(62), dim)
	w.fonts.small.draw(screen, "Pixels of each network", column(barsAt.Min.Y-20), plain)
	w.fonts.small.draw(screen, fmt.Sprintf("Times of the last %d frames and pictures", paint.Kept),
		column(graphAt.Min.Y-20), plain)
	w.fonts.small.draw(screen, "Devices: press the number, or click", column(menuAt.Min.Y-20), plain)
}

// column returns the column beside the picture from y on.
func column(y int) image.Rectangle {
	return image.Rect(graphAt.Min.X, y, graphAt.Max.X, windowHeight)
}

// drawBars shows how ragged the batch of this picture is.
func (w *window) drawBars(screen *ebiten.Image) {
	fill(screen, barsAt, panel)
	if w.shown == nil {
		return
	}
	inside := barsAt.Inset(4)
	most := float32(slices.Max(w.shown.Rows[:]))
	step := float32(inside.Dx()) / paint.Experts
	for e, n := range w.shown.Rows {
		height := float32(inside.Dy()) * float32(n) / most
		vector.DrawFilledRect(screen, float32(inside.Min.X)+float32(e)*step+1, float32(inside.Max.Y)-height,
			step-2, height, paint.Colour(e), false)
	}
}

// drawGraph draws the times of the last frames and pictures.
func (w *window) drawGraph(screen *ebiten.Image) {
	fill(screen, graphAt, panel)
	_, slowest := w.frames.Summary()
	_, longest := w.took.Summary()
	top := 20 * time.Millisecond
	for top < max(slowest, longest) {
		top *= 2
	}
	half := graphAt
	half.Min.Y += graphAt.Dy() / 2
	fill(screen, image.Rect(half.Min.X, half.Min.Y, half.Max.X, half.Min.Y+1), raised)
	for i, series := range []struct {
		name   string
		times  *paint.Times
		colour color.Color
	}{{"frames", &w.frames, blue}, {"pictures", &w.took, amber}} {
		plot(screen, series.times.List(), top, series.colour)
		line := column(graphAt.Max.Y + 6 + 17*i)
		fill(screen, image.Rect(line.Min.X, line.Min.Y+6, line.Min.X+10, line.Min.Y+9), series.colour)
		line.Min.X += 16
		w.fonts.small.draw(screen, fmt.Sprintf("%s: %v", series.name, series.times), line, plain)
	}
	for _, mark := range []struct {
		at    image.Rectangle
		value time.Duration
	}{{graphAt, top}, {half, top / 2}} {
		w.fonts.tiny.draw(screen, mark.value.String(), mark.at.Add(image.Pt(5, 3)), dim)
	}
}

// plot draws times as a line, the newest on the right.
func plot(screen *ebiten.Image, times []time.Duration, top time.Duration, colour color.Color) {
	inside := graphAt.Inset(2)
	step := float32(inside.Dx()) / (paint.Kept - 1)
	var line vector.Path
	for i, d := range times {
		x := float32(inside.Max.X) - step*float32(len(times)-1-i)
		line.LineTo(x, float32(inside.Max.Y)-float32(inside.Dy())*float32(d)/float32(top))
	}
	vertices, indices := line.AppendVerticesAndIndicesForStroke(nil, nil,
		&vector.StrokeOptions{Width: 1.5, LineJoin: vector.LineJoinRound})
	r, g, b, _ := colour.RGBA()
	for i := range vertices {
		v := &vertices[i]
		v.SrcX, v.SrcY = 1, 1
		v.ColorR, v.ColorG, v.ColorB, v.ColorA = float32(r)/0xffff, float32(g)/0xffff, float32(b)/0xffff, 1
	}
	screen.DrawTriangles(vertices, indices, white, &ebiten.DrawTrianglesOptions{AntiAlias: true,
		FillRule: ebiten.FillRuleNonZero})
}

// drawMenu draws a line for each device.
func (w *window) drawMenu(screen *ebiten.Image) {
	for n, device := range w.state.Devices {
		at, text := w.entry(n), plain
		switch {
		case device.ID == w.state.Device.ID:
			fill(screen, at, raised)
			fill(screen, image.Rect(at.Min.X, at.Min.Y, at.Min.X+4, at.Max.Y), blue)
			text = bright
		case w.under(n):
			fill(screen, at, raised)
		default:
			fill(screen, at, panel)
		}
		at.Min = at.Min.Add(image.Pt(12, max(0, at.Dy()-18)/2))
		w.fonts.small.draw(screen, fmt.Sprintf("%d   %s: %s", n+1, device.Backend, device.Name), at, text)
	}
}

func fill(screen *ebiten.Image, r image.Rectangle, c color.Color) {
	vector.DrawFilledRect(screen, float32(r.Min.X), float32(r.Min.Y), float32(r.Dx()),
		float32(r.Dy()), c, false)
}
