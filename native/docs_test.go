package native

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/workload"
	builds "github.com/batchgemm/batchgemm/native/internal/kernels"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
	"github.com/batchgemm/batchgemm/planner/encoding"
	"github.com/batchgemm/batchgemm/planner/tile"
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
		var d *planner.Device // nil: package devices has none of RDNA
		if name := cdna[arch]; name != "" {
			d = device(t, name)
		}
		row := func(shape *tile.Shape, kind string, all []encoding.Kernel) {
			var v, a, s, lds, scratch, w, g span
			for _, k := range all {
				meta := o.kernel(t, k)
				v.add(meta.VGPRs)
				a.add(meta.AGPRs)
				s.add(meta.SGPRs)
				lds.add(meta.LDS)
				scratch.add(meta.Scratch)
				w.add(waves[arch+" "+meta.Name])
				if d != nil {
					threads, _ := Geometry(k)
					g.add(d.Resident(threads, hipResources(meta)).Groups)
				}
			}
			groups := g.String()
			if d == nil {
				groups = "-"
			}
			fmt.Fprintf(&b, "| %s | %s | %v | %v | %v | %v | %v | %v | %s |\n", shape.Name, kind, v, a, s, lds, scratch, w, groups)
		}
		for _, shape := range tile.Of(tile.FMA) {
			if !o.Has(shape) {
				continue
			}
			kind := "FMA"
			if o.HasMatrix(shape) {
				kind = "MFMA"
			}
			of := func(dressed bool, property func(encoding.Kernel) bool) []encoding.Kernel {
				return slices.DeleteFunc(o.Variants(shape), func(k encoding.Kernel) bool {
					return dressed != (k.Epilogue != encoding.Epilogue{}) || !property(k)
				})
			}
			with := func(property func(encoding.Kernel) bool) []encoding.Kernel { return of(false, property) }
			row(shape, kind, with(func(k encoding.Kernel) bool { return !k.Fixup && !k.Parts && k.Type == element.F32 }))
			row(shape, kind+", parts", with(func(k encoding.Kernel) bool { return k.Parts }))
			row(shape, kind+", 16 bits", with(func(k encoding.Kernel) bool { return k.Type.Bytes() == 2 }))
			if builds.HasBytes(shape) {
				row(shape, kind+", 8 bits", with(func(k encoding.Kernel) bool { return k.Type.Bytes() == 1 }))
			}
			row(shape, "fix-up", with(func(k encoding.Kernel) bool { return k.Fixup }))
			if shape.Epilogues {
				row(shape, kind+", epilogue", of(true, func(k encoding.Kernel) bool { return !k.Fixup }))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func zhangTable(t *testing.T) string {
	t.Helper()
	d := device(t, "mi210")
	var b strings.Builder
	heads, resident := "", ""
	var zhang []*tile.Shape
	for _, s := range tile.Table() {
		if s.Zhang {
			o := d.Resident(s.Threads, d.Kernel(s).Resources)
			zhang = append(zhang, s)
			heads += " " + s.Name + " |"
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
				plan, err := planner.New(d).Plan(t.Context(), w.Batch, planner.Options{Rule: planner.RuleZhang2025})
				require.NoError(t, err)
				problems := map[*tile.Shape]int{}
				for _, s := range plan.Tiles {
					problems[s]++
				}
				fmt.Fprintf(&b, "| %d | %d | %d | %.0f |", mn, k, batch, plan.TLP)
				for _, s := range zhang {
					fmt.Fprintf(&b, " %d |", problems[s])
				}
				fmt.Fprintf(&b, " %d |\n", len(plan.Segments))
			}
		}
	}
	return b.String()
}
