package wgsl

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// adapters are the limits for which every tile is rendered.
var adapters = map[string]Limits{
	"webgpu defaults":    {Threads: 256, SharedBytes: 16384},
	"lavapipe":           {Threads: 1024, SharedBytes: 32768, Subgroup: 8, Components: true, Short: true},
	"nvidia":             {Threads: 1024, SharedBytes: 49152, Subgroup: 32, Components: true},
	"amd":                {Threads: 1024, SharedBytes: 32768, Subgroup: 64}, // not through Vulkan
	"adreno":             {Threads: 1024, SharedBytes: 32768, Subgroup: 128},
	"64 threads":         {Threads: 64, SharedBytes: 16384, Subgroup: 16},
	"32 threads":         {Threads: 32, SharedBytes: 16384, Subgroup: 4},
	"odd subgroup of 24": {Threads: 256, SharedBytes: 16384, Subgroup: 24},
}

// kernels returns all kernels that multiply elements of F32.
func kernels() []encoding.Kernel {
	var all []encoding.Kernel
	for _, s := range tile.Of(tile.FMA) {
		for bits := range 32 {
			all = append(all, encoding.Kernel{
				Tile:   s,
				TransA: bits&1 != 0, TransB: bits&2 != 0, Vector: bits&4 != 0, Loop: bits&8 != 0,
				Split: bits&16 != 0,
			})
		}
	}
	for _, s := range tile.Of(tile.FMA) {
		for bits := range 8 {
			all = append(all, encoding.Kernel{Tile: s, TransA: bits&1 != 0, TransB: bits&2 != 0,
				Vector: bits&4 != 0, Loop: true, Dynamic: true})
		}
	}
	return all
}

// typed returns the kernels with one of the element types each.
func typed(all []encoding.Kernel) []encoding.Kernel {
	for i := range all {
		k := &all[i]
		variant := i / 32 // for another tile
		k.TypeA = []element.Type{element.BF16, element.F16, element.E4M3, element.Int8}[variant%4]
		if variant/4%2 == 0 {
			k.TypeC = elemtype.TypesC(k.TypeA)[0]
		}
	}
	return all
}

// fixups returns all kernels that sum partials.
func fixups() (all []encoding.Kernel) {
	for _, s := range tile.Of(tile.FMA) {
		for _, of := range []element.Type{element.F32, element.BF16, element.F16} {
			all = append(all, encoding.Kernel{Tile: s, TypeC: of, Fixup: true})
		}
	}
	return all
}

// some returns the kernels whose text runs in a test (package sample).
func some(t *testing.T, all []encoding.Kernel) []encoding.Kernel {
	return slices.DeleteFunc(all, func(k encoding.Kernel) bool {
		return !sample.Shaders.Drawn(t.Name()+"/"+k.String(), 1)
	})
}

// renderFor renders a kernel, unless the adapter's threads cannot hold its tile in registers, which must be
// an error.
func renderFor(t *testing.T, k encoding.Kernel, lim Limits) (s Shader, fits bool) {
	s, err := Render(k, lim)
	if tile := k.Tile; tile.TM*tile.TN > lim.Threads*maxBlock {
		require.ErrorContains(t, err, "cannot run")
		return s, false
	}
	require.NoError(t, err, k)
	return s, true
}

// eachShader runs a test on the shaders of all tiles, transpositions and load widths for all adapters, with
// some of the element types each, once for each key.
func eachShader(t *testing.T, key func(encoding.Kernel, geometry) any, test func(t *testing.T, s Shader)) {
	seen := map[any]bool{}
	for name, lim := range adapters {
		t.Run(name, func(t *testing.T) {
			for _, k := range some(t, append(kernels(), typed(kernels())...)) {
				if k.Loop || k.Split {
					continue
				}
				s, fits := renderFor(t, k, lim)
				turns, _ := s.turns()
				of := [2]any{key(k, s.geometry), lim.Short && (turns > 1 || s.geometry.B.Direct)}
				if !fits || seen[of] {
					continue
				}
				seen[of] = true
				t.Run(k.String(), func(t *testing.T) { test(t, s) })
			}
		})
	}
}

func TestRespectsLimits(t *testing.T) {
	arrays := regexp.MustCompile(`var<workgroup> \w+: array<array<(?:vec(\d)<)?f32>?, (\d+)>, (\d+)>;`)
	for name, lim := range adapters {
		t.Run(name, func(t *testing.T) {
			for _, k := range some(t, append(kernels(), packedKernels()...)) {
				s, fits := renderFor(t, k, lim)
				if !fits {
					continue
				}
				require.LessOrEqual(t, s.Threads, lim.Threads, k)
				require.LessOrEqual(t, s.SharedBytes, lim.SharedBytes, k)
				require.GreaterOrEqual(t, s.Threads, min(lim.Subgroup, lim.Threads), k)
				require.Contains(t, s.Source, fmt.Sprintf("@workgroup_size(%d)", s.Threads), k)

				bytes := 0
				for _, m := range arrays.FindAllStringSubmatch(s.Source, -1) {
					bytes += 4 * max(1, number(m[1])) * number(m[2]) * number(m[3])
				}
				if k.Dynamic {
					bytes += takenBytes
				}
				require.Equal(t, bytes, s.SharedBytes, "the text declares other arrays: %v", k)
			}
		})
	}
}

func TestFit(t *testing.T) {
	for _, test := range []struct {
		name, tile      string
		threads, lanes  int
		want            int // threads
		rm, rn, kgroups int
	}{
		{"table row", "large", 1024, 32, 256, 4, 4, 1},
		{"table row with K groups", "small-k8", 1024, 32, 128, 4, 4, 8},
		{"fewer K groups", "small-k8", 64, 32, 64, 4, 4, 4},
		{"taller register block", "large", 128, 32, 128, 8, 4, 1},
		{"taller, then wider register block", "large", 64, 32, 64, 8, 8, 1},
		{"last K group, then register block", "medium-k4", 16, 8, 16, 8, 8, 1},
		{"smaller than a subgroup", "tall-8x4", 1024, 128, 128, 8, 4, 2},
		{"limit below the subgroup", "tall-8x4", 64, 128, 64, 8, 4, 1},
		{"no k for more groups", "tiny-k4", 1024, 1024, 128, 2, 4, 16},
	} {
		t.Run(test.name, func(t *testing.T) {
			row, err := tile.ByName(test.tile)
			require.NoError(t, err)
			got, err := fit(*row, Limits{Threads: test.threads, Subgroup: test.lanes})
			require.NoError(t, err)
			require.Equal(t, test.want, got.Threads)
			require.Equal(t, [2]int{test.rm, test.rn}, [2]int{got.RM, got.RN})
			require.Equal(t, test.kgroups, got.Groups())
		})
	}
}

func TestPatch(t *testing.T) {
	for _, test := range []struct {
		name               string
		rows, cols         int
		rm, rn             int
		lanes              int
		wantRows, wantCols int
	}{
		{"square for 4x4 blocks", 16, 16, 4, 4, 64, 8, 8},
		{"half as many rows of 8x4 blocks", 8, 16, 8, 4, 32, 4, 8},
		{"many rows of 1x4 blocks", 16, 8, 1, 4, 32, 8, 4},
		{"unknown subgroup goes by rows", 8, 16, 8, 4, 0, 1, 16},
		{"subgroup larger than the grid", 4, 4, 4, 4, 32, 4, 4},
		{"subgroup that does not divide the grid", 8, 16, 8, 4, 24, 1, 16},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, c := patch(test.rows, test.cols, tile.Shape{RM: test.rm, RN: test.rn}, test.lanes)
			require.Equal(t, [2]int{test.wantRows, test.wantCols}, [2]int{r, c})
		})
	}
}

func TestRenderErrors(t *testing.T) {
	large, err := tile.ByName("large")
	require.NoError(t, err)
	for _, test := range []struct {
		name   string
		kernel encoding.Kernel
		lim    Limits
		want   string
	}{
		{"workgroup memory", encoding.Kernel{Tile: large}, Limits{Threads: 256, SharedBytes: 8000},
			"tile large 64x64x16/256 needs 8448 bytes of workgroup memory, the adapter allows 8000"},
		{"threads", encoding.Kernel{Tile: large}, Limits{Threads: 32, SharedBytes: 16384},
			"tile large 64x64x16/256 cannot run with 32 threads"},
		{"no limits", encoding.Kernel{Tile: large}, Limits{},
			"tile large 64x64x16/256 cannot run with 0 threads"},
		{"words of C", encoding.Kernel{Tile: &tile.Shape{Name: "thin", TM: 16, TN: 16, TK: 16, Threads: 64,
			RM: 4, RN: 1}, TypeC: element.F16},
			adapters["nvidia"], "tile thin 16x16x16/64: vectors of 1 elements are too small for C of f16"},
		{"no tile", encoding.Kernel{}, adapters["nvidia"], "the kernel has no tile"},
		{"threads of ragged plans", encoding.Kernel{Ragged: encoding.RaggedExpand},
			Limits{Threads: 31, SharedBytes: 16384},
			"wgsl: ragged plans need 32 threads, the adapter allows 31"},
		{"workgroup memory of ragged plans", encoding.Kernel{Ragged: encoding.RaggedPlan},
			Limits{Threads: 256, SharedBytes: 8192},
			"wgsl: ragged plans need 13456 bytes of workgroup memory, the adapter allows 8192"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Render(test.kernel, test.lim)
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestNewGeometryRejectsUnevenTiles(t *testing.T) {
	for name, tile := range map[string]*tile.Shape{
		"rows not a multiple of 4":       {TM: 18, TN: 16, TK: 16, Threads: 96, RM: 1, RN: 3},
		"register block does not divide": {TM: 16, TN: 16, TK: 16, Threads: 64, RM: 3, RN: 4},
		"threads left over":              {TM: 16, TN: 16, TK: 16, Threads: 100, RM: 4, RN: 4},
		"K step not divisible by groups": {TM: 16, TN: 16, TK: 16, Threads: 48, RM: 4, RN: 4},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fit(*tile, adapters["nvidia"])
			require.Error(t, err)
		})
	}
}

// TestText checks the rules of naga 0.13, which rejects or misreads other text, and of uniform control flow
// for every shader.
func TestText(t *testing.T) {
	lim := adapters["nvidia"]
	all := some(t, slices.Concat(kernels(), typed(kernels()), packedKernels(), fixups()))
	all = append(all, encoding.Kernel{Ragged: encoding.RaggedPlan},
		encoding.Kernel{Ragged: encoding.RaggedExpand})
	minus := regexp.MustCompile(`-\d|\w-|-\w`) // naga reads x-1u as x and -1u
	integer := regexp.MustCompile(`[^\w.]\d+[^\w.]`)
	for _, k := range all {
		t.Run(k.String(), func(t *testing.T) {
			s, err := Render(k, lim)
			require.NoError(t, err)
			again, err := Render(k, lim)
			require.NoError(t, err)
			require.Equal(t, s, again)

			var blocks []string // conditions of the blocks
			var head string
			for _, line := range strings.Split(s.Source, "\n") {
				line = strings.TrimSpace(line)
				require.NotRegexp(t, minus, line)
				if !strings.Contains(line, "@") && !strings.Contains(line, "array<") {
					require.NotRegexp(t, integer, line, "every integer is a u32")
				}
				if strings.HasPrefix(line, "}") {
					head = blocks[len(blocks)-1]
					blocks = blocks[:len(blocks)-1]
				}
				if strings.HasSuffix(line, "{") {
					if line != "} else {" {
						head = line
					}
					blocks = append(blocks, head)
				}
				if barrier.MatchString(line) {
					for _, b := range blocks {
						together := strings.HasPrefix(b, "fn main(") || uniform[b] || rounds.MatchString(b)
						require.True(t, together, "barrier inside %q", b)
					}
				}
			}
			require.Empty(t, blocks)

			require.Equal(t, 1, strings.Count(s.Source, "fn "+encoding.EntryPoint+"("))
			for number, used := range map[int]bool{
				encoding.BindItems: true, encoding.BindA: !k.Fixup &&
					k.Ragged == 0, encoding.BindB: !k.Fixup && k.Ragged == 0,
				encoding.BindC:     k.Ragged == 0,
				encoding.BindTable: k.Loop, encoding.BindWorkspace: k.Split ||
					k.Fixup, encoding.BindSizes: k.Ragged > 0,
			} {
				declared := strings.Contains(s.Source, fmt.Sprintf("@group(0) @binding(%d) ", number))
				require.Equal(t, used, declared, "binding %d", number)
			}
		})
	}
}

// TestWholeVectors: if stores to components may touch the others, no shader has such a store, because other
// threads store to these.
func TestWholeVectors(t *testing.T) {
	toComponent := regexp.MustCompile(
		`\.[xyzw] = |\bshared[AB](\[[^][]*\]){3} = |\b(C|workspace|words|sums|items)(\[[^][]*\]){2} = `)
	lim := adapters["nvidia"]
	all := some(t, slices.Concat(kernels(), typed(kernels()), packedKernels(), fixups()))
	for _, k := range append(all, encoding.Kernel{Ragged: encoding.RaggedPlan},
		encoding.Kernel{Ragged: encoding.RaggedExpand}) {
		lim.Components = false
		s, err := Render(k, lim)
		require.NoError(t, err)
		require.NotRegexp(t, toComponent, s.Source, k)
		lim.Components = true
		s, err = Render(k, lim)
		require.NoError(t, err)
		require.Equal(t, !k.Fixup && k.Ragged == 0 && stagesNumbers(k), toComponent.MatchString(s.Source), k)
	}
}

// stagesNumbers reports whether a kernel stores an operand by single numbers. The operand is not K-major. A
// is fp32 without vector loads. B has C of fp32, does not go to registers, and has no vector loads, which
// only narrow B would have.
func stagesNumbers(k encoding.Kernel) bool {
	f32, direct := k.TypeA == element.F32, k.Vector && k.Tile.RM == k.Tile.TM
	return f32 && k.TransA && !k.Vector && k.Tile.RM > 1 ||
		k.TypeC == element.F32 && !k.TransB && !direct && k.TypeB() != element.Int4 && (f32 || !k.Vector)
}

// barrier finds the lines where all threads of a workgroup must meet.
var barrier = regexp.MustCompile(`^(workgroup|storage)Barrier\(\);$|= scan\(|workgroupUniformLoad\(`)

// rounds is the head of a loop with the same number of rounds in all threads.
var rounds = regexp.MustCompile(`^for \(var turn = 0u; turn < \d+u; turn = turn \+ 1u\) \{$`)

// uniform are the heads of blocks that all threads of a workgroup enter together: their conditions depend
// only on the item.
var uniform = map[string]bool{
	"fn scan(t: u32, x: u32, limit: u32) -> u32 {": true,
	"for (var d = 1u; d < 256u; d = d * 2u) {":     true,
	"loop {":                     true,
	"if (left != 0u) {":          true,
	"if (odd) {":                 true,
	"if (second) {":              true,
	"if (slot != 0xffffffffu) {": true,
	"if (((offC | ldC | cols) & 1u) == 0u) {":                               true,
	"for (var item = table[worker.x]; item < end; item = item + 1u) {":      true,
	"for (var tile = worker.x; tile != 0xffffffffu;) {":                     true,
	"for (var item = 2u * tile; item < 2u * tile + 2u; item = item + 1u) {": true,
}

// TestGolden shows every change of the text. After an intended change, run go test ./wgsl -update and read
// the difference.
func TestGolden(t *testing.T) {
	for _, test := range []struct {
		file   string
		tile   string
		kernel encoding.Kernel
	}{
		{"large-8x4-nn", "large-8x4", encoding.Kernel{}},
		{"large-8x4-tn-vector", "large-8x4", encoding.Kernel{TransA: true, Vector: true}},
		{"large-8x4-tn-whole", "large-8x4", encoding.Kernel{TransA: true}},
		{"large-tt", "large", encoding.Kernel{TransA: true, TransB: true}},
		{"medium-nt-vector", "medium", encoding.Kernel{TransB: true, Vector: true}},
		{"medium-k4-nn-loop-split", "medium-k4", encoding.Kernel{Loop: true, Split: true}},
		{"small-nn", "small", encoding.Kernel{}},
		{"small-nn-dynamic", "small", encoding.Kernel{Loop: true, Dynamic: true}},
		{"small-nt-gated-dynamic", "small", encoding.Kernel{TransB: true, Loop: true, Dynamic: true,
			Epilogue: encoding.Epilogue{Gated: true}}},
		{"small-k8-tn", "small-k8", encoding.Kernel{TransA: true}},
		{"tiny-k4-nn", "tiny-k4", encoding.Kernel{}},
		{"medium-k4-fixup", "medium-k4", encoding.Kernel{Fixup: true}},
		{"small-nn-bf16", "small", encoding.Kernel{TypeA: element.BF16, TypeC: element.BF16}},
		{"tiny-k4-tt-f16-vector", "tiny-k4", encoding.Kernel{TypeA: element.F16, TransA: true,
			TransB: true, Vector: true}},
		{"medium-k4-fixup-f16", "medium-k4", encoding.Kernel{TypeC: element.F16, Fixup: true}},
		{"small-nn-gated", "small", encoding.Kernel{Loop: true, Epilogue: encoding.Epilogue{
			Activation: encoding.SiLU, Bias: true, Gated: true, Gather: true, Scatter: true, Weights: true}}},
		{"tiny-k4-nt-f16-relu-scatter", "tiny-k4", encoding.Kernel{TransB: true, TypeA: element.F16,
			TypeC:    element.F16,
			Epilogue: encoding.Epilogue{Activation: encoding.ReLU, Bias: true, Scatter: true}}},
		{"medium-k4-fixup-gelu", "medium-k4", encoding.Kernel{Fixup: true,
			Epilogue: encoding.Epilogue{Activation: encoding.GELU, Weights: true}}},
		{"small-nn-e4m3-scales", "small", encoding.Kernel{TypeA: element.E4M3, TypeC: element.BF16,
			Vector: true, Split: true,
			Epilogue: encoding.Epilogue{Gather: true, Bias: true, ScaleA: encoding.PerRow,
				ScaleB: encoding.PerRow}}},
		{"small-nt-e4m3", "small", encoding.Kernel{TypeA: element.E4M3, TransB: true}},
		{"small-nt-int8", "small", encoding.Kernel{TypeA: element.Int8, TransB: true}},
		{"small-tn-int8-vector", "small", encoding.Kernel{TypeA: element.Int8, TransA: true, Vector: true}},
		{"thin-8x64-nn-groups", "thin-8x64", encoding.Kernel{TypeA: element.BF16, TypeC: element.BF16,
			Epilogue: encoding.Epilogue{ScaleB: encoding.PerGroup128}}},
		{"thin-8x64-nt-bf16", "thin-8x64", encoding.Kernel{TransB: true, TypeA: element.BF16,
			TypeC: element.BF16, Vector: true}},
		{"small-nn-gated-groups", "small", encoding.Kernel{TypeA: element.F16, Loop: true,
			Epilogue: encoding.Epilogue{Gated: true, ScaleB: encoding.PerGroup64}}},
		{"small-nn-e4m3-blocks", "small", encoding.Kernel{TypeA: element.E4M3, TypeC: element.BF16,
			Loop: true,
			Epilogue: encoding.Epilogue{Gather: true, Gated: true, ScaleA: encoding.PerBlock,
				ScaleB: encoding.PerBlock}}},
		{"tiny-k4-tt-e4m3-blocks", "tiny-k4", encoding.Kernel{TypeA: element.E4M3, TransA: true,
			TransB: true, Vector: true,
			Epilogue: encoding.Epilogue{ScaleA: encoding.PerBlock, ScaleB: encoding.PerBlock}}},
		{"ragged-plan-blocks", "", encoding.Kernel{Ragged: encoding.RaggedPlan,
			Epilogue: encoding.Epilogue{ScaleA: encoding.PerBlock, ScaleB: encoding.PerBlock}}},
		{"ragged-expand-blocks", "", encoding.Kernel{Ragged: encoding.RaggedExpand,
			Epilogue: encoding.Epilogue{Gated: true, ScaleA: encoding.PerBlock, ScaleB: encoding.PerBlock}}},
		{"medium-k4-fixup-scales", "medium-k4", encoding.Kernel{Fixup: true,
			Epilogue: encoding.Epilogue{Gather: true, ScaleA: encoding.PerRow, ScaleB: encoding.PerTensor}}},
		{"ragged-expand-scales", "", encoding.Kernel{Ragged: encoding.RaggedExpand,
			Epilogue: encoding.Epilogue{Gated: true, ScaleA: encoding.PerRow, ScaleB: encoding.PerRow}}},
		{"small-nn-int8-zeros", "small", encoding.Kernel{TypeA: element.Int8, TypeC: element.BF16,
			Vector: true, Split: true,
			Epilogue: encoding.Epilogue{Gather: true, ScaleA: encoding.PerRow, ScaleB: encoding.PerRow,
				Pairs: true, Zeros: true}}},
		{"medium-k4-fixup-zeros", "medium-k4", encoding.Kernel{Fixup: true,
			Epilogue: encoding.Epilogue{Gather: true, ScaleA: encoding.PerTensor, ScaleB: encoding.PerRow,
				Pairs: true, Zeros: true}}},
		{"ragged-plan-zeros", "", encoding.Kernel{Ragged: encoding.RaggedPlan,
			Epilogue: encoding.Epilogue{ScaleA: encoding.PerRow, ScaleB: encoding.PerRow, Pairs: true,
				Zeros: true}}},
		{"ragged-expand-zeros", "", encoding.Kernel{Ragged: encoding.RaggedExpand,
			Epilogue: encoding.Epilogue{Gated: true, ScaleA: encoding.PerRow, ScaleB: encoding.PerRow,
				Pairs: true, Zeros: true}}},
		{"ragged-plan-groups", "", encoding.Kernel{Ragged: encoding.RaggedPlan,
			Epilogue: encoding.Epilogue{ScaleB: encoding.PerGroup128}}},
		{"ragged-expand-groups", "", encoding.Kernel{Ragged: encoding.RaggedExpand,
			Epilogue: encoding.Epilogue{Gated: true, ScaleB: encoding.PerGroup64}}},
		{"thin-8x64-nn-mxfp4", "thin-8x64", encoding.Kernel{TypeA: element.BF16, TypeC: element.BF16,
			Epilogue: encoding.Epilogue{ScaleB: encoding.PerGroup32}}},
		{"small-nn-nvfp4", "small", encoding.Kernel{TypeA: element.F16, Loop: true,
			Epilogue: encoding.Epilogue{Gated: true, ScaleB: encoding.PerGroup16}}},
		{"ragged-plan-mxfp4", "", encoding.Kernel{Ragged: encoding.RaggedPlan,
			Epilogue: encoding.Epilogue{ScaleB: encoding.PerGroup32}}},
		{"ragged-expand-nvfp4", "", encoding.Kernel{Ragged: encoding.RaggedExpand,
			Epilogue: encoding.Epilogue{Gated: true, ScaleB: encoding.PerGroup16}}},
		{"ragged-plan", "", encoding.Kernel{Ragged: encoding.RaggedPlan}},
		{"ragged-expand", "", encoding.Kernel{Ragged: encoding.RaggedExpand}},
		{"ragged-plan-epilogue", "", encoding.Kernel{Ragged: encoding.RaggedPlan,
			Epilogue: encoding.Epilogue{Gather: true}}},
		{"ragged-expand-epilogue", "", encoding.Kernel{Ragged: encoding.RaggedExpand, TypeA: element.BF16,
			Epilogue: encoding.Epilogue{Bias: true, Gated: true, Gather: true, Scatter: true,
				Weights: true}}},
	} {
		t.Run(test.file, func(t *testing.T) {
			if test.tile != "" {
				shape, err := tile.ByName(test.tile)
				require.NoError(t, err)
				test.kernel.Tile = shape
			}
			lim := adapters["nvidia"]
			lim.Components = !strings.HasSuffix(test.file, "-whole")
			s, err := Render(test.kernel, lim)
			require.NoError(t, err)
			declared(t, s)
			path := filepath.Join("testdata", test.file+".wgsl")
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(s.Source), 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(want), s.Source)
		})
	}
}

// A short text loads and multiplies large K steps in loops, finishes many sums in another loop, and is
// otherwise the same.
func TestShort(t *testing.T) {
	for name, loops := range map[string]bool{"large-8x8": true, "small": false} {
		shape, err := tile.ByName(name)
		require.NoError(t, err)
		lim := adapters["nvidia"]
		long, err := Render(encoding.Kernel{Tile: shape}, lim)
		require.NoError(t, err)
		lim.Short = true
		short, err := Render(encoding.Kernel{Tile: shape}, lim)
		require.NoError(t, err)
		const head = "let many = min(left, 16u);"
		require.NotContains(t, long.Source, head)
		require.Equal(t, loops, strings.Contains(short.Source, head))
		require.Equal(t, loops, strings.Contains(short.Source, "for (var load = 0u; "))
		turns, _ := short.turns()
		require.Equal(t, loops, turns > 1)
		require.Equal(t, loops, 2*len(short.Source) < len(long.Source))
	}
}
