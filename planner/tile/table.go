package tile

// table is the tile table. Its first rows are Table 3 of Zhang et al. 2025, in the
// order of Algorithm 1; their register blocks spread W_CP outputs per thread.
//
// The rows with register blocks after them are ours. In them a thread holds 16 or 32 outputs, because
// loads from workgroup memory and not FMAs limit the table's rows, and the
// threads left over split each K step among K groups of the workgroup, whose
// partial sums are added at the end. Such a small tile finishes a long K early. Rows called thin
// are for problems of few rows, which wait for a long B.
//
// Rows of the units MMA and WGMMA are for tensor cores. In tensor-32x32 each warp has
// a part of every K step. Those of the unit Int4 are for B of 4 bits. In the rows of warpgroups, 128 threads for each 64 rows multiply
// and the others bring the operands, of the rows called wide for elements of 16 bits whose rows begin with 16 bytes. In the last rows, of the unit SIMD, a thread of a CPU
// computes a tile alone.
//
// The rates of GPUs are fits of the model to measured times of 72 batches of 8 to
// 256 problems with sizes uniform in [16, 128..512] and K in [16, 128..1024], on
// an H200 with driver 580: data-parallel, LPT for warpgroup kernels, and split-K; TF32
// to 20 of the batches; halves in bf16 to all, with sizes as they are and rounded up to multiples
// of 8. Tiles near the best of a batch count most; the root mean square
// of their relative error is 5 to 11 percent a row. WGSL ran through Vulkan and was timed
// by GPU timestamps, CUDA as nodes of a CUDA graph; Words by one batch (512, 128, 256) in bf16.
// On the CUDA kernels, what the planner chooses by them takes 0.8 percent longer than the best forced tile and schedule of the
// same run (mean; 10 percent at most), in TF32 1.3 percent. Streams are of 127 problems of 4 x 1536 x 2048
// (fp32; in the other rows arithmetic took longer) and of 128 ragged ones of few rows (halves).
//
// The rows of the unit MMA were fitted again when their kernels became up to 24 percent faster, to the 48 batches of up to 64 problems
// on an H100: 5 to 8 percent. What the planner chooses there takes 1.7 percent longer than the best forced plan, 1.7 of rounded and 2.1 of other halves
// (means). In the fp32 row of tensor-32x32 the fit said 0.772, 0.216, 0.91 and 0.567; the numbers there are by what is chosen.
//
// Elements of 8 bits have no rates of their own: they take those of halves, with WideBytes times the efficiency of the wide rows. Of Qwen3's experts
// (H200) what the planner chooses by them is as fast as the best wide tile with 1 to 256 tokens, and takes 4 and 5 percent longer with 1024
// and 4096, by two shapes where 128 x 128 alone would do.
//
// The rates Int4 are no fits either: what Qwen3's experts (H200) took with 4096 tokens and with 64.
//
// The rates of thin rows are no fits, but estimates from batches outside the sweep, 8 to 127 problems of 1 to 16 x 1536 x 2048.
// Direct is such that small-k8 is predicted to take as many times as long as thin-8x64 as it took, 480 us and 386, of 16 problems of
// 16 x 4096 x 4096 in fp32 (H100 through Vulkan; in bf16 407 and 280). thin-8x128 takes 522, and in bf16 as long as thin-8x64.
//
// The rates CPU were set by hand, as shares of the peak that package cpu states, so that
// the choice is near the best on two cores with AVX-512: it takes 3.1 percent longer than
// the best of some 60 forced plans (mean of the 72; 13 percent at most), of which times
// vary by 5.
var table = [...]Shape{
	{Name: "small", TM: 16, TN: 16, TK: 16, Threads: 128, RM: 1, RN: 2, Zhang: true, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.125, Step: 0.314, Fixed: 0.70, Worker: 0.022},
		Native: Rate{Efficiency: 0.118, Step: 0.262, Fixed: 0.13, Worker: 0.025},
		CPU:    Rate{Efficiency: 0.6, Worker: 0.1},
	}},
	{Name: "small-medium", TM: 16, TN: 32, TK: 16, Threads: 128, RM: 1, RN: 4, Zhang: true, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.158, Step: 0.220, Fixed: 1.03, Worker: 0.023},
		Native: Rate{Efficiency: 0.153, Step: 0.387, Fixed: 0.00, Worker: 0.046},
		CPU:    Rate{Efficiency: 0.7, Worker: 0.15},
	}},
	{Name: "medium", TM: 32, TN: 32, TK: 16, Threads: 128, RM: 2, RN: 4, Zhang: true, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.306, Step: 0.318, Fixed: 1.03, Worker: 0.122},
		Native: Rate{Efficiency: 0.292, Step: 0.442, Fixed: 0.00, Worker: 0.031},
		CPU:    Rate{Efficiency: 0.8, Worker: 0.2},
	}},
	{Name: "medium-large", TM: 32, TN: 64, TK: 16, Threads: 256, RM: 2, RN: 4, Zhang: true, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.340, Step: 0.425, Fixed: 1.11, Worker: 0.496},
		Native: Rate{Efficiency: 0.337, Step: 0.546, Fixed: 0.00, Worker: 0.129},
		CPU:    Rate{Efficiency: 0.82, Worker: 0.3},
	}},
	{Name: "large", TM: 64, TN: 64, TK: 16, Threads: 256, RM: 4, RN: 4, Zhang: true, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.563, Step: 0.504, Fixed: 1.74, Worker: 1.111},
		Native: Rate{Efficiency: 0.541, Step: 0.665, Fixed: 0.00, Worker: 0.327},
		CPU:    Rate{Efficiency: 0.85, Worker: 0.4},
	}},

	{Name: "tiny-k4", TM: 8, TN: 8, TK: 16, Threads: 32, RM: 2, RN: 4, Epilogues: true, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.171, Step: 0.170, Fixed: 0.93, Worker: 0.036},
		Native: Rate{Efficiency: 0.128, Step: 0.200, Fixed: 0.37, Worker: 0.016},
	}},
	{Name: "small-k8", TM: 16, TN: 16, TK: 64, Threads: 128, RM: 4, RN: 4, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.343, Step: 0.284, Fixed: 0.89, Worker: 0.215},
		Native: Rate{Efficiency: 0.283, Step: 0.422, Fixed: 0.62, Worker: 0.110},
	}},
	{Name: "medium-k2", TM: 32, TN: 32, TK: 16, Threads: 64, RM: 8, RN: 4, Epilogues: true, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.581, Step: 0.285, Fixed: 1.43, Worker: 0.328},
		Native: Rate{Efficiency: 0.495, Step: 0.322, Fixed: 0.43, Worker: 0.136},
	}},
	{Name: "medium-k4", TM: 32, TN: 32, TK: 32, Threads: 128, RM: 8, RN: 4, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.588, Step: 0.340, Fixed: 1.29, Worker: 0.385},
		Native: Rate{Efficiency: 0.471, Step: 0.327, Fixed: 0.93, Worker: 0.192},
	}},
	{Name: "tall-8x4", TM: 64, TN: 32, TK: 16, Threads: 64, RM: 8, RN: 4, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.613, Step: 0.482, Fixed: 1.63, Worker: 0.388},
		Native: Rate{Efficiency: 0.560, Step: 0.607, Fixed: 0.00, Worker: 0.163},
	}},
	{Name: "large-8x4", TM: 64, TN: 64, TK: 16, Threads: 128, RM: 8, RN: 4, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.710, Step: 0.508, Fixed: 1.73, Worker: 0.791},
		Words:  0.06,
		Native: Rate{Efficiency: 0.643, Step: 0.603, Fixed: 0.00, Worker: 0.401},
	}},
	{Name: "large-8x8", TM: 64, TN: 64, TK: 16, Threads: 64, RM: 8, RN: 8, Epilogues: true, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.758, Step: 0.780, Fixed: 2.19, Worker: 0.780},
		Words:  0.26,
		Native: Rate{Efficiency: 0.700, Step: 0.946, Fixed: 0.00, Worker: 0.386},
	}},
	{Name: "large-8x8-k2", TM: 64, TN: 64, TK: 16, Threads: 128, RM: 8, RN: 8, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.690, Step: 0.478, Fixed: 1.20, Worker: 1.400},
		Native: Rate{Efficiency: 0.672, Step: 0.511, Fixed: 0.22, Worker: 0.540},
	}},
	{Name: "thin-8x64", TM: 8, TN: 64, TK: 16, Threads: 64, RM: 8, RN: 4, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.240, Step: 0.300, Fixed: 1.20, Worker: 0.200},
		Direct: 2.1,
		Native: Rate{Efficiency: 0.330, Step: 0.250, Fixed: 0.50, Worker: 0.100, Stream: 30000},
	}},
	{Name: "thin-8x128", TM: 8, TN: 128, TK: 16, Threads: 128, RM: 8, RN: 4, Epilogues: true, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.190, Step: 0.300, Fixed: 1.20, Worker: 0.200},
		Native: Rate{Efficiency: 0.340, Step: 0.250, Fixed: 0.50, Worker: 0.150, Stream: 32500},
	}},

	{Name: "tensor-16x32", TM: 16, TN: 32, TK: 32, Threads: 128, Unit: MMA, Epilogues: true, Rates: Rates{
		Halves:     Rate{Efficiency: 0.776, Step: 0.038, Fixed: 0.88, Worker: 0.477},
		WideHalves: Rate{Efficiency: 1.281, Step: 0.008, Fixed: 0.93, Worker: 0.513},
	}},
	{Name: "tensor-32x32", TM: 32, TN: 32, TK: 32, Threads: 128, Unit: MMA, Clusters: true, Epilogues: true, Rates: Rates{
		Native:     Rate{Efficiency: 0.720, Step: 0.216, Fixed: 1.04, Worker: 0.547},
		TF32:       Rate{Efficiency: 0.866, Step: 0.070, Fixed: 0.92, Worker: 0.454},
		Halves:     Rate{Efficiency: 1.281, Step: 0.109, Fixed: 1.13, Worker: 0.574},
		WideHalves: Rate{Efficiency: 2.079, Step: 0.007, Fixed: 1.19, Worker: 0.634},
	}},
	{Name: "tensor-64x64", TM: 64, TN: 64, TK: 32, Threads: 128, Unit: MMA, Epilogues: true, Rates: Rates{
		Native:     Rate{Efficiency: 0.875, Step: 0.853, Fixed: 1.29, Worker: 0.234},
		TF32:       Rate{Efficiency: 1.114, Step: 0.459, Fixed: 1.19, Worker: 0.251},
		Halves:     Rate{Efficiency: 1.806, Step: 0.364, Fixed: 1.15, Worker: 0.415},
		WideHalves: Rate{Efficiency: 2.816, Step: 0.037, Fixed: 1.31, Worker: 0.361},
	}},
	{Name: "wgmma-64x64", TM: 64, TN: 64, TK: 32, Threads: 384, Unit: WGMMA, Shared: 109504, HalfCols: 0.88, Epilogues: true, Rates: Rates{
		Native:     Rate{Efficiency: 1.319, Step: 0.602, Fixed: 0.38, Worker: 1.310, Stream: 15900},
		TF32:       Rate{Efficiency: 1.616, Step: 0.405, Fixed: 0.55, Worker: 1.071},
		Halves:     Rate{Efficiency: 3.877, Step: 0.244, Fixed: 0.57, Worker: 1.208},
		WideHalves: Rate{Efficiency: 4.441, Step: 0.224, Fixed: 0.62, Worker: 1.109},
	}},
	{Name: "wgmma-64x64-deep", TM: 64, TN: 64, TK: 32, Threads: 384, Unit: WGMMA, Shared: 199680, HalfCols: 0.78, Rates: Rates{
		Native:     Rate{Efficiency: 1.165, Step: 0.160, Fixed: 0.49, Worker: 1.611, Stream: 15700},
		TF32:       Rate{Efficiency: 1.616, Step: 0.320, Fixed: 0.01, Worker: 1.554},
		Halves:     Rate{Efficiency: 2.792, Step: 0.115, Fixed: 0.87, Worker: 1.460},
		WideHalves: Rate{Efficiency: 3.100, Step: 0.086, Fixed: 0.91, Worker: 1.344},
	}},
	{Name: "wgmma-128x64", TM: 128, TN: 64, TK: 32, Threads: 512, Unit: WGMMA, Shared: 222176, HalfRows: 0.72, HalfCols: 0.82, Rates: Rates{
		Native:     Rate{Efficiency: 1.629, Step: 0.218, Fixed: 0.40, Worker: 2.120, Stream: 14400},
		TF32:       Rate{Efficiency: 2.163, Step: 0.019, Fixed: 0.75, Worker: 1.877},
		Halves:     Rate{Efficiency: 4.346, Step: 0.182, Fixed: 1.00, Worker: 1.809},
		WideHalves: Rate{Efficiency: 5.066, Step: 0.112, Fixed: 1.07, Worker: 1.676},
	}},
	{Name: "wgmma-128x128", TM: 128, TN: 128, TK: 32, Threads: 512, Unit: WGMMA, Shared: 218048, HalfRows: 0.74, HalfCols: 0.72, Epilogues: true, Rates: Rates{
		Native:     Rate{Efficiency: 2.080, Step: 0.484, Fixed: 0.33, Worker: 3.586, Stream: 17700},
		TF32:       Rate{Efficiency: 2.709, Step: 0.521, Fixed: 0.09, Worker: 2.886},
		Halves:     Rate{Efficiency: 5.798, Step: 0.297, Fixed: 1.00, Worker: 3.070},
		WideHalves: Rate{Efficiency: 6.247, Step: 0.252, Fixed: 1.37, Worker: 2.659},
	}},

	{Name: "wide-64x64", TM: 64, TN: 64, TK: 32, Threads: 256, Unit: WGMMA, Shared: 109568, Epilogues: true, Rates: Rates{
		Halves:     Rate{Efficiency: 0.779, Step: 1.159, Fixed: 0.00, Worker: 0.450},
		WideHalves: Rate{Efficiency: 9.641, Step: 0.149, Fixed: 0.48, Worker: 1.031, Stream: 29500},
	}},
	{Name: "wide-64x128", TM: 64, TN: 128, TK: 32, Threads: 256, Unit: WGMMA, Shared: 109568, Epilogues: true, Rates: Rates{
		Halves:     Rate{Efficiency: 1.376, Step: 1.485, Fixed: 0.03, Worker: 1.092},
		WideHalves: Rate{Efficiency: 9.137, Step: 0.204, Fixed: 0.54, Worker: 1.178, Stream: 32500},
	}},
	{Name: "wide-128x128", TM: 128, TN: 128, TK: 32, Threads: 384, Unit: WGMMA, Shared: 218112, Epilogues: true, Rates: Rates{
		Halves:     Rate{Efficiency: 1.172, Step: 1.422, Fixed: 0.00, Worker: 2.377},
		WideHalves: Rate{Efficiency: 13.132, Step: 0.204, Fixed: 0.75, Worker: 2.023, Stream: 31000},
	}},

	{Name: "int4-16x128", TM: 16, TN: 128, TK: 128, Threads: 128, Unit: Int4, Epilogues: true, Rates: Rates{
		Int4: Rate{Efficiency: 2.1, Step: 0.40, Fixed: 2.0, Worker: 0.5, Stream: 21800},
	}},
	{Name: "int4-32x128", TM: 32, TN: 128, TK: 128, Threads: 128, Unit: Int4, Epilogues: true, Rates: Rates{
		Int4: Rate{Efficiency: 2.65, Step: 0.55, Fixed: 2.0, Worker: 0.7, Stream: 19000},
	}},
	{Name: "int4-64x128", TM: 64, TN: 128, TK: 128, Threads: 128, Unit: Int4, Epilogues: true, Rates: Rates{
		Int4: Rate{Efficiency: 2.85, Step: 0.90, Fixed: 2.0, Worker: 1.2, Stream: 16500},
	}},

	// Workers of these stay as those of warpgroups do, and take turns; of few rows warps multiply each by itself.
	{Name: "int4-stream-16x128", TM: 16, TN: 128, TK: 128, Threads: 192, Unit: WGMMA, Shared: 114688, Epilogues: true, Rates: Rates{
		Int4: Rate{Efficiency: 3.76, Step: 0.28, Fixed: 2.0, Worker: 0.8, Stream: 28000},
	}},
	{Name: "int4-wgmma-32x128", TM: 32, TN: 128, TK: 128, Threads: 320, Unit: WGMMA, Shared: 114688, Epilogues: true, Rates: Rates{
		Int4: Rate{Efficiency: 5.0, Step: 0.41, Fixed: 2.0, Worker: 0.8, Stream: 28000},
	}},
	{Name: "int4-wgmma-64x128", TM: 64, TN: 128, TK: 128, Threads: 352, Unit: WGMMA, Shared: 229376, Epilogues: true, Rates: Rates{
		Int4: Rate{Efficiency: 7.0, Step: 0.59, Fixed: 2.0, Worker: 0.8, Stream: 23000},
	}},

	{Name: "simd-32x32", TM: 32, TN: 32, TK: 16, Threads: 1, Unit: SIMD, Rates: Rates{
		CPU: Rate{Efficiency: 0.85, Worker: 0.2},
	}},
	{Name: "simd-64x64", TM: 64, TN: 64, TK: 16, Threads: 1, Unit: SIMD, Rates: Rates{
		CPU: Rate{Efficiency: 0.9, Worker: 0.4},
	}},
	{Name: "simd-16x128", TM: 16, TN: 128, TK: 16, Threads: 1, Unit: SIMD, Rates: Rates{
		CPU: Rate{Efficiency: 0.8, Worker: 0.3},
	}},
	{Name: "simd-64x128", TM: 64, TN: 128, TK: 16, Threads: 1, Unit: SIMD, Rates: Rates{
		CPU: Rate{Efficiency: 0.92, Worker: 0.7},
	}},
	{Name: "simd-128x128", TM: 128, TN: 128, TK: 16, Threads: 1, Unit: SIMD, Rates: Rates{
		CPU: Rate{Efficiency: 0.95, Worker: 1.3},
	}},
}
