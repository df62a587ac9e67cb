package cpu

import (
	"golang.org/x/sys/cpu"

	"github.com/batchgemm/batchgemm/planner/element"
)

//go:generate go -C asm run . -out ../kernels_amd64.s

var avx512 = instructions{
	name: "avx512", size: 4, lanes: 16, far: 8192, gflops: 192, // two units, 16 lanes, multiply and add
	whole: avx512Kernels, edge: avx512Kernels, transpose: transpose512, copyRows: copyRows512,
	alongs: alongKernels,
	fews: &fewUnits{cols: 2, pack: packFew512, kernels: [element.NVFP4 + 1][]func(*few){
		element.Int4: fewInt4, element.MXFP4: fewMXFP4, element.NVFP4: fewNVFP4}},
	double: &instructions{
		size: 8, lanes: 8, far: 8192,
		whole: double512Kernels, edge: double512Kernels, transpose: transposeDouble512, copyRows: copyRows512,
	},
}

// dot512 are avx512 with what multiplies words of BF16 and of Int8, amx the same in tiles.
var (
	dot512 = with("avx512-dot",
		&units{each: 2, kernels: dotBF16Kernels, interleave: pairs512},
		&units{each: 4, kernels: dotInt8Kernels, interleave: quads512, whole: true,
			sumRows: sumRows512})
	amx = with("amx",
		&units{each: 2, tiles: tilesBF16, pack: packTiles, interleave: pairs512},
		&units{each: 4, tiles: tilesInt8, pack: packTiles, interleave: quads512,
			whole: true})
)

// with returns avx512 with units.
func with(name string, bf16, int8 *units) instructions {
	s := avx512
	s.name, s.bf16, s.int8 = name, bf16, int8
	return s
}

var avx2 = instructions{
	name: "avx2", size: 4, lanes: 8, far: 2048, runs: true, gflops: 96,
	whole: avx2Kernels, edge: avx2EdgeKernels, transpose: transpose2,
	fews: &fewUnits{cols: 1, pack: packFew2,
		kernels: [element.NVFP4 + 1][]func(*few){element.Int4: few2, element.MXFP4: few2,
			element.NVFP4: few2},
		scales: [element.NVFP4 + 1]func(*few){element.Int4: scales2Int4, element.MXFP4: scales2MXFP4,
			element.NVFP4: scales2NVFP4}},
	double: &instructions{
		size: 8, lanes: 4, far: 2048,
		whole: double2Kernels, edge: double2EdgeKernels, transpose: transposeDouble2,
	},
}

// panels512 and panels2 make numbers of 4 bits.
var (
	panels512 = [...]func(*panel){element.Int4: panel512x8, element.MXFP4: panel512x4,
		element.NVFP4: panel512x2}
	panels2 = [...]func(*panel){element.Int4: panel2x8, element.MXFP4: panel2x4, element.NVFP4: panel2x2}
)

// Conversions do not depend on the choice of instructions: all give the same bits.
func init() {
	if cpu.X86.HasAVX2 {
		widenPanel, widenWhole[element.BF16] = panels2, widen2BF16
	}
	if cpu.X86.HasAVX512F && cpu.X86.HasBMI2 {
		widenPanel = panels512
		widenWhole[element.BF16], widenWhole[element.F16] = widenBF16, widenF16
		widenWhole[element.E4M3], widenWhole[element.Int8] = widenE4M3, widenInt8
		scaleRows, siluWhole, geluWhole = finish512, silu512, gelu512
		roundWhole[element.BF16], roundWhole[element.F16] = roundBF16, roundF16
	}
}

// available returns the instruction sets of processor and system, best first. Package cpu (golang.org/x/sys)
// asks whether the system saves the registers.
func available() (have []*instructions) {
	x := &cpu.X86
	dot := x.HasAVX512F && x.HasAVX512VL && x.HasAVX512BW && x.HasAVX512VNNI && x.HasAVX512BF16 && x.HasBMI2
	if dot && x.HasAMXTile && x.HasAMXBF16 && x.HasAMXInt8 && mayUseTiles() {
		have = append(have, &amx)
	}
	if dot {
		have = append(have, &dot512)
	}
	if x.HasAVX512F && x.HasAVX512VL && x.HasBMI2 {
		have = append(have, &avx512)
	}
	if x.HasAVX2 && x.HasFMA {
		have = append(have, &avx2)
	}
	return append(have, &generic)
}
