package kernels

import (
	"fmt"
	"slices"
	"strings"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Arch defines the kernels of an architecture. It is their only list: go generate writes an instance of each
// to native/lists, from which they are compiled.
type Arch struct {
	AMD      bool
	Units    []tile.Unit    // units that multiply, beside plain FMA
	Types    []element.Type // of kernels of Bits16, beside F32
	Bits16   []tile.Unit
	Matrix   bool // AMD: tiles that suit matrix cores use them
	Clusters bool
	Waits    bool // kernels wait for the launch before them, and may begin before it ends (PDL)
}

// The architectures: of NVIDIA, and of AMD with only plain FMA and with matrix cores.
var (
	SM80  = Arch{Units: []tile.Unit{tile.MMA, tile.Int4, tile.F64}, Types: narrow, Bits16: tensor}
	SM90a = Arch{Units: []tile.Unit{tile.MMA, tile.WGMMA, tile.F64}, Types: narrow, Bits16: tensor,
		Clusters: true, Waits: true}
	FMA    = Arch{AMD: true, Types: narrow, Bits16: []tile.Unit{tile.FMA}}
	Matrix = Arch{AMD: true, Units: []tile.Unit{tile.F64}, Types: narrow, Bits16: []tile.Unit{tile.FMA},
		Matrix: true}
)

// narrow are the 16-bit types, types16, and the 8-bit types.
var (
	narrow  = []element.Type{element.BF16, element.F16, element.E4M3, element.Int8}
	types16 = narrow[:2]
	tensor  = []tile.Unit{tile.MMA, tile.WGMMA}
)

// Has reports whether there are kernels of a tile shape.
func (a Arch) Has(s *tile.Shape) bool {
	switch {
	case s.Unit == tile.FMA:
		return !a.AMD || OnHIP(s)
	case a.AMD && !DoubleOnHIP(s):
		return false
	}
	return slices.Contains(a.Units, s.Unit) && (!s.Boxes || slices.Contains(a.Units, tile.WGMMA))
}

// HasInt4 reports whether there are kernels of a tile shape for 4-bit B: for NVIDIA the shapes that are only
// for it, for AMD the plain FMA shapes with epilogues.
func (a Arch) HasInt4(s *tile.Shape) bool {
	return s.Int4Only || s.Unit == tile.FMA && s.Epilogues && slices.Contains(a.Bits16, s.Unit)
}

// HasMatrix reports whether the kernels of a tile shape are those for AMD's matrix cores.
func (a Arch) HasMatrix(s *tile.Shape) bool { return a.Matrix && HasMatrix(s) }

// HasBytes reports whether there are kernels of a tile shape for 8-bit elements. For plain FMA, as on AMD,
// these are the shapes with epilogues, because products of such elements have scales.
func HasBytes(s *tile.Shape) bool { return s.Unit != tile.FMA || s.Epilogues }

// Variants returns the kernels of a tile shape by different names, the fix-up first.
func (a Arch) Variants(s *tile.Shape) []encoding.Kernel {
	switch {
	case s.Int4Only:
		return append(int4Fixups(s), int4Variants(s)...)
	case s.Unit == tile.F64: // kernels choose transpositions and epilogues at run time
		k := encoding.Kernel{Tile: s, TypeA: element.F64, TypeC: element.F64}
		if s.Boxes {
			return []encoding.Kernel{k}
		}
		fixup := k
		fixup.Fixup = true
		return []encoding.Kernel{fixup, k}
	}
	if s.Boxes {
		return boxVariants(s)
	}
	all := []encoding.Kernel{{Tile: s, Fixup: true}}
	if !s.NarrowOnly {
		all = a.transposed(all, encoding.Kernel{Tile: s})
		if s.Unit.Tensor() {
			all = a.transposed(all, encoding.Kernel{Tile: s, TF32: true})
		}
	}
	if slices.Contains(a.Bits16, s.Unit) && !s.Swapped {
		for _, of := range a.Types { // kernels choose the type of C at run time
			if of.Bytes() == 1 && !HasBytes(s) {
				continue
			}
			if of.Bytes() > 1 {
				all = append(all, encoding.Kernel{Tile: s, TypeC: of, Fixup: true})
			}
			all = a.transposed(all, encoding.Kernel{Tile: s, TypeA: of, TypeC: of})
		}
	}
	if s.Epilogues { // not for tf32, nor for clusters, nor with partials or boxes
		for _, k := range all {
			if k.Epilogue = someEpilogue; !k.TF32 && k.Cluster == 0 && !k.Partials && !k.Boxes {
				all = append(all, k)
				if k.Epilogue.Gated = true; gatedApart(k) {
					all = append(all, k)
				}
			}
		}
	}
	if a.HasInt4(s) {
		all = append(all, int4Variants(s)...)
	}
	return all
}

// boxVariants returns the kernels that copy boxes, which run along K.
func boxVariants(s *tile.Shape) (all []encoding.Kernel) {
	for _, of := range narrow {
		k := encoding.Kernel{Tile: s, TransB: true, TypeA: of, TypeC: of}
		all = append(all, k)
		k.Epilogue = someEpilogue
		all = append(all, k)
	}
	return all
}

// someEpilogue stands for all epilogues, which share one kernel.
var someEpilogue = encoding.Epilogue{Bias: true}

// int4Fixups returns those of a tile shape that is only for 4-bit B.
func int4Fixups(s *tile.Shape) (all []encoding.Kernel) {
	for _, of := range append([]element.Type{element.F32}, types16...) {
		k := encoding.Kernel{Tile: s, TypeC: of, Fixup: true}
		all = append(all, k)
		k.Epilogue = someEpilogue
		all = append(all, k)
	}
	return all
}

// int4Variants returns the kernels for 4-bit B. Matrices are not transposed, and scales of groups are part
// of an epilogue.
func int4Variants(s *tile.Shape) (all []encoding.Kernel) {
	for _, of := range types16 {
		all = append(all, encoding.Kernel{Tile: s, TypeA: of, TypeC: of,
			Epilogue: encoding.Epilogue{ScaleB: encoding.PerGroup128}})
	}
	return all
}

// transposed appends a kernel for all its transpositions, with its variants.
func (a Arch) transposed(all []encoding.Kernel, k encoding.Kernel) []encoding.Kernel {
	for trans := range 4 {
		if k.TransA, k.TransB = trans&1 != 0, trans&2 != 0; k.Tile.Aligned && k.TypeA.Bytes() == 1 &&
			(k.TransA || !k.TransB) {
			continue // tensor cores only take K-major bytes
		}
		all = append(all, k)
		if k.TypeA == element.F32 && !k.TF32 {
			partials := k
			partials.Split, partials.Partials = true, true
			all = append(all, partials)
		}
		if k.TypeA == element.F32 && !k.TF32 && k.Tile.Raw && !k.TransA {
			boxes := k
			boxes.Boxes = true
			all = append(all, boxes)
		}
		if a.Clusters && k.Tile.Clusters {
			clustered := k
			clustered.Cluster = 2
			all = append(all, clustered)
		}
	}
	return all
}

// Ragged returns the kernels that make items of ragged plans, which every architecture has: for each form,
// with and without an epilogue.
func Ragged() (all []encoding.Kernel) {
	for _, e := range []encoding.Epilogue{{}, someEpilogue} {
		for form := encoding.EndsOfRows; form <= encoding.Records; form++ {
			for _, entries := range encoding.RaggedEntries {
				all = append(all, encoding.Kernel{Ragged: encoding.RaggedPlan, Form: form, Entries: entries,
					Epilogue: e})
			}
		}
	}
	return all
}

// Layer returns the kernels of a layer of experts except its products: one for each type of experts' numbers,
// and of weights or rows. Every architecture has them.
func Layer() (all []encoding.Kernel) {
	for _, stage := range []encoding.LayerStage{encoding.LayerRoute, encoding.LayerCombine,
		encoding.LayerGate, encoding.LayerGateBackward} {
		for _, long := range []bool{false, true} {
			if long && !stage.HasIndex() {
				continue
			}
			for _, of := range append([]element.Type{element.F32}, types16...) {
				all = append(all, encoding.Kernel{Layer: stage, Index64: long, TypeA: of})
				if stage == encoding.LayerGate {
					all = append(all, encoding.Kernel{Layer: stage, TypeA: of, TypeC: element.E4M3},
						encoding.Kernel{Layer: stage, TypeA: of, TypeC: element.Int8})
				}
			}
		}
	}
	return all
}

// KernelName returns the symbol of a kernel in the image: bg_, the tile, the transpositions, then the type
// of A and B, or _tf32 for one product on tensor cores, and other properties of separate kernels. Vector,
// Loop, Dynamic and Split are decided at run time and are not in the name. Nor are the parts of an epilogue,
// except that gated tiles of the aligned kind have separate kernels. If AMD's GPUs have matrix cores that
// suit the tile, it is their kernel.
func (a Arch) KernelName(k encoding.Kernel) string {
	end := ""
	if k.Epilogue != (encoding.Epilogue{}) {
		end = "_e"
	}
	if k.Ragged > 0 {
		if k.Tails() {
			end = "_e"
		}
		return fmt.Sprintf("bg_ragged_%s_%d%s", k.Form.Name(), k.Entries, end)
	}
	if k.Layer > 0 {
		return "bg_" + strings.ReplaceAll(k.String(), "/", "_")
	}
	name := "bg_" + Identifier(k.Tile) + "_"
	if k.Tile.Unit == tile.F64 {
		if k.Fixup {
			return name + "fixup"
		}
		return name + "gemm"
	}
	if k.Fixup {
		return name + "fixup" + typeSuffix(k.TypeC) + end
	}
	name += encoding.Trans(k.TransA, k.TransB) + typeSuffix(k.TypeA)
	if k.TypeB() == element.Int4 && !k.Tile.Int4Only {
		name += typeSuffix(element.Int4)
	}
	if k.TF32 {
		name += "_tf32"
	}
	if k.Cluster > 0 {
		name += "_cluster"
	}
	if k.Partials {
		name += "_partials"
	}
	if k.Boxes {
		name += "_boxes"
	}
	if gatedApart(k) {
		name += "_gated"
	}
	if a.HasMatrix(k.Tile) {
		name += "_mfma"
	}
	return name + end
}

// gatedApart reports whether a kernel is only for gated tiles.
func gatedApart(k encoding.Kernel) bool { return k.Epilogue.Gated && k.Tile.Aligned && !k.Fixup }

func typeSuffix(t element.Type) string {
	if t == element.F32 {
		return ""
	}
	return "_" + t.String()
}

// Parts are the parts of NVIDIA's products, each a file of native/lists.
var Parts = []string{"ragged", "routing", "plain", "tensor", "tensor_e4m3", "tensor_int8", "wgmma", "wgmma16",
	"wgmma_e4m3", "wgmma_int8", "wgmma_boxes", "aligned16",
	"int4", "f64"}

// Part returns the part that has a kernel. A fix-up for 16-bit elements is in the part of C's type.
func Part(k encoding.Kernel) string {
	of := k.TypeA
	if k.Fixup {
		of = k.TypeC
	}
	switch {
	case k.Ragged > 0:
		return "ragged"
	case k.Layer > 0:
		return "routing"
	case k.Tile.Int4Only:
		return "int4"
	case k.Tile.Unit == tile.F64:
		return "f64"
	case k.Tile.Boxes:
		return "wgmma_boxes"
	case of.Bytes() == 1 && k.Tile.Unit == tile.WGMMA:
		return "wgmma_" + of.String()
	case of.Bytes() == 1:
		return "tensor_" + of.String()
	case k.Tile.Unit == tile.FMA:
		return "plain"
	case k.Tile.Unit == tile.MMA:
		return "tensor"
	case k.Tile.NarrowOnly:
		return "aligned16"
	case of != element.F32:
		return "wgmma16"
	}
	return "wgmma"
}
