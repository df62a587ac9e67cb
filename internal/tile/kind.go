package tile

// Kind is a family of kernels: the unit that multiplies, and the operands that it takes. A row has one of
// the kinds below. The zero Kind is plain FMA.
type Kind struct {
	Unit Unit
	// NarrowOnly: native kernels exist only for elements of 16 bits and fewer, not for fp32.
	NarrowOnly bool
	// Int4Only: native kernels exist only for A of 16 bits and B of 4 bits.
	Int4Only bool
	// Aligned: kernels are made for aligned rows. Other rows of 16-bit elements take many times as long.
	// 8-bit elements have kernels only for aligned K-major A and B.
	Aligned bool
	// Swapped: kernels swap A and B and compute the transpose of a tile, in which each warpgroup has 64
	// columns. Only for fp32.
	Swapped bool
	// Boxes: kernels copy boxes of aligned A and B, gather no rows and store no partials. Only for problems
	// and groups of rows, without gated units, of elements of 64 bits, or K-major of 16 and 8.
	Boxes bool
}

// Unit is the part of a compute unit that multiplies.
type Unit string

const (
	FMA   Unit = ""      // fused multiply-adds of fp32
	MMA   Unit = "mma"   // tensor cores, a warp at a time (NVIDIA from 8.0 on)
	WGMMA Unit = "wgmma" // tensor cores, four warps at a time (NVIDIA 9.0)
	Int4  Unit = "int4"  // tensor cores, a warp at a time, B of 4 bits (NVIDIA from 8.0 on, except 9.0)
	F64   Unit = "f64"   // tensor cores of fp64, a warp at a time (NVIDIA from 8.0 on)
	SIMD  Unit = "simd"  // fused multiply-adds on vectors of a CPU; one thread computes a tile
)

// Tensor reports whether the unit is a GPU's tensor cores for fp32 and narrower elements.
func (u Unit) Tensor() bool { return u == MMA || u == WGMMA || u == Int4 }

// The kinds, and where their kernels are.
var (
	// fma: plain FMA. HIP and WGSL convert narrower elements to fp32 (native/kernels/gemm.cuh,
	// wgsl/render.go).
	fma = Kind{Unit: FMA}
	// simd: vectors of a CPU, with elements of all types (internal/cpu).
	simd = Kind{Unit: SIMD}
	// mma: mma.sync, with elements of 32, 16 and 8 bits and rows of any alignment
	// (native/kernels/tensor.cuh).
	mma = Kind{Unit: MMA}
	// mmaNarrow: the same without fp32.
	mmaNarrow = Kind{Unit: MMA, NarrowOnly: true}
	// wgmma: warpgroups, with elements of 32, 16 and 8 bits and rows of any alignment. Converter warps bring
	// the operands (native/kernels/wgmma.cuh).
	wgmma = Kind{Unit: WGMMA}
	// wgmmaSwapped: the same for tiles with more columns than rows (native/kernels/wgmma_store.cuh).
	wgmmaSwapped = Kind{Unit: WGMMA, Swapped: true}
	// wgmmaAligned: warpgroups that read operands without conversion (native/kernels/wgmma_aligned.cuh).
	wgmmaAligned = Kind{Unit: WGMMA, NarrowOnly: true, Aligned: true}
	// wgmmaBoxes: warpgroups, and a thread that copies boxes (native/kernels/wgmma_boxes.cuh).
	wgmmaBoxes = Kind{Unit: WGMMA, NarrowOnly: true, Aligned: true, Boxes: true}
	// int4: mma.sync with B of 4 bits (native/kernels/int4.cuh).
	int4 = Kind{Unit: Int4, NarrowOnly: true, Int4Only: true}
	// wgmmaInt4: warpgroups with B of 4 bits. For few rows, warps multiply separately
	// (native/kernels/wgmma_int4.cuh).
	wgmmaInt4 = Kind{Unit: WGMMA, NarrowOnly: true, Int4Only: true}
	// double: fp64 alone (native/kernels/f64.cuh).
	double = Kind{Unit: F64}
	// doubleBoxes: the same where a thread copies boxes (native/kernels/f64_boxes.cuh).
	doubleBoxes = Kind{Unit: F64, Boxes: true}

	kinds = [...]Kind{fma, simd, mma, mmaNarrow, wgmma, wgmmaSwapped, wgmmaAligned, wgmmaBoxes,
		int4, wgmmaInt4, double, doubleBoxes}
)
