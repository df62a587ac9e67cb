package tile

// Kind is a family of kernels: what multiplies, and which operands they are for. A row has one of the
// kinds below. The zero Kind is plain FMA.
type Kind struct {
	Unit Unit
	// NarrowOnly: native kernels are for elements of 16 bits and fewer alone, not for fp32.
	NarrowOnly bool
	// Int4Only: they are for A of 16 bits and B of 4 bits alone.
	Int4Only bool
	// Aligned: they are made for rows that begin at multiples of 16 bytes. Other rows of elements of
	// 16 bits take many times as long; of 8 bits there are kernels for K-major A and B in such rows
	// alone.
	Aligned bool
	// Swapped: they swap A and B and compute the transpose of a tile, for which each warpgroup has 64
	// columns. They are for fp32 alone.
	Swapped bool
}

// Unit is the part of a compute unit that multiplies.
type Unit string

const (
	FMA   Unit = ""      // fused multiply-adds of fp32
	MMA   Unit = "mma"   // tensor cores, a warp at a time (NVIDIA from 8.0 on)
	WGMMA Unit = "wgmma" // tensor cores, four warps at a time (NVIDIA 9.0)
	Int4  Unit = "int4"  // tensor cores, a warp at a time, of B of 4 bits (NVIDIA from 8.0 on, except 9.0)
	SIMD  Unit = "simd"  // fused multiply-adds on vectors of a CPU, whose thread computes a tile alone
)

// Tensor reports whether the unit is a GPU's tensor cores.
func (u Unit) Tensor() bool { return u == MMA || u == WGMMA || u == Int4 }

// The kinds, with the text of their kernels.
var (
	// fma: plain FMA. HIP and WGSL widen narrower elements on their way (native/kernels/gemm.cuh,
	// wgsl/render.go).
	fma = Kind{Unit: FMA}
	// simd: vectors of a CPU, with elements of all types (internal/cpu).
	simd = Kind{Unit: SIMD}
	// mma: mma.sync, of elements of 32, 16 and 8 bits, however rows lie (native/kernels/tensor.cuh).
	mma = Kind{Unit: MMA}
	// mmaNarrow: the same without fp32.
	mmaNarrow = Kind{Unit: MMA, NarrowOnly: true}
	// wgmma: warpgroups, of elements of 32, 16 and 8 bits, however rows lie. Converter warps bring
	// the operands (native/kernels/wgmma.cuh).
	wgmma = Kind{Unit: WGMMA}
	// wgmmaSwapped: the same for tiles with more columns than rows (native/kernels/wgmma_store.cuh).
	wgmmaSwapped = Kind{Unit: WGMMA, Swapped: true}
	// wgmmaAligned: warpgroups that take operands as they lie in memory (native/kernels/wgmma_aligned.cuh).
	wgmmaAligned = Kind{Unit: WGMMA, NarrowOnly: true, Aligned: true}
	// int4: mma.sync with B of 4 bits (native/kernels/int4.cuh).
	int4 = Kind{Unit: Int4, NarrowOnly: true, Int4Only: true}
	// wgmmaInt4: warpgroups with B of 4 bits. Of few rows warps multiply by themselves
	// (native/kernels/wgmma_int4.cuh).
	wgmmaInt4 = Kind{Unit: WGMMA, NarrowOnly: true, Int4Only: true}

	kinds = [...]Kind{fma, simd, mma, mmaNarrow, wgmma, wgmmaSwapped, wgmmaAligned, int4, wgmmaInt4}
)
