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

// Arch is an architecture of GPUs that there is code for.
type Arch struct {
	kernels.Arch        // the kernels that it has
	name         string // as in the table of resources
	product      string // what names of files in products/ begin with
	format       string // and end with, but for .zst
	parts        bool   // there is a file for each part of the kernels
	waits        bool   // see Waits
	// AMD: peak rate of the matrix cores for elements of 16 bits over that for fp32, and for those of 8.
	matrixBits16, matrixBytes float64
	// of 8 bits, that the matrix cores take as they are; others are f16 there
	bytes []element.Type
}

var (
	sm80  = Arch{Arch: kernels.SM80, name: "sm_80", product: "sm_80", format: ".cubin", parts: true}
	sm90a = Arch{Arch: kernels.SM90a, name: "sm_90a", product: "sm_90a", format: ".cubin", parts: true,
		waits: true}
	// later GPUs of NVIDIA, and older drivers, which compile the PTX; it is taken to need what 8.0 does.
	ptx = Arch{Arch: kernels.SM80, name: "sm_80", product: "compute_80", format: ".ptx", parts: true}
)

// types16 are the types of 16 bits, byteTypes those of 8, wholeTypes those of whole numbers.
var (
	types16    = []element.Type{element.BF16, element.F16}
	byteTypes  = []element.Type{element.E4M3, element.Int8}
	wholeTypes = byteTypes[1:]
)

// hips are the architectures of scripts/hip.sh. Code objects run on the very architecture that they are made
// for. Peak rates are those of AMD's data sheets, matrix fp32 and bf16: MI100 46.1 and 92.3 TFLOPS (f16
// 184.6), MI210 45.3 and 181.0, MI300X 163.4 and 1307.4. For int8 they are those of f16, of MI300X for int8
// and fp8 twice that.
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

// Release is the CUDA whose compiler made the cubins, as cuDriverGetVersion has it. NVIDIA promises that
// drivers of its major version load them, and later ones (CUDA Compatibility, "Minor Version Compatibility");
// CUDA 13 has another format of cubins than 12.
const Release = 13000 // 1000*major + 10*minor

// CUDA finds the code for a compute capability from 8.0 (Ampere) on, which brought the
// asynchronous copies that the kernels use, and a driver of that CUDA: a cubin, where one runs there, or else
// PTX, which the driver compiles.
func CUDA(major, minor, driver int) (Arch, error) {
	switch {
	case major < 8:
		return Arch{}, fmt.Errorf("compute capability %d.%d, 8.0 or newer is needed", major, minor)
	case driver/1000 < Release/1000:
		return ptx, nil
	case major == 8: // cubins run on later minor versions of their major one
		return sm80, nil
	case major == 9: // with instructions that no other version has
		return sm90a, nil
	}
	return ptx, nil
}

// HIP finds the architecture of a GPU, which gfx is as gcnArchName has it. Settings
// after the name, as in "gfx90a:sramecc+:xnack-", do not matter: the code suits all. It
// fails where there is no code.
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

// Archs lists all for which there is compiled code.
func Archs() []Arch {
	all := []Arch{sm80, sm90a}
	for _, name := range slices.Sorted(maps.Keys(hips)) {
		all = append(all, hips[name])
	}
	return all
}

// Name is the compiler's word for the architecture.
func (a Arch) Name() string { return a.name }

// Image names the code that is loaded for a kernel, for products.Read and for messages: its product, or of
// PTX the kernel alone, since a driver takes 20 s to compile those of plain tiles, 29 those of tensor cores,
// and for one 0.4 s, up to about 1 (an H200's, 16 cores).
func (a Arch) Image(k encoding.Kernel) string {
	if a.format == ".ptx" {
		return a.Product(k) + "/" + a.KernelName(k)
	}
	return a.Product(k)
}

// Product names the file that has a kernel.
func (a Arch) Product(k encoding.Kernel) string {
	if !a.parts {
		return a.product + a.format
	}
	return a.product + "_" + kernels.Part(k) + a.format
}

// Waits reports whether kernels wait for the launch in front of them, and so may begin before that ends
// (programmatic dependent launch).
func (a Arch) Waits() bool { return a.waits }

// RaggedKernels are the kernels that make items of ragged plans, which every architecture has: of each form,
// without an epilogue and with one.
func RaggedKernels() []encoding.Kernel { return kernels.Ragged() }

// Describe says which kernels a device of the architecture has, and what they take, as
// their compiler reports it: of each tile shape as much as the kernel that takes most.
func (a Arch) Describe(d *planner.Device) error {
	d.KernelKind, d.Kernels, d.Epilogues, d.Finishes, d.Pointers = encoding.KernelsNative, nil, true, true,
		true
	d.Types, d.Native, d.Blocks = slices.Clone(a.Types), a.native(), a.name != "gfx908"
	if slices.ContainsFunc(tile.Table(), func(s *tile.Shape) bool { return a.HasInt4(s) && a.Has(s) }) {
		d.Types = append(d.Types, element.Int4)
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

// native are the types of fewer bits than 32 that it multiplies as they are.
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

// halfRate is planner.KernelFacts.Halves of a tile shape. To plain FMAs, elements are fp32 numbers.
func (a Arch) halfRate(s *tile.Shape) float64 {
	switch {
	case s.Unit != tile.FMA || !slices.Contains(a.Bits16, s.Unit):
		return 0
	case a.HasMatrix(s):
		return a.matrixBits16
	}
	return 1
}

// byteRate is planner.KernelFacts.Bytes of a tile shape.
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
