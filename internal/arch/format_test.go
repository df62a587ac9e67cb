package arch

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/devices"
)

// TestFormatInDocs: the picture of docs/format.md agrees with the planner.
func TestFormatInDocs(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "format.md"))
	require.NoError(t, err)
	batch, err := planner.Pack(planner.GEMM(40, 30, 16), planner.GEMM(20, 32, 64), planner.GEMM(32, 64, 48))
	require.NoError(t, err)
	two, err := devices.Lookup("mi210")
	require.NoError(t, err)
	two.ComputeUnits, two.MaxGroups = 2, 1 // places for two workers
	plan, err := planner.New(two).Plan(t.Context(), batch,
		planner.Options{Tile: "medium", Schedule: planner.ScheduleLPT})
	require.NoError(t, err)
	require.Len(t, plan.Launches, 1)
	words, l := plan.Encode(nil), plan.Launches[0]

	require.Contains(t, string(raw), recordLines(t, batch))
	require.Contains(t, string(raw), itemLines(plan, words))
	require.Contains(t, string(raw), fmt.Sprintf("\n    table %d\n", words[l.Table:][:l.Count+1]))
	require.Contains(t, string(raw), fmt.Sprintf("host writes %d words", encoding.RaggedHead))
}

func recordLines(t *testing.T, batch planner.Batch) string {
	t.Helper()
	records, err := planner.AppendRecords(nil, batch, planner.Options{})
	require.NoError(t, err)
	var b strings.Builder
	line(&b, "problem", encoding.RecordNames[:encoding.RecordWords])
	for i := range batch {
		var row []string
		for w, v := range records[i*encoding.RecordWords:][:encoding.RecordWords] {
			if w == int(encoding.RecordAlpha) {
				v = int32(math.Float32frombits(uint32(v)))
			}
			row = append(row, fmt.Sprint(v))
		}
		line(&b, fmt.Sprint(i), row)
	}
	return b.String()
}

// itemLines returns a line for each item, with the number of its tile in the picture.
func itemLines(plan *planner.Plan, words []uint32) string {
	var b strings.Builder
	line(&b, "tile", encoding.ItemNames[:encoding.ItemWords])
	first := map[int32]int{1: 0, 2: 1, 0: 3} // tiles before those of each problem
	for i, s := range plan.Segments {
		var row []string
		for w, v := range words[plan.Launches[0].Items+i*encoding.ItemWords:][:encoding.ItemWords] {
			text := fmt.Sprint(v)
			switch {
			case w == int(encoding.Extent):
				text = fmt.Sprintf("%dx%d", encoding.Rows(v), encoding.Cols(v))
			case w == int(encoding.Alpha), w == int(encoding.Beta):
				text = fmt.Sprint(math.Float32frombits(v))
			case w == int(encoding.Slot) && v == encoding.Final:
				text = "final"
			}
			row = append(row, text)
		}
		line(&b, fmt.Sprint(first[s.Problem]+int(s.Row+s.Col)), row) // each has one row or column of tiles
	}
	return b.String()
}

func line(b *strings.Builder, head string, columns []string) {
	fmt.Fprintf(b, "    %7s", head)
	for _, c := range columns {
		fmt.Fprintf(b, "%7s", c)
	}
	b.WriteString("\n")
}
