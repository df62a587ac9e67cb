package native

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
)

// TestDocs keeps the tables of docs/hip.md equal to the products and the planner.
func TestDocs(t *testing.T) {
	const path = "../docs/hip.md"
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	text := string(page)
	for _, part := range []struct{ name, table string }{
		{"kernels", kernelTables(t)},
		{"zhang", zhangTable(t)},
	} {
		begin, end := "<!-- begin "+part.name+" -->\n", "<!-- end "+part.name+" -->"
		before, rest, ok := strings.Cut(text, begin)
		require.True(t, ok, begin)
		_, after, ok := strings.Cut(rest, end)
		require.True(t, ok, end)
		text = before + begin + part.table + end + after
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	} else {
		require.Equal(t, text, string(page), "run go test ./native -update")
	}
}

// span is the range of a number.
type span struct{ low, high int }

func (s *span) add(n int) {
	if s.high == 0 {
		s.low = n
	}
	s.low, s.high = min(s.low, n), max(s.high, n)
}

func (s span) String() string {
	if s.low == s.high {
		return fmt.Sprint(s.low)
	}
	return fmt.Sprintf("%d-%d", s.low, s.high)
}

func kernelTables(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	waves := hipOccupancy(t)
	for _, arch := range []string{"gfx90a", "gfx908", "gfx942", "gfx1030", "gfx1100"} {
		fmt.Fprintf(&b, "### %s\n\n", arch)
		b.WriteString("| tile | kernel | VGPR | AGPR | SGPR | LDS bytes | scratch | waves/SIMD | groups/CU |\n|---|---|---|---|---|---|---|---|---|\n")
		o := readHIP(t, arch)
		device, _ := planner.LookupDevice(arch) // nil: the planner has none of RDNA
		row := func(tile planner.Tile, kind string, all []planner.Kernel) {
			var v, a, s, lds, scratch, w, g span
			for _, k := range all {
				meta := o.kernel(t, k)
				v.add(meta.VGPRs)
				a.add(meta.AGPRs)
				s.add(meta.SGPRs)
				lds.add(meta.LDS)
				scratch.add(meta.Scratch)
				w.add(waves[arch+" "+meta.Name])
				if device != nil {
					threads, _, _ := Geometry(k)
					g.add(device.Occupancy(threads, hipResources(meta)).Groups)
				}
			}
			groups := g.String()
			if device == nil {
				groups = "-"
			}
			fmt.Fprintf(&b, "| %s | %s | %v | %v | %v | %v | %v | %v | %s |\n", tile.Name, kind, v, a, s, lds, scratch, w, groups)
		}
		for id := range planner.NumFMATiles {
			tile := planner.TileID(id).Tile()
			var all []planner.Kernel
			for _, k := range kernels() {
				if int(k.Tile) == id && !k.Fixup {
					all = append(all, k)
				}
			}
			kind := "FMA"
			if strings.HasSuffix(o.KernelName(all[0]), "_mfma") {
				kind = "MFMA"
			}
			row(tile, kind, all)
			row(tile, "fix-up", []planner.Kernel{{Tile: planner.TileID(id), Fixup: true}})
		}
		b.WriteString("\n")
	}
	return b.String()
}

func zhangTable(t *testing.T) string {
	t.Helper()
	device, err := planner.LookupDevice("mi210")
	require.NoError(t, err)
	var b strings.Builder
	heads, resident := "", ""
	for id := range planner.NumFMATiles {
		if tile := planner.TileID(id).Tile(); tile.Zhang {
			o := device.Occupancy(tile.Threads, device.Resources(planner.TileID(id)))
			heads += " " + tile.Name + " |"
			resident += fmt.Sprintf(" %d groups/CU, %.0f %%, %s |", o.Groups, 100*o.Active, o.Limiter)
		}
	}
	fmt.Fprintf(&b, "| max M=N | max K | batch | TLP |%s workgroups |\n|---|---|---|---|%s---|\n", heads, strings.Repeat("---|", strings.Count(heads, "|")))
	fmt.Fprintf(&b, "| | | | occupancy: |%s |\n", resident)
	for _, mn := range []int{128, 256, 512} {
		for _, k := range []int{128, 1024} {
			for _, batch := range []int{8, 64, 256} {
				w, err := workload.Load(fmt.Sprintf("zhang-%d-%d-%d", mn, k, batch), nil)
				require.NoError(t, err)
				plan, err := planner.New(device, w.Batch, planner.Options{Rule: planner.RuleZhang2025})
				require.NoError(t, err)
				var problems [planner.NumTiles]int
				for _, id := range plan.Choice {
					problems[id]++
				}
				fmt.Fprintf(&b, "| %d | %d | %d | %.0f |", mn, k, batch, plan.TLP)
				for id, n := range problems {
					if planner.TileID(id).Tile().Zhang {
						fmt.Fprintf(&b, " %d |", n)
					}
				}
				fmt.Fprintf(&b, " %d |\n", len(plan.Segments))
			}
		}
	}
	return b.String()
}
