package native

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/batchgemm/batchgemm/native/internal/kernels"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
	"github.com/batchgemm/batchgemm/planner/encoding"
	"github.com/batchgemm/batchgemm/planner/tile"
)

// Arch is an architecture of GPUs that there is code for.
type Arch struct {
	name    string      // as in the table of resources
	product string      // what names of files in products/ begin with
	format  string      // and end with, but for .zst
	parts   bool        // there is a file for each part of the kernels
	units   []tile.Unit // what multiplies, beside plain FMA
	matrix  bool        // AMD: matrix cores take the tiles that suit them
	cluster bool        // there are kernels for clusters
	waits   bool        // see Waits

	types  []element.Type // that kernels of `halves` have beside F32
	halves []tile.Unit
	// AMD: peak rate of the matrix cores for elements of 16 bits over that for fp32, and for those of 8.
	matrixHalves, matrixBytes float64
	bytes                     []element.Type // of 8 bits, that the matrix cores take as they are; others are f16 there
}

var (
	tensor = []tile.Unit{tile.MMA, tile.WGMMA}
	older  = []tile.Unit{tile.MMA, tile.Int4}
	newer  = []tile.Unit{tile.MMA, tile.WGMMA}
	sm80   = Arch{name: "sm_80", product: "sm_80", format: ".cubin", parts: true, units: older, types: narrow, halves: tensor}
	sm90a  = Arch{name: "sm_90a", product: "sm_90a", format: ".cubin", parts: true, units: newer, cluster: true, waits: true, types: narrow, halves: tensor}
	// later GPUs of NVIDIA, and older drivers, which compile the PTX; it is taken to need what 8.0 does.
	ptx = Arch{name: "sm_80", product: "compute_80", format: ".ptx", parts: true, units: older, types: narrow, halves: tensor}
)

// halves are the types of 16 bits, byteTypes those of 8, narrow both, wholeTypes those of whole numbers, and fma the unit of all kernels
// for AMD.
var (
	narrow     = []element.Type{element.BF16, element.F16, element.E4M3, element.Int8}
	halves     = narrow[:2]
	byteTypes  = narrow[2:]
	wholeTypes = narrow[3:]
	fma        = []tile.Unit{tile.FMA}
)

// hips are the architectures of scripts/hip.sh. Code objects run on the very architecture
// that they are made for. Peak rates are those of AMD's data sheets, matrix fp32 and bf16: MI100
// 46.1 and 92.3 TFLOPS (f16 184.6), MI210 45.3 and 181.0, MI300X 163.4 and 1307.4. For int8 they are those of f16, of MI300X for int8 and
// fp8 twice that.
var hips = map[string]Arch{
	"gfx908":  {name: "gfx908", product: "gfx908", format: ".co", matrix: true, types: narrow, halves: fma, matrixHalves: 2, matrixBytes: 4, bytes: wholeTypes},
	"gfx90a":  {name: "gfx90a", product: "gfx90a", format: ".co", matrix: true, types: narrow, halves: fma, matrixHalves: 4, matrixBytes: 4, bytes: wholeTypes},
	"gfx942":  {name: "gfx942", product: "gfx942", format: ".co", matrix: true, types: narrow, halves: fma, matrixHalves: 8, matrixBytes: 16, bytes: byteTypes},
	"gfx1030": {name: "gfx1030", product: "gfx1030", format: ".co", types: narrow, halves: fma},
	"gfx1100": {name: "gfx1100", product: "gfx1100", format: ".co", types: narrow, halves: fma},
}

// Release is the CUDA whose compiler made the cubins, as cuDriverGetVersion has it. NVIDIA promises that drivers of its major
// version load them, and later ones (CUDA Compatibility, "Minor Version Compatibility"); CUDA 13 has another format of cubins than 12.
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
// behind the name, as in "gfx90a:sramecc+:xnack-", do not matter: the code suits all. It
// fails where there is no code.
func HIP(gfx string) (Arch, error) {
	name, _, _ := strings.Cut(gfx, ":")
	arch, ok := hips[name]
	if !ok {
		known := slices.Sorted(maps.Keys(hips))
		return Arch{}, fmt.Errorf("no code for this GPU: %q (there is for %s)", gfx, strings.Join(known, ", "))
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

// Image names the code that is loaded for a kernel, for products.Read and for messages: its product, or of PTX the kernel alone, since
// a driver takes 20 s to compile those of plain tiles, 29 those of tensor cores, and for one 0.4 s, up to about 1 (an H200's, 16 cores).
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
	return a.product + "_" + part(k) + a.format
}

// part is the part of NVIDIA's products that has a kernel, a section of kernels.cu. Of elements of 16 bits a
// fix-up is where C's type says.
func part(k encoding.Kernel) string {
	of := k.Type
	if k.Fixup {
		of = k.TypeC
	}
	switch {
	case k.Ragged > 0:
		return "ragged"
	case k.Tile.Int4Only:
		return "int4"
	case of.Bytes() == 1 && k.Tile.Unit == tile.WGMMA:
		return "wide_" + of.String()
	case of.Bytes() == 1:
		return of.String()
	case k.Tile.Unit == tile.FMA:
		return "plain"
	case k.Tile.Unit == tile.MMA:
		return "tensor"
	case k.Tile.NarrowOnly:
		return "wide"
	case of != element.F32:
		return "halves"
	}
	return "wgmma"
}

// Waits reports whether kernels wait for the launch in front of them, and so may begin before that ends (programmatic
// dependent launch).
func (a Arch) Waits() bool { return a.waits }

// KernelName is the symbol of a kernel in the image. Wide, Loop and Split are decided at
// run time and do not change it, nor does InTurn but of warpgroups, nor what an epilogue has, except that gated tiles of those
// called wide have kernels of their own. Where AMD's GPUs have matrix cores, it is the kernel for
// them of a tile that suits them.
func (a Arch) KernelName(k encoding.Kernel) string {
	end := ""
	if k.Epilogue != (encoding.Epilogue{}) {
		end = "_e"
	}
	if k.Ragged > 0 {
		return fmt.Sprintf("bg_ragged_%s_%d%s", k.Form.Name(), k.Entries, end)
	}
	name := "bg_" + kernels.Identifier(k.Tile) + "_"
	if k.Fixup {
		return name + "fixup" + typeSuffix(k.TypeC) + end
	}
	name += encoding.Trans(k.TransA, k.TransB) + typeSuffix(k.Type)
	if k.TypeB() == element.Int4 && !k.Tile.Int4Only {
		name += typeSuffix(element.Int4)
	}
	if k.TF32 {
		name += "_tf32"
	}
	if k.Cluster > 0 {
		name += "_cluster"
	}
	if k.InTurn && k.Tile.Unit == tile.WGMMA {
		name += "_turn"
	}
	if k.Parts {
		name += "_parts"
	}
	if gatedApart(k) {
		name += "_gated"
	}
	if a.hasMatrix(k.Tile) {
		name += "_mfma"
	}
	return name + end
}

// gatedApart reports whether a kernel is for gated tiles alone.
func gatedApart(k encoding.Kernel) bool { return k.Epilogue.Gated && k.Tile.Aligned && !k.Fixup }

func typeSuffix(t element.Type) string {
	if t == element.F32 {
		return ""
	}
	return "_" + t.String()
}

// hasMatrix reports whether the kernels of a tile shape are those for AMD's matrix cores.
func (a Arch) hasMatrix(s *tile.Shape) bool { return a.matrix && kernels.HasMatrix(s) }

// Has reports whether the image has kernels of a tile shape.
func (a Arch) Has(s *tile.Shape) bool {
	if s.Unit == tile.FMA {
		_, amd := hips[a.name]
		return !amd || kernels.OnHIP(s)
	}
	return slices.Contains(a.units, s.Unit)
}

// Variants are the kernels of a tile shape that differ in name, the fix-up first.
func (a Arch) Variants(s *tile.Shape) []encoding.Kernel {
	if s.Int4Only {
		return append(int4Fixups(s), int4Variants(s)...)
	}
	all := []encoding.Kernel{{Tile: s, Fixup: true}}
	if !s.NarrowOnly {
		all = a.transposed(all, encoding.Kernel{Tile: s})
		if s.Unit.Tensor() {
			all = a.transposed(all, encoding.Kernel{Tile: s, TF32: true})
		}
	}
	if slices.Contains(a.halves, s.Unit) && !s.Swapped {
		for _, of := range a.types { // C of another type is decided at run time
			if of.Bytes() == 1 && !hasBytes(s) {
				continue
			}
			if of.Bytes() > 1 {
				all = append(all, encoding.Kernel{Tile: s, TypeC: of, Fixup: true})
			}
			all = a.transposed(all, encoding.Kernel{Tile: s, Type: of, TypeC: of})
		}
	}
	if s.Epilogues { // neither for tf32, nor for clusters, nor with parts
		for _, k := range all {
			if k.Epilogue = someEpilogue; !k.TF32 && k.Cluster == 0 && !k.Parts {
				all = append(all, k)
				if k.Epilogue.Gated = true; gatedApart(k) {
					all = append(all, k)
				}
			}
		}
	}
	if a.hasInt4(s) {
		all = append(all, int4Variants(s)...)
	}
	return all
}

// hasInt4 reports whether there are kernels of a tile shape for B of 4 bits: of NVIDIA's shapes for it alone, of AMD's, which are plain FMA, those
// that have epilogues.
func (a Arch) hasInt4(s *tile.Shape) bool {
	return s.Int4Only || s.Unit == tile.FMA && s.Epilogues && slices.Contains(a.halves, s.Unit)
}

// int4Fixups are those of a tile shape for B of 4 bits alone.
func int4Fixups(s *tile.Shape) (all []encoding.Kernel) {
	for _, of := range append([]element.Type{element.F32}, halves...) {
		k := encoding.Kernel{Tile: s, TypeC: of, Fixup: true}
		all = append(all, k)
		k.Epilogue = someEpilogue
		all = append(all, k)
	}
	return all
}

// int4Variants are those for B of 4 bits: of matrices as they are, and with scales of groups, which are part of an epilogue.
func int4Variants(s *tile.Shape) (all []encoding.Kernel) {
	for _, of := range halves {
		k := encoding.Kernel{Tile: s, Type: of, TypeC: of, Epilogue: encoding.Epilogue{ScaleB: encoding.PerGroup128}}
		all = append(all, k)
		if k.InTurn = s.Unit == tile.WGMMA; k.InTurn {
			all = append(all, k)
		}
	}
	return all
}

// someEpilogue stands for all, which one kernel does.
var someEpilogue = encoding.Epilogue{Bias: true}

// transposed appends a kernel for all transpositions that there are, and its variants.
func (a Arch) transposed(all []encoding.Kernel, k encoding.Kernel) []encoding.Kernel {
	for trans := range 4 {
		if k.TransA, k.TransB = trans&1 != 0, trans&2 != 0; k.Tile.Aligned && k.Type.Bytes() == 1 && (k.TransA || !k.TransB) {
			continue // tensor cores take bytes along K alone
		}
		all = append(all, k)
		if k.Type == element.F32 && !k.TF32 {
			parts := k
			parts.Split, parts.Parts = true, true
			all = append(all, parts)
		}
		switch {
		case a.cluster && k.Tile.Clusters:
			clustered := k
			clustered.Cluster = 2
			all = append(all, clustered)
		case k.Tile.Unit == tile.WGMMA:
			inTurn := k
			inTurn.InTurn = true
			all = append(all, inTurn)
		}
	}
	return all
}

// RaggedKernels are the kernels that make items of ragged plans, which every architecture has: of each form,
// without an epilogue and with one.
func RaggedKernels() (all []encoding.Kernel) {
	for _, e := range []encoding.Epilogue{{}, someEpilogue} {
		for form := encoding.EndsOfRows; form <= encoding.Records; form++ {
			for _, entries := range encoding.RaggedEntries {
				all = append(all, encoding.Kernel{Ragged: encoding.RaggedPlan, Form: form, Entries: entries, Epilogue: e})
			}
		}
	}
	return all
}

// Describe says which kernels a device of the architecture has, and what they take, as
// their compiler reports it: of each tile shape as much as the kernel that takes most.
func (a Arch) Describe(d *planner.Device) error {
	d.KernelKind, d.Kernels, d.Epilogues, d.Finishes, d.Pointers = planner.KernelsNative, nil, true, true, true
	d.Types, d.Native, d.Blocks = slices.Clone(a.types), a.native(), a.name != "gfx908"
	if slices.ContainsFunc(tile.Table(), func(s *tile.Shape) bool { return a.hasInt4(s) && a.Has(s) }) {
		d.Types = append(d.Types, element.Int4)
	}
	for _, s := range tile.Table() {
		if !a.Has(s) {
			continue
		}
		taken, ok := resources[a.name][s.Name]
		if !ok {
			return fmt.Errorf("tile %s: it is not known what its kernels for %s take: build the products (make cuda, make hip), then go generate ./native", s.Name, a.name)
		}
		d.Kernels = append(d.Kernels, planner.KernelFacts{Tile: s, Resources: taken, Clusters: a.cluster && s.Clusters, Epilogues: s.Epilogues, Halves: a.halfRate(s), Bytes: a.byteRate(s)})
	}
	return nil
}

// native are the types of fewer bits than 32 that it multiplies as they are.
func (a Arch) native() []element.Type {
	switch {
	case slices.Contains(a.units, tile.WGMMA):
		return a.types
	case a.matrix:
		return slices.Concat(halves, a.bytes)
	case len(a.units) > 0:
		return halves
	}
	return nil
}

// halfRate is planner.KernelFacts.Halves of a tile shape. To plain FMAs, elements are fp32 numbers.
func (a Arch) halfRate(s *tile.Shape) float64 {
	switch {
	case s.Unit != tile.FMA || !slices.Contains(a.halves, s.Unit):
		return 0
	case a.hasMatrix(s):
		return a.matrixHalves
	}
	return 1
}

// hasBytes reports whether there are kernels of a tile shape for elements of 8 bits: of plain FMA, which AMD's are, for the shapes
// that have epilogues, since products of such elements have scales.
func hasBytes(s *tile.Shape) bool { return s.Unit != tile.FMA || s.Epilogues }

// byteRate is planner.KernelFacts.Bytes of a tile shape.
func (a Arch) byteRate(s *tile.Shape) float64 {
	rate := a.halfRate(s)
	switch {
	case rate == 0 || !hasBytes(s):
		return 0
	case a.hasMatrix(s):
		return a.matrixBytes
	}
	return rate
}
