package report

import (
	"encoding/xml"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSweep: the picture names the methods with their geometric means, and moves names apart if these are
// close. It is the same on light and dark pages, except for colours.
func TestSweep(t *testing.T) {
	speeds := func(name string, times ...float64) (s Speeds) {
		s.Name = name
		for i, x := range times {
			s.Batches = append(s.Batches, Speed{math.Pow(10, float64(i)), x})
		}
		return s
	}
	s := &Sweep{Rival: "the rival's call", Short: "rival", Methods: []Speeds{
		speeds("first", 2, 8, 4), speeds("second", 3.9, 3.9), speeds("third", 3.8), speeds("not run")}}
	draw := func(dark bool) string {
		var svg strings.Builder
		require.NoError(t, s.WriteSVG(&svg, dark))
		return svg.String()
	}
	light, dark := draw(false), draw(true)
	all := texts(t, light, true)
	for _, want := range []string{"4× first", "3.9× second", "3.8× third", "1× rival",
		"times as fast as the rival's call", "work in the batch, GFLOP"} {
		require.Contains(t, all, want)
	}
	require.NotContains(t, light, "not run")
	require.NotRegexp(t, notNumber, light)

	var at []float64 // of the names, which are the large texts
	tokens(t, light, true, func(d *xml.Decoder, token xml.Token) {
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "text" {
			return
		}
		var text struct {
			Y     float64 `xml:"y,attr"`
			Style string  `xml:"style,attr"`
		}
		require.NoError(t, d.DecodeElement(&text, &start))
		if strings.Contains(text.Style, "font-size:13px") {
			at = append(at, text.Y)
		}
	})
	require.Len(t, at, 4)
	for i := 1; i < len(at); i++ {
		require.GreaterOrEqual(t, at[i-1]-at[i], float64(largeText), "%v", at)
	}

	for _, tone := range []tone{surface, ink, muted, grid, seriesTone(0), seriesTone(1), seriesTone(2)} {
		require.Equal(t, strings.Count(light, tone.light), strings.Count(dark, tone.dark), tone.name)
		require.NotContains(t, dark, tone.light)
	}
	require.EqualError(t, (&Sweep{}).WriteSVG(nil, false), "no batches to draw")
}
