package timeline

import (
	"bytes"
	"encoding/xml"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
)

func TestAdvances(t *testing.T) {
	const size = 1000
	face := font.NewCache(liberation.Collection()).Lookup(font.Font{Typeface: "Liberation", Variant: "Sans"},
		size)
	for i, want := range advances {
		letter := string(rune(' ' + i))
		require.InDelta(t, want, face.Width(letter).Points(), 0.5, letter)
	}
	require.InDelta(t, 26.02, textWidth("µs, 1", 12), 0.05)
}

// TestTextPlaces: every text except the title, which stands alone, states its width, ends within the
// drawing, and leaves room for the next one.
func TestTextPlaces(t *testing.T) {
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			var raw bytes.Buffer
			require.NoError(t, New(plan(t, tc.device, tc.workload, tc.options)).WriteSVG(&raw, "a workload"))
			var svg struct {
				Width int `xml:"width,attr"`
				Texts []struct {
					X      float64 `xml:"x,attr"`
					Y      int     `xml:"y,attr"`
					Class  string  `xml:"class,attr"`
					Width  float64 `xml:"textLength,attr"`
					Adjust string  `xml:"lengthAdjust,attr"`
					Text   string  `xml:",chardata"`
				} `xml:"text"`
			}
			require.NoError(t, xml.Unmarshal(raw.Bytes(), &svg))
			require.Greater(t, len(svg.Texts), 10)
			type room struct{ from, to float64 }
			taken := map[int][]room{} // by line
			for _, text := range svg.Texts {
				if text.Class == "title" {
					continue
				}
				size := 12.0
				r := room{text.X, text.X + text.Width}
				switch text.Class {
				case "lane":
					size = 10
					r = room{text.X - text.Width, text.X}
				case "tick":
					r = room{text.X - text.Width/2, text.X + text.Width/2}
				}
				require.InDelta(t, textWidth(text.Text, size), text.Width, 0.06, text.Text)
				require.Equal(t, "spacingAndGlyphs", text.Adjust)
				require.GreaterOrEqual(t, r.from, 0.0, text.Text)
				require.LessOrEqual(t, r.to, float64(svg.Width), text.Text)
				for _, other := range taken[text.Y] {
					require.False(t, r.from < other.to && other.from < r.to, "%q covers another text",
						text.Text)
				}
				taken[text.Y] = append(taken[text.Y], r)
			}
			require.True(t, strings.Contains(raw.String(), fonts))
		})
	}
}
