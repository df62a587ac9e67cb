package timeline

import "fmt"

// Sizes of text in pixels.
const (
	textSize  = 12
	laneSize  = 10
	titleSize = 16
)

// fonts all have the letter widths below. Without them, browsers stretch the font that they use.
const fonts = `"Liberation Sans", Arial, Helvetica, sans-serif`

// advances are the widths of a space and the characters after it, in thousandths of the text size
// (Liberation Sans 2.1).
var advances = [...]int{
	278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278,
	556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556,
	1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
	667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556,
	333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556,
	556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
}

// textWidth is in pixels.
func textWidth(text string, size float64) float64 {
	sum := 0
	for _, letter := range text {
		const other = 556 // as for digits; µ has 576
		if i := int(letter) - ' '; i >= 0 && i < len(advances) {
			sum += advances[i]
		} else {
			sum += other
		}
	}
	return float64(sum) / 1000 * size
}

// text writes a text that has the same width in any font.
func (d *drawing) text(x, y int, text, class string) {
	size := float64(textSize)
	if class == "lane" {
		size = laneSize
	}
	d.Text(x, y, text, fmt.Sprintf(`class="%s" textLength="%.1f" lengthAdjust="spacingAndGlyphs"`, class,
		textWidth(text, size)))
}
