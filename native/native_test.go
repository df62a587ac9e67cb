package native

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/drivertest"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/occupancy"
	"github.com/batchgemm/batchgemm/internal/tile"
	builds "github.com/batchgemm/batchgemm/native/internal/kernels"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

var update = flag.Bool("update", false, "rewrite docs/hip-bringup.md")

// TestGenerated checks that the lists of kernels agree with native/internal/kernels, the words of items with
// internal/encoding, and the planner's facts of kernels with the products.
func TestGenerated(t *testing.T) {
	dir := t.TempDir()
	out, err := exec.Command("go", "run", "./internal/kernels/generate", dir).CombinedOutput()
	require.NoError(t, err, string(out))
	names, err := fs.Glob(os.DirFS(dir), "lists/*")
	require.NoError(t, err)
	there, err := filepath.Glob("lists/*")
	require.NoError(t, err)
	require.Equal(t, names, there)
	for _, name := range append(names, "kernels/items.cuh", "resources.go") {
		want, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got),
			"%s: run go generate ./native, then scripts/cuda.sh where nvcc is, and scripts/hip.sh", name)
	}
}

// kernels lists all kernels of some tiles, by different names.
func (a Arch) kernels(shapes []*tile.Shape) (all []encoding.Kernel) {
	for _, s := range shapes {
		if a.Has(s) {
			all = append(all, a.Variants(s)...)
		}
	}
	return all
}

// image lists all kernels.
func (a Arch) image() []encoding.Kernel {
	return slices.Concat(a.kernels(tile.Table()), builds.Ragged(), builds.Layer())
}

// products lists the files with them.
func (a Arch) products() []string {
	files := map[string]bool{}
	for _, k := range a.image() {
		files[a.Product(k)] = true
	}
	return slices.Sorted(maps.Keys(files))
}

// device returns one of package devices, which imports this package.
func device(t *testing.T, name string) *planner.Device {
	t.Helper()
	data, err := os.ReadFile("../planner/testdata/devices.json")
	require.NoError(t, err)
	var all []*planner.Device
	require.NoError(t, json.Unmarshal(data, &all))
	i := slices.IndexFunc(all, func(d *planner.Device) bool { return d.Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return all[i]
}

func TestImage(t *testing.T) {
	const (
		sm80 = "sm_80_f64.cubin sm_80_int4.cubin sm_80_plain.cubin sm_80_ragged.cubin " +
			"sm_80_routing.cubin sm_80_tensor.cubin sm_80_tensor_e4m3.cubin sm_80_tensor_int8.cubin"
		sm90a = "sm_90a_aligned16.cubin sm_90a_f64.cubin sm_90a_int4.cubin sm_90a_plain.cubin " +
			"sm_90a_ragged.cubin sm_90a_routing.cubin sm_90a_tensor.cubin " +
			"sm_90a_tensor_e4m3.cubin sm_90a_tensor_int8.cubin sm_90a_wgmma.cubin sm_90a_wgmma16.cubin " +
			"sm_90a_wgmma_boxes.cubin sm_90a_wgmma_e4m3.cubin sm_90a_wgmma_int8.cubin"
		ptx = "compute_80_f64.ptx compute_80_int4.ptx compute_80_plain.ptx compute_80_ragged.ptx " +
			"compute_80_routing.ptx compute_80_tensor.ptx compute_80_tensor_e4m3.ptx " +
			"compute_80_tensor_int8.ptx"
	)
	for _, test := range []struct {
		name                 string
		major, minor, driver int
		files, begin         string
	}{
		{"A100", 8, 0, 13000, sm80, "\x7fELF"},
		{"later minor version", 8, 9, 13000, sm80, "\x7fELF"},
		{"H200", 9, 0, 13000, sm90a, "\x7fELF"},
		{"later driver", 9, 0, 14020, sm90a, "\x7fELF"},
		{"older driver", 9, 0, 12090, ptx, ".version 7.0\n"},
		{"A100, older driver", 8, 0, 12000, ptx, ".version 7.0\n"},
		{"later major version", 12, 0, 13000, ptx, ".version 7.0\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			arch, err := CUDA(test.major, test.minor, test.driver)
			require.NoError(t, err)
			code := map[string]string{}
			for _, k := range arch.image() {
				file := arch.Product(k)
				if code[file] == "" {
					code[file] = string(read(t, file))
					require.True(t, strings.HasPrefix(code[file], test.begin), file)
				}
				require.True(t, strings.Contains(code[file], arch.KernelName(k)), "%s: %s", file,
					arch.KernelName(k))
			}
			require.Equal(t, test.files, strings.Join(slices.Sorted(maps.Keys(code)), " "))
		})
	}
	_, err := CUDA(7, 5, Release)
	require.ErrorContains(t, err, "compute capability 7.5, 8.0 or newer is needed")
}

// TestKernelAlone: a PTX kernel is loaded with the head of the product and without the other kernels.
func TestKernelAlone(t *testing.T) {
	named := func(name string) *tile.Shape {
		s, err := tile.ByName(name)
		require.NoError(t, err)
		return s
	}
	require.Equal(t, "sm_80_plain.cubin", sm80.Image(encoding.Kernel{Tile: named("small")}))
	for _, test := range []struct {
		image  string
		kernel encoding.Kernel
	}{
		{"compute_80_plain.ptx/bg_small_nn", encoding.Kernel{Tile: named("small")}}, // the first
		{"compute_80_plain.ptx/bg_thin_8x128_fixup", encoding.Kernel{Tile: named("thin-8x128"), Fixup: true}},
		{"compute_80_tensor.ptx/bg_tensor_64x64_tt_tf32",
			encoding.Kernel{Tile: named("tensor-64x64"), TransA: true, TransB: true, TF32: true}},
		{"compute_80_tensor_int8.ptx/bg_tensor_32x32_nt_int8_e",
			encoding.Kernel{Tile: named("tensor-32x32"), TransB: true, TypeA: element.Int8,
				Epilogue: encoding.Epilogue{Bias: true}}},
	} {
		t.Run(test.image, func(t *testing.T) {
			require.Equal(t, test.image, ptx.Image(test.kernel))
			whole := read(t, ptx.Product(test.kernel))
			alone, err := products.Read(test.image)
			require.NoError(t, err)
			front, entry, found := strings.Cut(string(alone),
				".visible .entry "+ptx.KernelName(test.kernel)+"(")
			require.True(t, found)
			require.NotContains(t, entry, ".entry")
			require.True(t, strings.HasSuffix(entry, "}\n\x00"))
			require.Contains(t, string(whole), strings.TrimSuffix(entry, "\x00"))
			all, _, _ := strings.Cut(string(whole), ".visible .entry")
			require.True(t, strings.HasPrefix(front, all))
			require.NotContains(t, front, "{")
		})
	}
	_, err := products.Read("compute_80_plain.ptx/bg_small_n")
	require.EqualError(t, err, "compute_80_plain.ptx/bg_small_n: no kernel bg_small_n")
}

// TestRelease: Release is the version of the compiler that made the products.
func TestRelease(t *testing.T) {
	manifest, err := os.ReadFile("products/MANIFEST")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(manifest), fmt.Sprintf("# nvcc release %d.%d,", Release/1000,
		Release%1000/10)))
}

// TestKernelsOfPlans: images have all kernels that plans may choose, also ragged ones.
func TestKernelsOfPlans(t *testing.T) {
	for name, arch := range map[string]func() (Arch, error){
		"a100":  func() (Arch, error) { return CUDA(8, 0, Release) },
		"h200":  func() (Arch, error) { return CUDA(9, 0, Release) },
		"mi210": func() (Arch, error) { return HIP("gfx90a") },
	} {
		arch, err := arch()
		require.NoError(t, err)
		has := map[string]bool{}
		for _, k := range arch.image() {
			has[arch.KernelName(k)] = true
		}
		p := planner.New(device(t, name))
		for _, o := range []planner.Options{
			{}, {Compute: planner.ComputeTF32}, {TypeA: element.BF16, TypeC: element.BF16},
			{TypeA: element.F16},
			{TypeA: element.E4M3, TypeC: element.F16}, {TypeA: element.Int8,
				Epilogue: planner.Epilogue{ScaleA: planner.PerRow, ScaleB: planner.PerRow}},
			{Epilogue: planner.Epilogue{Gated: true}}, {TypeA: element.BF16, TypeC: element.BF16,
				Epilogue: planner.Epilogue{Bias: true}},
		} {
			for bits := range 4 {
				groups, err := p.Kernels(o, planner.Transposition{A: bits&1 != 0, B: bits&2 != 0}, false)
				require.NoError(t, err)
				for _, g := range groups {
					for _, k := range g.Kernels {
						require.True(t, has[arch.KernelName(k)], "%s: %v", name, k)
					}
				}
			}
		}
	}
}

// TestDescribe: every architecture describes all of its kernels, and an unknown shape is an error.
func TestDescribe(t *testing.T) {
	for _, arch := range append(Archs(), ptx) {
		var d planner.Device
		require.NoError(t, arch.Describe(&d))
		require.Equal(t, encoding.KernelsNative, d.KernelKind)
		for _, s := range tile.Table() {
			require.Equal(t, arch.Has(s), d.Kernel(s) != nil, "%s %s", arch.Name(), s)
		}
	}
	var d planner.Device
	require.EqualError(t, Arch{name: "sm_70"}.Describe(&d),
		"tile small: it is not known what its kernels for sm_70 take: build the products (make cuda, "+
			"make hip), then go generate ./native")
}

// TestPTX: drivers refuse PTX of a later version than their own.
func TestPTX(t *testing.T) {
	for _, file := range ptx.products() {
		code := read(t, file)
		require.Equal(t, byte(0), code[len(code)-1])
		for _, line := range []string{".version 7.0", ".target sm_80"} {
			require.True(t, strings.Contains("\n"+string(code), "\n"+line+"\n"), "%s: %s", file, line)
		}
	}
}

// usage is a line of products/resources.tsv.
type usage struct{ registers, shared, spilled int }

// cudaUsage reads products/resources.tsv, by architecture and kernel name.
func cudaUsage(t *testing.T) map[string]usage {
	t.Helper()
	table := map[string]usage{}
	for line := range strings.Lines(product(t, "resources.tsv")) {
		var arch, part, name string
		var u usage
		_, err := fmt.Sscan(line, &arch, &part, &name, &u.registers, &u.shared, &u.spilled)
		require.NoError(t, err, line)
		table[arch+" "+name] = u
	}
	return table
}

func TestResources(t *testing.T) {
	table := cudaUsage(t)
	require.Equal(t, len(sm80.image())+len(sm90a.image()), len(table))
	// Bytes of a thread, in loaders of warpgroups and between tiles.
	const mostSpilled, mostOfManyRows = 720, 1344
	listed := map[string]bool{}
	for _, arch := range []Arch{sm80, sm90a} {
		for _, k := range arch.image() {
			listed[arch.Name()+" "+arch.KernelName(k)] = true
		}
	}
	for name, u := range table {
		require.True(t, listed[name], "%s is compiled, and nobody asks for it", name)
		most := mostSpilled
		if strings.Contains(name, "int4_wgmma_128x128_nn") {
			most = mostOfManyRows
		}
		require.LessOrEqual(t, u.spilled, most, "%s spills registers", name)
	}
	for _, of := range []struct {
		arch   Arch
		device *planner.Device
		// shared memory of a group without opt-in; on 9.0 as much as there is, with the drivers of CUDA 13,
		// which alone load these cubins
		static int
	}{{sm80, device(t, "a100"), 48 << 10}, {sm90a, device(t, "h200"), device(t, "h200").GroupShared}} {
		for _, k := range slices.Concat(of.arch.kernels(tile.Of(tile.FMA)), builds.Ragged(),
			builds.Layer()) {
			name := of.arch.Name() + " " + of.arch.KernelName(k)
			u := table[name]
			require.Positive(t, u.registers, name)
			threads, dynamic := Geometry(k)
			require.Zero(t, dynamic)
			require.LessOrEqual(t, u.shared, of.static, "static shared memory")
			least := 1
			switch {
			case k.Fixup:
				continue
			case k.Ragged == 0 && k.Layer == 0:
				least = min(builds.MinGroups(k.Tile), 4)
			}
			taken := occupancy.Resources{Registers: u.registers, Shared: u.shared}
			require.GreaterOrEqual(t, of.device.Resident(threads, taken).Groups, least, name)
		}
	}
}

// TestPieces: the groups of a fix-up cover the vectors of a tile once for each set of threads. There are as
// many sets as partials, but no fewer than the smallest tile leaves room for, and at most 8.
func TestPieces(t *testing.T) {
	for _, c := range []struct {
		tile          string
		parts, pieces int
	}{
		{"tiny-k4", 2, 1}, {"tiny-k4", 100, 1},
		{"medium", 2, 4}, {"medium", 3, 8}, {"medium", 4, 8}, {"medium", 5, 16}, {"medium", 8, 16},
		{"medium", 9, 16}, {"medium", 100, 16},
		{"large-8x8", 2, 16}, {"large-8x8", 4, 32}, {"large-8x8", 100, 64},
	} {
		shape, err := tile.ByName(c.tile)
		require.NoError(t, err)
		l := encoding.Launch{Kernel: encoding.Kernel{Tile: shape, Fixup: true}, MostPartials: c.parts}
		require.Equal(t, c.pieces, Pieces(&l), "%s of %d parts", c.tile, c.parts)
		l.Fixup, l.MostPartials = false, 0
		require.Equal(t, 1, Pieces(&l), c.tile)
	}
}

func TestKernelName(t *testing.T) {
	shape, err := tile.ByName("large-8x4")
	require.NoError(t, err)
	k := encoding.Kernel{Tile: shape, TransB: true, Vector: true, Loop: true, Split: true}
	require.Equal(t, "bg_large_8x4_nt", sm80.KernelName(k))
	require.Equal(t, "bg_large_8x4_nt_mfma", hips["gfx90a"].KernelName(k))
	require.Equal(t, "bg_large_8x4_nt", hips["gfx1030"].KernelName(k))
	require.Equal(t, "bg_large_8x4_fixup", hips["gfx90a"].KernelName(encoding.Kernel{Tile: shape,
		Fixup: true}))
	require.Equal(t, "bg_combine_int64_f16", sm80.KernelName(encoding.Kernel{Layer: encoding.LayerCombine,
		Index64: true, TypeA: element.F16, TypeC: element.F16}))
	require.Equal(t, "bg_ragged_depth_1024", hips["gfx90a"].KernelName(builds.Ragged()[4]))

	for name, want := range map[string]string{"aligned-64x64": "bg_aligned_64x64_nn_bf16_gated_e",
		"wgmma-64x64": "bg_wgmma_64x64_nn_bf16_e"} {
		shape, err := tile.ByName(name)
		require.NoError(t, err)
		k := encoding.Kernel{Tile: shape, TypeA: element.BF16, TypeC: element.BF16, Dynamic: true,
			Epilogue: encoding.Epilogue{Gated: true}}
		require.Equal(t, want, sm90a.KernelName(k))
		k.Fixup = true
		require.Equal(t, "bg_"+builds.Identifier(shape)+"_fixup_bf16_e", sm90a.KernelName(k))
	}
}

// TestNewTile runs a tile that the table does not have: its kernels are made only from its row.
func TestNewTile(t *testing.T) {
	compiled(t)
	shape := drivertest.NewTile
	e, source := buildMutant(t, mutant{}, plain, madeOf(shape))
	require.NoError(t, e.run(source, withKernels(tileJobs(t, shape, element.F32,
		[]int{shape.TM, 1, shape.TM + 3}, []int{shape.TN, shape.TN + 5}), 0, 1)))
	require.Contains(t, builds.CUDA("plain", []*tile.Shape{shape}, builds.All),
		"BG_TILE(new_2x4, Tile<16, 64, 16, 128, 2, 4, 3, 8>)\n")
}
