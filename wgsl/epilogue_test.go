package wgsl

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// everyEpilogue lists all epilogues.
func everyEpilogue() (all []encoding.Epilogue) {
	for _, act := range []encoding.Activation{"", encoding.ReLU, encoding.GELU, encoding.SiLU} {
		for bits := range 32 {
			all = append(all, encoding.Epilogue{Activation: act, Bias: bits&1 != 0, Gated: bits&2 != 0,
				Gather: bits&4 != 0, Scatter: bits&8 != 0, Weights: bits&16 != 0})
		}
	}
	scalings := []encoding.Scaling{"", encoding.PerRow, encoding.PerTensor}
	for i, e := range slices.Clone(all) { // each epilogue with some of them
		e.ScaleA, e.ScaleB = scalings[i%3], scalings[1+i/3%2]
		all = append(all, e)
		if e.ScaleA != "" && e.ScaleB == encoding.PerRow {
			e.Pairs, e.Zeros = true, true
			all = append(all, e)
		}
	}
	return all
}

// variants lists the kernels that plans have for an epilogue and a shape.
func variants(s *tile.Shape, e encoding.Epilogue, of, ofC element.Type) (all []encoding.Kernel) {
	for bits := range 8 {
		k := encoding.Kernel{Tile: s, TypeA: of, TypeC: ofC, TransB: bits&1 != 0, Loop: bits&2 != 0 ||
			e.Gated,
			Split: bits&4 != 0 && !e.Gated, Epilogue: e}
		all = append(all, k)
	}
	all = append(all, encoding.Kernel{Tile: s, TypeA: of, TypeC: ofC, TransB: true, Loop: true,
		Dynamic: true, Epilogue: e})
	e.Gated = false // such tiles are not split
	return append(all, encoding.Kernel{Tile: s, TypeC: ofC, Fixup: true, Epilogue: e.OfFixup()})
}

var storage = regexp.MustCompile(`@binding\((\d+)\) var<storage, (read|read_write)> (\w+):`)

// declared returns the names of the buffers that a text declares, which are those of its encoding.Bindings.
func declared(t *testing.T, s Shader) (names []string) {
	t.Helper()
	var in []encoding.Binding
	for _, m := range storage.FindAllStringSubmatch(s.Source, -1) {
		in, names = append(in, encoding.Binding{Number: number(m[1]),
			Written: m[2] == "read_write"}), append(names, m[3])
	}
	require.Equal(t, in, s.Bindings)
	seen := map[int]bool{}
	for _, b := range in {
		require.False(t, seen[b.Number] || b.Number >= encoding.Bindings, "binding %d", b.Number)
		seen[b.Number] = true
	}
	return names
}

// TestEpilogueBindings: no shader needs more than every adapter grants, and it declares only what it uses.
func TestEpilogueBindings(t *testing.T) {
	const granted = 8 // storage buffers of a stage: WebGPU's specification, section 3.6.2
	small, err := tile.ByName("small")
	require.NoError(t, err)
	for _, e := range everyEpilogue() {
		for _, k := range some(t, append(variants(small, e, element.F32, element.F32),
			variants(small, e, element.E4M3, element.BF16)...)) {
			s, err := Render(k, adapters["lavapipe"])
			require.NoError(t, err)
			names := declared(t, s)
			require.LessOrEqual(t, len(names), granted, k)
			for _, name := range names {
				require.Greater(t, len(regexp.MustCompile(`\b`+name+`\[`).FindAllString(s.Source, -1)), 0,
					"%v declares %s alone", k, name)
			}
			require.Equal(t, e.Bias, slices.Contains(names, "Bias"))
			require.Equal(t, e.Gated && !k.Fixup, slices.Contains(names, "B2"))
			require.Equal(t, k.Epilogue.Gather || e.Scatter || e.Weights || e.Scaled(),
				slices.Contains(names, "indices"))
		}
	}
}

// TestEpilogueStores: tiles are stored alike with and without an epilogue. Scattered rows go where indices
// say, which the test of words checks.
func TestEpilogueStores(t *testing.T) {
	for _, name := range []string{"small", "medium-k4", "tall-8x4"} {
		s, err := tile.ByName(name)
		require.NoError(t, err)
		for _, e := range []encoding.Epilogue{{Bias: true, Activation: encoding.SiLU, Gather: true},
			{Gated: true, Weights: true}, {Bias: true, Scatter: true},
			{ScaleA: encoding.PerRow, ScaleB: encoding.PerRow, Gather: true},
			{ScaleA: encoding.PerRow, ScaleB: encoding.PerRow, Gather: true, Pairs: true, Zeros: true}} {
			for _, of := range []element.Type{element.F32, element.F16} {
				if e.Scatter && of == element.F32 {
					continue
				}
				for _, k := range some(t, variants(s, e, of, of)) {
					if k.Loop != e.Gated || k.Split || k.Dynamic || k.Fixup && e.Gated {
						continue
					}
					t.Run(k.String(), func(t *testing.T) {
						shader, err := Render(k, adapters["nvidia"])
						require.NoError(t, err)
						width := shader.geometry.B.Element
						if k.Fixup {
							width = 4
						}
						checkStores(t, shader, width)
					})
				}
			}
		}
	}
}

// Outputs that share a bias have the same columns; those that share a weight have the same row.
func TestEpilogueShares(t *testing.T) {
	added, weighted := regexp.MustCompile(`= \w+ \+ bias(\d+);`), regexp.MustCompile(`= weight(\d+) \* `)
	placed := regexp.MustCompile(`let ((?:row|vector)\d+) = (.*);`)
	for _, s := range tile.Of(tile.FMA) {
		t.Run(s.Name, func(t *testing.T) {
			k := encoding.Kernel{Tile: s, Epilogue: encoding.Epilogue{Bias: true, Weights: true}}
			shader, err := Render(k, adapters["nvidia"])
			require.NoError(t, err)
			places := map[string]string{}
			for _, m := range placed.FindAllStringSubmatch(shader.Source, -1) {
				places[m[1]] = m[2]
			}
			for place, uses := range map[string][][]string{
				"vector": added.FindAllStringSubmatch(shader.Source, -1),
				"row":    weighted.FindAllStringSubmatch(shader.Source, -1),
			} {
				require.Len(t, uses, len(places)/2)
				for i, m := range uses {
					require.Equal(t, places[fmt.Sprint(place, i)], places[place+m[1]],
						"%s of output %d", place, i)
				}
			}
			if s.Name == "large-8x8" {
				require.Len(t, regexp.MustCompile(`let bias\d`).FindAllString(shader.Source, -1), 2)
				require.Len(t, regexp.MustCompile(`let weight\d`).FindAllString(shader.Source, -1), 8)
			}
		})
	}
}
