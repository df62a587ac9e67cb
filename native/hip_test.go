package native

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/codeobject"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/occupancy"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/tile"
	builds "github.com/batchgemm/batchgemm/native/internal/kernels"
	"github.com/batchgemm/batchgemm/planner/element"
)

// cdna are the architectures with matrix cores, and devices with them.
var cdna = map[string]string{"gfx908": "mi100", "gfx90a": "mi210", "gfx942": "mi300x"}

// TestHIPBuild compiles kernels of products for AMD GPUs again, and compares code and metadata. Everything
// takes six minutes of a core. The test makes half of the architectures, others with each change, with all
// kernels that make items and one tile; tiles differ in stages, K groups, epilogues and matrix cores. A
// compiled kernel does not depend on the kernels beside it. TestProductsAreCurrent checks for all of them
// that sources and products belong together.
func TestHIPBuild(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	requireTool(t, "clang++-19")
	requireTool(t, "ld.lld-19")
	manifest := product(t, "HIP-MANIFEST")
	version, err := exec.Command("clang++-19", "--version").Output()
	require.NoError(t, err)
	compiler, _, _ := strings.Cut(string(version), "\n")
	if !strings.HasPrefix(manifest, "# "+compiler+"\n") {
		skipUnlessRequired(t, "clang",
			"another compiler made the products: here is "+compiler+"; run scripts/hip.sh and commit them")
	}
	for arch, name := range map[string]string{"gfx908": "medium-k2", "gfx90a": "small-k8", "gfx942": "large",
		"gfx1030": "tiny-k4", "gfx1100": "tall-8x4"} {
		t.Run(arch, func(t *testing.T) {
			sample.Products.Skip(t, 2)
			t.Parallel()
			shape, err := tile.ByName(name)
			require.NoError(t, err)
			built := buildHIP(t, arch, manifest, shape)
			made, now := readHIP(t, arch), builtObject(t, arch, built)
			require.Len(t, now.Kernels, len(builds.Ragged())+len(builds.Layer())+len(made.Variants(shape)))
			code, own := made.functions(t), now.functions(t)
			for _, k := range now.Kernels {
				before, ok := made.Kernel(k.Name)
				require.True(t, ok, k.Name)
				require.Equal(t, *before, k)
				require.NotEmpty(t, own[k.Name], k.Name)
				require.True(t, bytes.Equal(code[k.Name], own[k.Name]),
					"%s: the products differ: run scripts/hip.sh and commit them", k.Name)
				// The kernel descriptor, except for where the kernel starts.
				of, is := code[k.Name+".kd"], own[k.Name+".kd"]
				require.Len(t, is, 64)
				require.Equal(t, slices.Concat(of[:16], of[24:]), slices.Concat(is[:16], is[24:]), k.Name)
			}
			occupancy, err := os.ReadFile(filepath.Join(built, "hip-occupancy.tsv"))
			require.NoError(t, err)
			require.Subset(t, slices.Collect(strings.Lines(product(t, "hip-occupancy.tsv"))),
				slices.Collect(strings.Lines(string(occupancy))))
		})
	}
}

// buildHIP runs the script that makes products on the sources of a manifest, with one tile.
func buildHIP(t *testing.T, arch, manifest string, shape *tile.Shape) (built string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"native", "scripts"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	for line := range strings.Lines(manifest) {
		_, name, found := strings.Cut(strings.TrimSpace(line), "  ")
		if !found || strings.HasPrefix(name, "products/") {
			continue
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		if name == "lists/hip.inc" {
			text = []byte(builds.HIP([]*tile.Shape{shape}, builds.All))
		}
		to := filepath.Join(dir, "native", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
		require.NoError(t, os.WriteFile(to, text, 0o755))
	}
	built = filepath.Join(dir, "products")
	// By sh, because a new file cannot be run while a forked process has it open.
	out, err := exec.Command("sh", filepath.Join(dir, "scripts", "hip.sh"), built, arch).CombinedOutput()
	require.NoError(t, err, string(out))
	return built
}

// builtObject reads a code object of buildHIP.
func builtObject(t *testing.T, gfx, dir string) hipObject {
	t.Helper()
	arch, err := HIP(gfx)
	require.NoError(t, err)
	code, err := os.ReadFile(filepath.Join(dir, gfx+".co"))
	require.NoError(t, err)
	o, err := codeobject.Read(code)
	require.NoError(t, err)
	return hipObject{arch, o, code}
}

// functions returns the bytes of each symbol: the code of a kernel, and its descriptor.
func (o hipObject) functions(t *testing.T) map[string][]byte {
	t.Helper()
	file, err := elf.NewFile(bytes.NewReader(o.code))
	require.NoError(t, err)
	symbols, err := file.DynamicSymbols()
	require.NoError(t, err)
	all := map[string][]byte{}
	for _, s := range symbols {
		in := file.Sections[s.Section]
		if in.Type == elf.SHT_NOBITS {
			continue
		}
		data, err := in.Data()
		require.NoError(t, err)
		all[s.Name] = data[s.Value-in.Addr:][:s.Size]
	}
	return all
}

func TestHIPImage(t *testing.T) {
	for _, test := range []struct {
		name, gfx, arch string
		wave            int
	}{
		{"MI210", "gfx90a:sramecc+:xnack-", "gfx90a", 64},
		{"MI100", "gfx908", "gfx908", 64},
		{"MI300X", "gfx942:sramecc+:xnack-", "gfx942", 64},
		{"RDNA 2", "gfx1030", "gfx1030", 32},
		{"RDNA 3", "gfx1100", "gfx1100", 32},
	} {
		t.Run(test.name, func(t *testing.T) {
			arch, err := HIP(test.gfx)
			require.NoError(t, err)
			require.Equal(t, test.arch, arch.Name())
			o := readHIP(t, test.gfx)
			require.Equal(t, test.arch, o.Object.Arch)
			for _, k := range arch.image() {
				threads, _ := Geometry(k)
				meta := o.kernel(t, k)
				checkKernel(t, test.arch, meta, test.wave, threads,
					k.Layer > 0 || k.Tails())
				require.True(t, k.Ragged > 0 || k.Layer > 0 || meta.LDS <= 32<<10,
					"%s: two groups fit in 64 KB", meta.Name)
			}
			require.Equal(t, len(arch.image()), len(o.Kernels), "no kernels that are never chosen")
		})
	}
	for _, gfx := range []string{"", "gfx906", "gfx90a0", "gfx1031:x"} {
		_, err := HIP(gfx)
		require.EqualError(t, err,
			fmt.Sprintf("no code for this GPU: %q (there is for gfx1030, gfx1100, gfx908, gfx90a, gfx942)",
				gfx))
	}
}

// hipObject is a code object's description of itself.
type hipObject struct {
	Arch
	*codeobject.Object
	code []byte
}

func readHIP(t *testing.T, gfx string) hipObject {
	t.Helper()
	arch, err := HIP(gfx)
	require.NoError(t, err)
	code := read(t, arch.Product(encoding.Kernel{}))
	o, err := codeobject.Read(code)
	require.NoError(t, err)
	return hipObject{arch, o, code}
}

// kernel returns its description of a kernel.
func (o hipObject) kernel(t *testing.T, k encoding.Kernel) *codeobject.Kernel {
	t.Helper()
	meta, ok := o.Kernel(o.KernelName(k))
	require.True(t, ok, o.KernelName(k))
	return meta
}

// hipResources returns what the planner counts. If vector and accumulation registers are separate files
// (gfx908), the fuller one decides.
func hipResources(k *codeobject.Kernel) occupancy.Resources {
	return occupancy.Resources{Registers: max(k.VGPRs, k.AGPRs), ScalarRegisters: k.SGPRs, Shared: k.LDS}
}

// hipSpills are the bytes that kernels spill, by architecture. None should. With 16-bit elements they spill
// once for many outputs, after the products; with e4m3 they spill values from before the first item. How
// often these are reloaded was not counted.
var hipSpills = map[string]map[string]int{
	"gfx90a": {"bg_large_8x8_tt_bf16_mfma_e": 88, "bg_large_8x8_tt_f16_mfma_e": 88,
		"bg_large_8x8_tn_e4m3_mfma_e": 20},
	"gfx1030": {"bg_large_8x8_nt_e4m3_e": 8},
	"gfx942": {"bg_large_8x8_tt_bf16_mfma_e": 100, "bg_large_8x8_tt_f16_mfma_e": 100,
		"bg_large_8x8_tn_e4m3_mfma_e": 40},
}

// checkKernel checks a kernel for what its loader and the planner rely on.
func checkKernel(t *testing.T, arch string, k *codeobject.Kernel, wave, threads int, epilogue bool) {
	t.Helper()
	require.Equal(t, hipSpills[arch][k.Name], k.Scratch, "%s spills to memory", k.Name)
	require.Equal(t, wave, k.WaveSize, k.Name)
	require.Equal(t, threads, k.MaxThreads, k.Name)
	pointers := 6
	if epilogue { // and flags
		pointers = 9
		require.Equal(t, 80, k.KernargBytes, k.Name)
		require.Len(t, k.Args, 10, k.Name)
		require.Equal(t, codeobject.Arg{Offset: 72, Size: 8, Kind: "by_value"}, k.Args[9], k.Name)
	} else {
		require.Equal(t, 48, k.KernargBytes, k.Name)
		require.Len(t, k.Args, 6, k.Name)
	}
	for i, a := range k.Args[:pointers] {
		kind := "global_buffer"
		switch {
		// The extent in the place of A, and the groups of the first of two programs in that of B.
		case (i == 2 || i == 3) && strings.HasPrefix(k.Name, "bg_ragged"),
			(i == 3 || i == 6) && (strings.HasPrefix(k.Name, "bg_route") ||
				strings.HasPrefix(k.Name, "bg_combine")), // numbers in that of B and B2
			i == 6 && strings.HasPrefix(k.Name, "bg_gate"):
			kind = "by_value"
		}
		require.Equal(t, codeobject.Arg{Offset: 8 * i, Size: 8, Kind: kind}, a, "%s: argument %d", k.Name, i)
	}
	require.LessOrEqual(t, k.LDS, 64<<10, k.Name)
	require.LessOrEqual(t, k.VGPRs, 256, "%s: two waves fit in a SIMD of 512", k.Name)
	// There are 102, or 106 on RDNA. VCC, flat scratch and the XNACK mask also count (LLVM, AMDGPUBaseInfo,
	// getNumExtraSGPRs).
	require.LessOrEqual(t, k.SGPRs, 108, k.Name)
}

// hipOccupancy reads clang's number of waves per SIMD, by architecture and kernel.
func hipOccupancy(t *testing.T) map[string]int {
	t.Helper()
	table := map[string]int{}
	for line := range strings.Lines(product(t, "hip-occupancy.tsv")) {
		var arch, name string
		var waves int
		_, err := fmt.Sscan(line, &arch, &name, &waves)
		require.NoError(t, err, line)
		table[arch+" "+name] = waves
	}
	return table
}

// TestOccupancyModel compares the planner's Eq 5-9 with clang's report for every kernel. Clang divides waves
// among SIMDs and rounds up. Groups of one to four waves, as in all tiles, lose nothing more to whole
// groups.
func TestOccupancyModel(t *testing.T) {
	waves := hipOccupancy(t)
	for arch, name := range cdna {
		d := device(t, name)
		o := readHIP(t, arch)
		for _, k := range o.image() {
			threads, _ := Geometry(k)
			meta := o.kernel(t, k)
			want, ok := waves[arch+" "+meta.Name]
			require.True(t, ok, meta.Name)
			got := d.Resident(threads, hipResources(meta))
			if k.Ragged > 0 || k.Layer > 0 {
				whole := threads / 64
				require.Equal(t, want*d.SIMDs/whole*whole, got.Waves, "%s: %+v of %+v", arch, got, *meta)
				continue
			}
			if meta.LDS%d.SharedGranule != 0 { // clang does not know the granule
				require.GreaterOrEqual(t, want, (got.Waves+d.SIMDs-1)/d.SIMDs, "%s: %+v of %+v", arch, got,
					*meta)
				continue
			}
			require.Equal(t, want, (got.Waves+d.SIMDs-1)/d.SIMDs, "%s: %+v of %+v", arch, got, *meta)
		}
	}
}

// TestInstructions counts the important instructions of inner loops in the machine code for CDNA: packed
// FMAs of one register block for each of the steps unrolled together and for the last step, or as many
// matrix instructions. Other FMAs are for beta*C. Encodings: AMD, "CDNA 2 ISA", VOP3P, VOP3 and VOP2.
func TestInstructions(t *testing.T) {
	sample.Products.Whole(t)
	const unrolled = 4 // BG_UNROLL_STEPS
	for _, arch := range []string{"gfx90a", "gfx942"} {
		o := readHIP(t, arch)
		count := map[string]instructions{}
		for name, code := range o.functions(t) {
			count[name] = countInstructions(code)
		}
		for _, k := range o.kernels(tile.Table()) {
			if k.Fixup {
				continue
			}
			shape, name := k.Tile, o.KernelName(k)
			n, ok := count[name]
			require.True(t, ok, name)
			if builds.HasMatrix(shape) {
				blocks := max(1, shape.TM*shape.TN/256/(shape.Threads/64)) // for each wave
				of := k.TypeA
				if of == element.E4M3 && arch != "gfx942" {
					of = element.F16
				}
				require.GreaterOrEqual(t, n.matrix[of], 2*blocks, "%s %s", arch, name)
				require.Len(t, n.matrix, 1, "%s %s", arch, name)
				scaled := 0
				switch {
				case k.TypeB() == element.Int4: // sums of steps, times scales of groups
					scaled = 4 * blocks
				// of whole steps and of the last one, times scales of blocks
				case k.TypeA == element.E4M3 && k.Epilogue != (encoding.Epilogue{}):
					scaled = 2 * 4 * blocks
				}
				require.Equal(t, scaled/2, n.packed, "%s %s", arch, name)
				require.Zero(t, n.moves, "%s %s: copies to accumulation registers", arch, name)
				continue
			}
			last := 1
			if k.TypeB() == element.Int4 { // all steps are whole
				last = 0
			}
			require.GreaterOrEqual(t, n.packed, shape.RM*shape.RN/2*(min(unrolled,
				max(16, 4*shape.Groups())/shape.Groups())+last), "%s %s", arch, name)
			require.Less(t, n.scalar, 8+unrolled*shape.RM*shape.RN, "%s %s", arch, name)
			require.Empty(t, n.matrix, "%s %s", arch, name)
		}
	}
}

// instructions counts v_pk_fma_f32, other FMAs of fp32, v_accvgpr_read and _write, and, by the type of the
// operands, v_mfma_f32_16x16x4_f32, v_mfma_f32_16x16x16 of bf16 and f16, v_mfma_i32_16x16x16i8 or
// 16x16x32_i8, v_mfma_f32_16x16x32_fp8_fp8, and v_mfma_f64_16x16x4_f64.
type instructions struct {
	packed, scalar, moves int
	matrix                map[element.Type]int
}

// countInstructions looks at every word, including second words of instructions; a few of these look like
// v_fmac_f32.
func countInstructions(code []byte) instructions {
	n := instructions{matrix: map[element.Type]int{}}
	for ; len(code) >= 4; code = code[4:] {
		word := binary.LittleEndian.Uint32(code)
		switch word >> 16 {
		case 0xd3b0:
			n.packed++
		case 0xd3c5:
			n.matrix[element.F32]++
		case 0xd3e7, 0xd3e1: // of gfx90a; of gfx942
			n.matrix[element.BF16]++
		case 0xd3cd:
			n.matrix[element.F16]++
		case 0xd3d5, 0xd3d7: // of gfx90a; of gfx942
			n.matrix[element.Int8]++
		case 0xd3f3:
			n.matrix[element.E4M3]++
		case 0xd3ee:
			n.matrix[element.F64]++
		case 0xd1cb:
			n.scalar++
		case 0xd3d8, 0xd3d9:
			n.moves++
		}
		if word>>25 == 59 { // v_fmac_f32
			n.scalar++
		}
	}
	return n
}
