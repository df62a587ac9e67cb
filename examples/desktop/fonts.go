package main

import (
	"bytes"
	"errors"
	"image"
	"image/color"

	"github.com/hajimehoshi/ebiten/v2"
	"github.com/hajimehoshi/ebiten/v2/text/v2"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
)

// fonts are Go's own, from a package.
type fonts struct{ large, medium, small, tiny face }

type face struct{ text.GoTextFace }

func newFonts() (*fonts, error) {
	bold, err := text.NewGoTextFaceSource(bytes.NewReader(gobold.TTF))
	regular, failed := text.NewGoTextFaceSource(bytes.NewReader(goregular.TTF))
	of := func(source *text.GoTextFaceSource, size float64) face {
		return face{text.GoTextFace{Source: source, Size: size}}
	}
	return &fonts{of(bold, 22), of(bold, 14), of(regular, 13), of(regular, 11)}, errors.Join(err, failed)
}

// draw draws a line in the upper left of an area, and cuts it if it is too long.
func (f *face) draw(screen *ebiten.Image, line string, area image.Rectangle, c color.Color) {
	for short := []rune(line); text.Advance(line, &f.GoTextFace) > float64(area.Dx()) && len(short) > 0; {
		short = short[:len(short)-1]
		line = string(short) + "…"
	}
	options := &text.DrawOptions{}
	options.GeoM.Translate(float64(area.Min.X), float64(area.Min.Y))
	options.ColorScale.ScaleWithColor(c)
	text.Draw(screen, line, &f.GoTextFace, options)
}
