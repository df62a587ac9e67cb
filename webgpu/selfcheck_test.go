//go:build cgo && !nowebgpu && ((linux && amd64) || darwin || (windows && amd64))

package webgpu

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/ratefile"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/selfcheck"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// fewOf returns the few kernels of a tile shape.
func fewOf(t *testing.T, p *planner.Planner, tile string, o planner.Options) *selfcheck.Case {
	t.Helper()
	o.Tile = tile
	groups, err := p.Kernels(o, planner.Transposition{}, true)
	require.NoError(t, err)
	require.Len(t, groups, 1)
	o.Tile = ""
	return &selfcheck.Case{Options: o, Group: groups[0]}
}

// TestSelfCheck: the few kernels of all shapes and types compute right results.
func TestSelfCheck(t *testing.T) {
	d := open(t, webgpuDriver{})
	p := planner.New(&d.info.Planner)
	for name, o := range map[string]planner.Options{"f32": {},
		"bf16":  {TypeA: element.BF16, TypeC: element.BF16},
		"gated": {Epilogue: planner.Epilogue{Gated: true, Activation: planner.SiLU, Bias: true}},
		"int8": {TypeA: element.Int8, TypeC: element.BF16,
			Epilogue: planner.Epilogue{ScaleA: planner.PerRow}},
	} {
		for _, k := range d.info.Planner.Kernels {
			if !k.Tile.Few {
				continue
			}
			t.Run(name+"/"+k.Tile.Name, func(t *testing.T) {
				sample.WebGPU.Skip(t, 8)
				c := fewOf(t, p, k.Tile.Name, o)
				start := time.Now()
				require.NoError(t, selfcheck.Run(t.Context(), d, p, c))
				t.Logf("with compilation %v", time.Since(start))
				start = time.Now()
				require.NoError(t, selfcheck.Run(t.Context(), d, p, c))
				t.Logf("%v", time.Since(start))
			})
		}
	}
}

// TestMiscompiled: a check finds what a driver did to one line of a shader, a file keeps it, and plans avoid
// the kernels.
func TestMiscompiled(t *testing.T) {
	for name, line := range map[string][2]string{
		"sum of partials": {"sum = sum + workspace[at];", "sum = sum - workspace[at];"},
		"store beyond C":  {" < cols) { C[", " <= cols) { C["},
		"last k":          {"for (var k = 0u; k < left;", "for (var k = 0u; k + 1u < left;"},
		"alpha":           {"= alpha * ", "= "},
	} {
		t.Run(name, func(t *testing.T) {
			sample.WebGPU.Skip(t, 2)
			t.Setenv(ratefile.DirEnv, t.TempDir())
			first := open(t, webgpuDriver{})
			d, err := openDevice(t.Context(), first.info, 0)
			require.NoError(t, err)
			defer d.Close()
			spoilt := false
			d.spoil = func(text string) string {
				spoilt = spoilt || strings.Contains(text, line[0])
				return strings.ReplaceAll(text, line[0], line[1])
			}
			p := planner.New(&d.info.Planner)
			c := fewOf(t, p, "small", planner.Options{})
			wrong := selfcheck.AsWrong(selfcheck.Run(t.Context(), d, p, c))
			require.True(t, spoilt)
			require.NotNil(t, wrong)
			t.Log(wrong)
			require.Contains(t, wrong.Kernels, "small/nn/loop/split")
			require.Regexp(t, `C\[.*\] `, wrong.Found)

			r := selfcheck.Load(d)
			r.Add(c, wrong)
			other := fewOf(t, p, "tiny-k4", planner.Options{})
			r.Add(other, nil)
			require.NoError(t, r.Save())
			again := selfcheck.Load(d)
			kept, known := again.Known(c)
			require.True(t, known)
			require.Equal(t, wrong, kept)
			kept, known = again.Known(other)
			require.True(t, known)
			require.Nil(t, kept)
			refused := again.Refused(p)
			require.Len(t, refused, 1)
			require.True(t, slices.Equal(c.Group.Kernels, refused[0].Kernels))
			d.info.Driver += "1"
			_, known = selfcheck.Load(d).Known(c)
			require.False(t, known, "another driver is checked anew")
		})
	}
}
