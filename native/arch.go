package native

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/native/internal/kernels"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Arch is a GPU architecture with compiled code.
type Arch struct {
	kernels.Arch        // its kernels
	name         string // name in the table of resources
	product      string // start of the file names in products/
	format       string // their extension, without .zst
	parts        bool   // each part of the kernels has a file
	// AMD: peak rate of the matrix cores for 16-bit elements relative to fp32, and the same for 8-bit
	// elements.
	matrixBits16, matrixBytes float64
	// 8-bit types that the matrix cores multiply natively; others are converted to f16
	bytes []element.Type
}

var (
	sm80  = Arch{Arch: kernels.SM80, name: "sm_80", product: "sm_80", format: ".cubin", parts: true}
	sm90a = Arch{Arch: kernels.SM90a, name: "sm_90a", product: "sm_90a", format: ".cubin", parts: true}
	// for later GPUs of NVIDIA and older drivers, which compile the PTX; its needs are assumed to be those
	// of 8.0
	ptx = Arch{Arch: kernels.SM80, name: "sm_80", product: "compute_80", format: ".ptx", parts: true}
)

// types16 are the 16-bit types, byteTypes the 8-bit types, wholeTypes the integer types.
var (
	types16    = []element.Type{element.BF16, element.F16}
	byteTypes  = []element.Type{element.E4M3, element.Int8}
	wholeTypes = byteTypes[1:]
)

// hips are the architectures of scripts/hip.sh. Code objects only run on the exact architecture that they
// are made for. Peak rates are from AMD's data sheets, matrix fp32 and bf16: MI100 46.1 and 92.3 TFLOPS (f16
// 184.6), MI210 45.3 and 181.0, MI300X 163.4 and 1307.4. Those of int8 equal f16; on MI300X, int8 and fp8
// have twice the rate of f16.
var hips = map[string]Arch{
	"gfx908": {Arch: kernels.Matrix, name: "gfx908", product: "gfx908", format: ".co", matrixBits16: 2,
		matrixBytes: 4, bytes: wholeTypes},
	"gfx90a": {Arch: kernels.Matrix, name: "gfx90a", product: "gfx90a", format: ".co", matrixBits16: 4,
		matrixBytes: 4, bytes: wholeTypes},
	"gfx942": {Arch: kernels.Matrix, name: "gfx942", product: "gfx942", format: ".co", matrixBits16: 8,
		matrixBytes: 16, bytes: byteTypes},
	"gfx1030": {Arch: kernels.FMA, name: "gfx1030", product: "gfx1030", format: ".co"},
	"gfx1100": {Arch: kernels.FMA, name: "gfx1100", product: "gfx1100", format: ".co"},
}

// Release is the CUDA version of the compiler that made the cubins, as in cuDriverGetVersion. NVIDIA
// guarantees that drivers of the same major version and later ones load them (CUDA Compatibility, "Minor
// Version Compatibility"). CUDA 13 changed the format of cubins.
const Release = 13000 // 1000*major + 10*minor

// CUDA finds the code for a compute capability and a driver of that CUDA version. Compute capability must be
// 8.0 (Ampere) or later, which has the asynchronous copies of the kernels. The code is a cubin if one runs
// there, or else PTX, which the driver compiles.
func CUDA(major, minor, driver int) (Arch, error) {
	switch {
	case major < 8:
		return Arch{}, fmt.Errorf("compute capability %d.%d, 8.0 or newer is needed", major, minor)
	case driver/1000 < Release/1000:
		return ptx, nil
	case major == 8: // cubins run on later minor versions of the same major version
		return sm80, nil
	case major == 9: // it has instructions that no other version has
		return sm90a, nil
	}
	return ptx, nil
}

// HIP finds the architecture of a GPU by its gcnArchName. Settings after the name, as in
// "gfx90a:sramecc+:xnack-", do not matter: the code suits all. It fails if there is no code.
func HIP(gfx string) (Arch, error) {
	name, _, _ := strings.Cut(gfx, ":")
	arch, ok := hips[name]
	if !ok {
		known := slices.Sorted(maps.Keys(hips))
		return Arch{}, fmt.Errorf("no code for this GPU: %q (there is for %s)", gfx,
			strings.Join(known, ", "))
	}
	return arch, nil
}

// Archs lists all architectures with compiled code.
func Archs() []Arch {
	all := []Arch{sm80, sm90a}
	for _, name := range slices.Sorted(maps.Keys(hips)) {
		all = append(all, hips[name])
	}
	return all
}

// Name returns the compiler's name of the architecture.
func (a Arch) Name() string { return a.name }

// Image names the code to load for a kernel, for products.Read and for messages. It is the kernel's product,
// or for PTX only the kernel: a driver takes 20 s to compile the kernels of plain tiles, 29 s for those of
// tensor cores, and 0.4 to about 1 s for one kernel (an H200's, 16 cores).
func (a Arch) Image(k encoding.Kernel) string {
	if a.format == ".ptx" {
		return a.Product(k) + "/" + a.KernelName(k)
	}
	return a.Product(k)
}

// Product returns the name of the file with a kernel.
func (a Arch) Product(k encoding.Kernel) string {
	if !a.parts {
		return a.product + a.format
	}
	return a.product + "_" + kernels.Part(k) + a.format
}

// Describe sets the kernels of a device of the architecture and their resources, as reported by the
// compiler: for each tile shape those of the largest kernel.
func (a Arch) Describe(d *planner.Device) error {
	d.KernelKind, d.Kernels, d.Epilogues, d.Finishes, d.Pointers = encoding.KernelsNative, nil, true, true,
		true
	d.Types, d.Native, d.Blocks = slices.Clone(a.Types), a.native(), a.name != "gfx908"
	if slices.ContainsFunc(tile.Table(), func(s *tile.Shape) bool { return a.HasInt4(s) && a.Has(s) }) {
		if d.Types = append(d.Types, element.Int4); !a.AMD {
			d.Types = append(d.Types, element.MXFP4, element.NVFP4)
		}
	}
	if slices.Contains(a.Units, tile.F64) {
		d.Types, d.Native = append(d.Types, element.F64), append(slices.Clip(d.Native), element.F64)
	}
	for _, s := range tile.Table() {
		if !a.Has(s) {
			continue
		}
		taken, ok := resources[a.name][s.Name]
		if !ok {
			return fmt.Errorf("tile %s: it is not known what its kernels for %s take: build the products "+
				"(make cuda, make hip), then go generate ./native", s.Name, a.name)
		}
		d.Kernels = append(d.Kernels, planner.KernelFacts{Tile: s, Resources: taken, Clusters: a.Clusters &&
			s.Clusters, Epilogues: s.Epilogues, Halves: a.halfRate(s), Bytes: a.byteRate(s)})
	}
	return nil
}

// native lists the narrow types that it multiplies without conversion.
func (a Arch) native() []element.Type {
	switch {
	case slices.Contains(a.Units, tile.WGMMA):
		return a.Types
	case a.Matrix:
		return slices.Concat(types16, a.bytes)
	case len(a.Units) > 0:
		return types16
	}
	return nil
}

// halfRate returns planner.KernelFacts.Halves of a tile shape. Plain FMA kernels convert elements to fp32.
func (a Arch) halfRate(s *tile.Shape) float64 {
	switch {
	case s.Unit != tile.FMA || !slices.Contains(a.Bits16, s.Unit):
		return 0
	case a.HasMatrix(s):
		return a.matrixBits16
	}
	return 1
}

// byteRate returns planner.KernelFacts.Bytes of a tile shape.
func (a Arch) byteRate(s *tile.Shape) float64 {
	rate := a.halfRate(s)
	switch {
	case rate == 0 || !kernels.HasBytes(s):
		return 0
	case a.HasMatrix(s):
		return a.matrixBytes
	}
	return rate
}
