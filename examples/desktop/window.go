package main

import (
	"image"
	"time"

	"github.com/hajimehoshi/ebiten/v2"
	"github.com/hajimehoshi/ebiten/v2/inpututil"

	"github.com/batchgemm/batchgemm/examples/desktop/paint"
)

// Layout: the picture on the left, at twice its computed size, and everything else in a column beside it.
const (
	windowWidth  = 976
	windowHeight = 512
)

var (
	pictureAt = image.Rect(16, 16, 656, 496)
	barsAt    = image.Rect(672, 112, 960, 172)
	graphAt   = image.Rect(672, 208, 960, 308)
	menuAt    = image.Rect(672, 376, 960, 496)
)

// window draws the newest picture and information about it. The drawing thread calls its methods, which
// never wait.
type window struct {
	painter *paint.Painter
	fonts   *fonts
	start   time.Time
	drawn   time.Time // the last frame
	frames  paint.Times
	took    paint.Times // of pictures

	state    paint.State
	picture  *ebiten.Image
	shown    *paint.Picture // the content of picture
	pictures int            // shown so far

	last   int    // picture after which to end, 0: none
	shots  string // folder, "": none
	half   bool   // the first shot is taken
	ended  bool
	failed error
}

func newWindow(p *paint.Painter) (*window, error) {
	fonts, err := newFonts()
	return &window{painter: p, fonts: fonts, start: time.Now(),
		picture: ebiten.NewImage(paint.Width, paint.Height)}, err
}

func (w *window) Layout(_, _ int) (width, height int) { return windowWidth, windowHeight }

// Update asks for the next picture, takes the newest, and reads keys and mouse.
func (w *window) Update() error {
	w.painter.Want(time.Since(w.start).Seconds())
	w.state = w.painter.State()
	if p := w.state.Picture; p != w.shown {
		w.picture.WritePixels(p.Pixels)
		w.took.Add(p.Took)
		w.shown = p
		w.pictures++
	}
	if n := w.chosen(); n >= 0 {
		w.painter.Choose(w.state.Devices[n].ID)
	}
	if w.ended || inpututil.IsKeyJustPressed(ebiten.KeyEscape) {
		return ebiten.Termination
	}
	return nil
}

// chosen returns the entry of the menu that was just chosen, or -1.
func (w *window) chosen() int {
	click := inpututil.IsMouseButtonJustPressed(ebiten.MouseButtonLeft)
	for n := range w.state.Devices {
		key := ebiten.Key(n)
		if click && w.under(n) || key < 9 && (inpututil.IsKeyJustPressed(ebiten.Key1+key) ||
			inpututil.IsKeyJustPressed(ebiten.KeyNumpad1+key)) {
			return n
		}
	}
	return -1
}

// under reports whether the mouse is on an entry of the menu.
func (w *window) under(n int) bool { return image.Pt(ebiten.CursorPosition()).In(w.entry(n)) }

// entry returns the place of a device in the menu, which has room for all.
func (w *window) entry(n int) image.Rectangle {
	step := min(30, menuAt.Dy()/len(w.state.Devices))
	at := menuAt.Min.Add(image.Pt(0, n*step))
	return image.Rectangle{at, at.Add(image.Pt(menuAt.Dx(), step-2))}
}

func (w *window) Draw(screen *ebiten.Image) {
	now := time.Now()
	if !w.drawn.IsZero() {
		w.frames.Add(now.Sub(w.drawn))
	}
	w.drawn = now
	screen.Fill(background)
	w.drawPicture(screen)
	w.drawText(screen)
	w.drawBars(screen)
	w.drawGraph(screen)
	w.drawMenu(screen)
	w.shoot(screen)
}

// shoot saves the window at the requested times, and ends the program after its last picture.
func (w *window) shoot(screen *ebiten.Image) {
	save := func(name string) {
		if w.shots != "" && w.failed == nil {
			w.failed = save(screen, w.shots, name)
			w.ended = w.failed != nil
		}
	}
	switch done := w.pictures; {
	case w.last == 0 || w.ended:
	case done >= w.last:
		save("end.png")
		w.ended = true
	case done >= w.last/2 && !w.half:
		save("half.png")
		w.half = true
	}
}
