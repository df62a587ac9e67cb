package native

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/tile"
)

// TestDocs checks that the table of docs/hip-bringup.md agrees with the products.
func TestDocs(t *testing.T) {
	const path, begin, end = "../docs/hip-bringup.md", "<!-- begin kernels -->\n", "<!-- end kernels -->"
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(page), begin)
	require.True(t, ok, begin)
	_, after, ok := strings.Cut(rest, end)
	require.True(t, ok, end)
	text := before + begin + kernelTable(t) + end + after
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	} else {
		require.Equal(t, text, string(page), "run go test ./native -run TestDocs -update")
	}
}

// kernelTable has a row for each tile and a column for each architecture.
func kernelTable(t *testing.T) string {
	t.Helper()
	archs := []string{"gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100"}
	objects := make([]hipObject, len(archs))
	for i, arch := range archs {
		objects[i] = readHIP(t, arch)
	}
	waves := hipOccupancy(t)
	var b strings.Builder
	fmt.Fprintf(&b, "| tile | %s |\n|---|%s\n", strings.Join(archs, " | "),
		strings.Repeat("---|", len(archs)))
	for _, shape := range tile.Of(tile.FMA) {
		if !objects[0].Has(shape) {
			continue
		}
		fmt.Fprintf(&b, "| %s |", shape.Name)
		for _, o := range objects {
			fmt.Fprintf(&b, " %s |", o.takes(t, shape, waves))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// takes returns the most that the kernels of a tile need, and the least waves on a SIMD with that.
func (o hipObject) takes(t *testing.T, shape *tile.Shape, waves map[string]int) string {
	t.Helper()
	registers, shared, scratch, least := 0, 0, 0, 1<<10
	for _, k := range o.Variants(shape) {
		meta := o.kernel(t, k)
		registers, shared, scratch = max(registers, meta.VGPRs), max(shared, meta.LDS),
			max(scratch, meta.Scratch)
		least = min(least, waves[o.Object.Arch+" "+meta.Name])
	}
	text := fmt.Sprintf("%d, %d, %d", registers, shared, least)
	if scratch > 0 {
		text += fmt.Sprintf(", %d", scratch)
	}
	return text
}
