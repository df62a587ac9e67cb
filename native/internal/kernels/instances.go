package kernels

import (
	"fmt"
	"strings"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// instance is a kernel in the device text: a line of native/lists, MACRO(name, tile, arguments...).
type instance struct {
	macro string
	tile  string   // name of its type
	is    string   // definition of that type
	args  []string // a function template and its arguments after the tile, or for a fix-up the type of C
}

// macroOf returns the macro of a kernel, if kernels.cu and kernels.hip have one for it.
func macroOf(k encoding.Kernel, kind string) string {
	if k.Epilogue != (encoding.Epilogue{}) {
		return "BG_EPILOGUE_" + kind
	}
	return "BG_" + kind
}

// cudaInstance returns the instance of a kernel for NVIDIA.
func cudaInstance(k encoding.Kernel) instance {
	t, name := k.Tile, Identifier(k.Tile)
	switch {
	case t.Int4Only:
		return int4Instance(k, name)
	case t.Unit == tile.F64:
		return doubleInstance(k, name)
	case t.Unit == tile.FMA:
		return fmaInstance(k, name)
	case t.Unit == tile.MMA:
		return tensorInstance(k, name)
	case t.Boxes:
		return boxInstance(k, name)
	case t.NarrowOnly:
		return alignedInstance(k, name)
	}
	return wgmmaInstance(k, name)
}

// fixupInstance returns the instance of a fix-up of tiles of a type.
func fixupInstance(k encoding.Kernel, name, is string) instance {
	return instance{macroOf(k, "FIXUP"), name, is, []string{elements(k.TypeC)}}
}

// gemmInstance returns the instance of a kernel that multiplies.
func gemmInstance(k encoding.Kernel, name, is, function string, args ...any) instance {
	all := []string{function, fmt.Sprint(k.TransA), fmt.Sprint(k.TransB)}
	for _, x := range args {
		all = append(all, fmt.Sprint(x))
	}
	return instance{macroOf(k, "GEMM"), name, is, all}
}

// elements returns the type of elements in device text.
func elements(t element.Type) string {
	switch {
	case t == element.F32:
		return "Floats"
	case t.Bytes() == 1:
		return "Bytes" + format(t)
	}
	return "Bits16<" + format(t) + ">"
}

func format(t element.Type) string {
	return map[element.Type]string{element.BF16: "BF16", element.F16: "F16", element.E4M3: "E4M3",
		element.Int8: "Int8"}[t]
}

// typed returns the element type of tensor core tiles: emulated fp32, tf32, or a narrow type.
func typed(k encoding.Kernel) string {
	switch {
	case k.TypeA != element.F32:
		return "false, " + elements(k.TypeA)
	case k.TF32:
		return "false"
	}
	return "true"
}

func fmaInstance(k encoding.Kernel, name string) instance {
	t := k.Tile
	is := fmt.Sprintf("Tile<%d, %d, %d, %d, %d, %d, %d, %d>", t.TM, t.TN, step(t), t.Threads, t.RM, t.RN,
		stages(t), MinGroups(t))
	if thin(t) {
		along := fmt.Sprintf("Tile<%d, %d, %d, %d, %d, %d, %d, %d>", t.TM, t.TN, t.TK, t.Threads, t.RM, t.RN,
			stagesKMajor(t),
			groupsOf(t, 96)) // at 80 registers they would spill
		if is = "From90<" + is + ", " + along + ">"; k.TransB && !k.Fixup {
			name, is = name+"_kmajor", along
		}
	}
	switch {
	case k.Fixup:
		return fixupInstance(k, name, is)
	case k.Partials:
		return gemmInstance(k, name, is, "gemm", "Accumulator<"+name+">", "Floats", "NoEpilogue", true)
	case k.Epilogue != encoding.Epilogue{}:
		return gemmInstance(k, name, is, "gemm", "Accumulator<"+name+">", "Floats", "Epilogue")
	}
	return gemmInstance(k, name, is, "gemm")
}

func tensorInstance(k encoding.Kernel, name string) instance {
	t, m := k.Tile, TensorOf(k.Tile)
	of := k
	if k.Fixup {
		if of.TypeA = k.TypeC; k.TypeC == element.F32 || k.Epilogue != (encoding.Epilogue{}) {
			of.TypeA = element.BF16
		}
	}
	name += typeSuffix(of.TypeA)
	if k.TF32 {
		name += "_tf32"
	}
	is := fmt.Sprintf("TensorTile<%d, %d, %d, %d, %d, %d, %s>", t.TM, t.TN, TensorStep, m.Teams, m.Stages,
		m.Groups, typed(of))
	switch {
	case k.Fixup:
		return fixupInstance(k, name, is)
	case k.Partials:
		return gemmInstance(k, name, is, "tensorGemm", false, "NoEpilogue", true)
	case k.Epilogue != encoding.Epilogue{}:
		return gemmInstance(k, name, is, "tensorGemm", false, "Epilogue")
	}
	return gemmInstance(k, name, is, "tensorGemm", k.Cluster > 0)
}

func wgmmaInstance(k encoding.Kernel, name string) instance {
	t, w, of, function := k.Tile, wgmmaOf(k.Tile), k, "wgmmaGemm"
	if k.Fixup {
		of.TypeA = k.TypeC
		if k.Epilogue != (encoding.Epilogue{}) && k.TypeC != element.F32 {
			of.TypeA = element.BF16
		}
	}
	name += typeSuffix(of.TypeA)
	if k.TF32 {
		name += "_tf32"
	}
	rows, cols, more := t.TM, t.TN, typed(of)
	switch {
	case t.Swapped:
		rows, cols, more, function = cols, rows, more+", Floats, Swapped", "wgmmaSwapped"
	case k.Epilogue != encoding.Epilogue{} && of.TypeA == element.F32:
		name, more = name+"_e", more+", Floats, Epilogue"
	case k.Epilogue != encoding.Epilogue{}:
		name, more = name+"_e", more+", Epilogue"
	}
	is := fmt.Sprintf("WgmmaTile<%d, %d, %d, %d, %d, %d, %d, %s>", rows, cols, w.consumers, w.groups,
		w.stages, w.ahead, t.Shared, more)
	switch {
	case k.Fixup && t.Swapped:
		return fixupInstance(k, name+"_c", "TileOfC<"+is+">")
	case k.Fixup:
		return fixupInstance(k, name, is)
	case k.Partials:
		return gemmInstance(k, name, is, function, true)
	case k.Boxes:
		return gemmInstance(k, name+"_boxes", "Raw<"+is+">", "wgmmaRaw")
	}
	return gemmInstance(k, name, is, function)
}

func alignedInstance(k encoding.Kernel, name string) instance {
	t, w, of := k.Tile, alignedOf(k.Tile), k.TypeA
	if k.Fixup {
		if of = k.TypeC; k.TypeC == element.F32 || k.Epilogue != (encoding.Epilogue{}) {
			of = element.BF16
		}
	}
	name += typeSuffix(of)
	more := elements(of)
	switch {
	case gatedApart(k):
		name, more = name+"_gated", more+", Epilogue, true"
	case k.Epilogue != encoding.Epilogue{}:
		name, more = name+"_e", more+", Epilogue"
	}
	is := fmt.Sprintf("AlignedTile<%d, %d, %d, %d, %d, %d, %s>", t.TM, t.TN, w.consumers, w.groups, w.stages,
		t.Shared, more)
	if k.Fixup {
		return fixupInstance(k, name, is)
	}
	return gemmInstance(k, name, is, "wgmmaAligned")
}

func boxInstance(k encoding.Kernel, name string) instance {
	t := k.Tile
	name += typeSuffix(k.TypeA)
	more := elements(k.TypeA)
	if k.Epilogue != (encoding.Epilogue{}) {
		name, more = name+"_e", more+", Epilogue"
	}
	is := fmt.Sprintf("BoxTile<%d, %d, %d, %d, %s>", t.TM, t.TN, alignedOf(t).stages, t.Shared, more)
	return gemmInstance(k, name, is, "wgmmaBoxes")
}

func int4Instance(k encoding.Kernel, name string) instance {
	t, of := k.Tile, k.TypeA
	if k.Fixup {
		of = element.BF16
	}
	name += typeSuffix(of)
	var is, function string
	if t.Unit == tile.Int4 {
		g := Int4Of(t)
		is, function = fmt.Sprintf("Int4Tile<%d, %d, %d, %d, %d, %s>", t.TM, t.TN, t.Threads, g.Stages,
			g.Groups, elements(of)), "int4Gemm"
	} else {
		p := panelsOf(t)
		is = fmt.Sprintf("%s<%d, %d, %d, %d, %d, %d, %d, %s>", p.tile, t.TM, t.TN, p.multiply, p.load,
			p.groups, p.stages, t.Shared, elements(of))
		function = p.function
	}
	if k.Fixup {
		return fixupInstance(k, name, is)
	}
	return instance{macroOf(k, "GEMM"), name, is, []string{function}}
}

func doubleInstance(k encoding.Kernel, name string) instance {
	t, d := k.Tile, DoubleOf(k.Tile)
	if t.Boxes {
		is := fmt.Sprintf("DoubleBoxTile<%d, %d, 2, 5, %d>", t.TM, t.TN, t.Shared)
		return instance{"BG_EPILOGUE_GEMM", name, is, []string{"doubleBoxes"}}
	}
	return doubleOr(k, name, fmt.Sprintf("DoubleTile<%d, %d, %d, %d, %d, %d, %d, %d, %t>", t.TM, t.TN, t.TK,
		d.Rows, d.Columns, d.Sets, d.Stages, d.Groups, d.Blends))
}

// doubleOr returns the instance of a kernel of fp64 with a type of its tile, or of a fix-up.
func doubleOr(k encoding.Kernel, name, is string) instance {
	if k.Fixup {
		is = fmt.Sprintf("DoubleFixup<%d, %d>", k.Tile.TM, k.Tile.TN)
		return instance{"BG_EPILOGUE_GEMM", name + "_sums", is, []string{"doubleFixup"}}
	}
	return instance{"BG_EPILOGUE_GEMM", name, is, []string{"doubleGemm"}}
}

// hipInstance returns the instance of a kernel for AMD.
func (a Arch) hipInstance(k encoding.Kernel) instance {
	t, name := k.Tile, Identifier(k.Tile)
	if t.Unit == tile.F64 {
		return doubleOr(k, name, fmt.Sprintf("DoubleTile<%d, %d, %d>", t.TM, t.TN, t.Threads))
	}
	is := fmt.Sprintf("Tile<%d, %d, %d, %d, %d, %d, %d, %d>", t.TM, t.TN, hipStep(t), t.Threads, t.RM, t.RN,
		hipStages, hipWaves)
	if k.Fixup {
		return fixupInstance(k, name, is)
	}
	sum, of := a.hipSum(k)
	sum = strings.Replace(sum, "<", "<"+name, 1)
	switch {
	case k.Partials:
		i := gemmInstance(k, name, is, "gemm", sum, of, "NoEpilogue", true)
		i.macro = "BG_FINISHING_GEMM"
		return i
	case k.TypeB() == element.Int4:
		return gemmInstance(k, name, is, "gemm", sum, of, "GroupedEpilogue")
	case k.Epilogue != encoding.Epilogue{}:
		return gemmInstance(k, name, is, "gemm", sum, of, "Epilogue")
	}
	return gemmInstance(k, name, is, "gemm", sum, of)
}

// hipSum returns the template with which a kernel sums, without its first argument, the tile, and the type
// of the elements of A.
func (a Arch) hipSum(k encoding.Kernel) (sum, of string) {
	matrix, f := a.HasMatrix(k.Tile), format(k.TypeA)
	switch {
	case k.TypeB() == element.Int4 && matrix:
		return "GroupedMatrixAccumulator<, " + f + ">", "Int4Bits16<" + f + ">"
	case k.TypeB() == element.Int4:
		return "GroupedAccumulator<, " + f + ">", "Int4Bits16<" + f + ">"
	case k.TypeA == element.F32 && matrix:
		return "MatrixAccumulator<>", "Floats"
	case k.TypeA == element.F32:
		return "Accumulator<>", "Floats"
	case k.TypeA == element.E4M3 && matrix:
		return "E4M3MatrixAccumulator<>", "E4M3MatrixBytes"
	case k.TypeA == element.Int8 && matrix:
		return "NarrowMatrixAccumulator<, Int8>", "NativeBytes<Int8>"
	case k.TypeA.Bytes() == 1:
		return "HalfAccumulator<, F16>", "StagedBytes<" + f + ">"
	case matrix:
		return "NarrowMatrixAccumulator<, " + f + ">", "Bits16<" + f + ">"
	}
	return "HalfAccumulator<, " + f + ">", "Bits16<" + f + ">"
}

// cudaOrder returns the place of a kernel among those of its tile and part in products for NVIDIA: kernels
// with an epilogue after the others, those for clusters last; by type, and fix-ups after the kernels that
// need them.
func cudaOrder(k encoding.Kernel) []int {
	epilogue, int4, of, pass := k.Epilogue != encoding.Epilogue{}, k.Tile.Int4Only, k.TypeA, 0
	if k.Fixup {
		of = k.TypeC
	}
	switch {
	case k.Cluster > 0:
		pass = 2
	case epilogue && (k.Fixup || !int4):
		pass = 1
	}
	last := k.Fixup && (epilogue || int4 || of == element.F32)
	return order(pass, last, int(of), k.Fixup, k.TF32, k.Boxes, k.Partials, gatedApart(k), k.TransB, k.TransA)
}

// hipOrder does the same for products for AMD.
func hipOrder(k encoding.Kernel) []int {
	epilogue, bytes, int4 := k.Epilogue != encoding.Epilogue{}, k.TypeA.Bytes() == 1,
		k.TypeB() == element.Int4
	of := k.TypeA
	if k.Fixup {
		of = k.TypeC
	}
	return order(epilogue || bytes, k.Fixup, k.Partials, int4, bytes, epilogue, int(of), k.TransA, k.TransB)
}

func order(values ...any) []int {
	all := make([]int, len(values))
	for i, x := range values {
		switch x := x.(type) {
		case int:
			all[i] = x
		case bool:
			if x {
				all[i] = 1
			}
		}
	}
	return all
}
