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
// Rows of the kinds mma and wgmma are for tensor cores. In tensor-32x32 each warp has
// a part of every K step. Those of the kind int4 are for B of 4 bits. In the rows of warpgroups, 128 threads for each 64 rows multiply
// and the others bring the operands, of the rows called wide for elements of 16 bits whose rows begin with 16 bytes. In the last rows, of the kind simd, a thread of a CPU
// computes a tile alone.
//
// The rates WGSL, Words too, are fits to 8,300 forced plans of 488 batches in fp32 and bf16, through Vulkan on an H100, timed by GPU timestamps, and
// those of CUDA, which HIP shares, to 80,000 of 650 batches, as nodes of a CUDA graph on an H100: the 72 of Zhang et al. (8 to 256 problems with sizes
// uniform in [16, 128..512] and K in [16, 128..1024]), others of their kind, single products of 32 to 3000 rows and columns and K up to 8192, few
// products of up to 1024 rows, tall, tiny, equal and deep ones, one giant among small ones, few rows, and on CUDA
// primes, powers of two, and wide ones. Halves are bf16, with sizes as they are and rounded up to multiples
// of 8. The fit asks above all that the choice be good, those of the 72 five times as much (WGSL: eight), and then that times be right: of tiles and
// schedules near the best of a batch they are off by 6 to 20 percent a row and schedule (standard deviation). docs/results.md says
// what choices by them take. No FMA row has less Worker than 0.05 us for 1024 outputs, nor Fixed than 0.5: fits without these bounds took
// several launches for one, and many short tiles for nothing.
//
// Streams are of 127 problems of 4 x 1536 x 2048 (fp32, thin rows, an H200), of 128 ragged ones of few rows (halves, an H200), and of
// 32 to 100 problems of 1 to 4 rows (H100), Along of experts of 1 to 64 tokens (H100), where that of small-k8 is taken from other FMA rows, and those
// of thin rows and tiny-k4 are of 30 batches of 1 to 16 rows (H200; planner/operands.go).
//
// Rounds by WGSL are about the geometric means of small-k8, medium-k2 and large-8x4, 0.974, 0.970 and 0.983 (9, 30 and 23 batches, the 72 among them;
// H200 through Vulkan); medium-k4 takes 0.997 (26), and others more. By CUDA medium-k2 takes 0.927 (16), but by that it is chosen where data-parallel
// was predicted too short, 512, 256, 16 of the 72 in plain fp32 1.12 times as long; other FMA rows gain less or nothing there.
//
// WideHalves, Bytes and WideBytes are later fits, for which steps of wide rows alone were told from those of a full GPU, and odd rows from even ones
// (planner/operands.go): to 15,000 forced plans of 850 batches in bf16, 14,000 of 916 in e4m3 with sizes as they are, and 21,000 in e4m3 and int8 with sizes
// rounded up to multiples of 16 and B transposed (H100). Qwen3's experts of 1 to 4096 tokens and their gradients are among them: what is chosen for these
// takes up to 2 percent longer than the best wide tile.
//
// The rates Int4 of warpgroups are such a fit to 6,900 forced plans of 593 batches in bf16 with groups of 128: single layers, 2 to 7 of them, experts, and products of up to 512 rows
// (H100). Those of the kind int4 are none: what Qwen3's experts (H200) took with 4096 tokens and with 64.
//
// Native of tensor-*, wgmma-* and thin-8x64 is a later fit too, to 19,000 forced plans of 552 batches in fp32, of which 160 were kept apart, and to 17 of 13 batches of few rows, 64 experts
// by Zipf's law among them (H200; docs/results.md). That of thin-8x128, but for Along, is one to 800 of 54 batches of few rows whose B is not transposed (H200; docs/rows.md). TF32 of wgmma-64x128 is of one to 183 plans of 80 batches, most of 1 to 100 rows (H200).
//
// Direct is such that small-k8 is predicted to take as many times as long as thin-8x64 as it took, 480 us and 386, of 16 problems of
// 16 x 4096 x 4096 in fp32 (H100 through Vulkan; in bf16 407 and 280). thin-8x128 takes 522, and in bf16 as long as thin-8x64. Steps alone
// are taken to be as many times as short, by which times of three batches of few rows in bf16 are off by 8 percent and not 29.
//
// The rates CPU were set by hand, as shares of the peak that package cpu states, so that
// the choice is near the best on two cores with AVX-512: it takes 3.1 percent longer than
// the best of some 60 forced plans (mean of the 72; 13 percent at most), of which times
// vary by 5.
var table = [...]Shape{
	{Name: "small", TM: 16, TN: 16, TK: 16, Threads: 128, RM: 1, RN: 2, Zhang: true, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.133, Step: 0.327, Fixed: 0.500, Worker: 0.089},
		Native: Rate{Efficiency: 0.142, Step: 0.220, Fixed: 0.517, Worker: 0.057},
		CPU:    Rate{Efficiency: 0.6, Worker: 0.1},
	}},
	{Name: "small-medium", TM: 16, TN: 32, TK: 16, Threads: 128, RM: 1, RN: 4, Zhang: true, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.163, Step: 0.233, Fixed: 1.257, Worker: 0.085},
		Native: Rate{Efficiency: 0.160, Step: 0.222, Fixed: 1.026, Worker: 0.027},
		CPU:    Rate{Efficiency: 0.7, Worker: 0.15},
	}},
	{Name: "medium", TM: 32, TN: 32, TK: 16, Threads: 128, RM: 2, RN: 4, Zhang: true, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.307, Step: 0.274, Fixed: 1.078, Worker: 0.057},
		Native: Rate{Efficiency: 0.316, Step: 0.427, Fixed: 0.783, Worker: 0.053},
		CPU:    Rate{Efficiency: 0.8, Worker: 0.2},
	}},
	{Name: "medium-large", TM: 32, TN: 64, TK: 16, Threads: 256, RM: 2, RN: 4, Zhang: true, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.339, Step: 0.379, Fixed: 1.349, Worker: 0.103},
		Native: Rate{Efficiency: 0.332, Step: 0.586, Fixed: 0.512, Worker: 0.102},
		CPU:    Rate{Efficiency: 0.82, Worker: 0.3},
	}},
	{Name: "large", TM: 64, TN: 64, TK: 16, Threads: 256, RM: 4, RN: 4, Zhang: true, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.538, Step: 0.264, Fixed: 2.027, Worker: 0.279},
		Native: Rate{Efficiency: 0.516, Step: 0.674, Fixed: 0.632, Worker: 0.221},
		CPU:    Rate{Efficiency: 0.85, Worker: 0.4},
	}},

	{Name: "tiny-k4", TM: 8, TN: 8, TK: 16, Threads: 32, RM: 2, RN: 4, Epilogues: true, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.178, Step: 0.181, Fixed: 1.485, Worker: 0.040},
		Native: Rate{Efficiency: 0.185, Step: 0.176, Fixed: 0.623, Worker: 0.105, Stream: 16600, Along: 12500},
	}},
	{Name: "small-k8", TM: 16, TN: 16, TK: 64, Threads: 128, RM: 4, RN: 4, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.370, Step: 0.210, Fixed: 1.231, Worker: 0.243, Rounds: 0.985},
		Native: Rate{Efficiency: 0.236, Step: 0.259, Fixed: 0.500, Worker: 0.072, Stream: 20000, Along: 12500},
	}},
	{Name: "medium-k2", TM: 32, TN: 32, TK: 16, Threads: 64, RM: 8, RN: 4, Epilogues: true, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.636, Step: 0.352, Fixed: 1.312, Worker: 0.232, Rounds: 0.975},
		Native: Rate{Efficiency: 0.488, Step: 0.408, Fixed: 0.548, Worker: 0.170, Stream: 15000, Rounds: 0.985},
	}},
	{Name: "medium-k4", TM: 32, TN: 32, TK: 32, Threads: 128, RM: 8, RN: 4, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.587, Step: 0.292, Fixed: 1.464, Worker: 0.202},
		Native: Rate{Efficiency: 0.463, Step: 0.334, Fixed: 0.647, Worker: 0.187, Stream: 16500},
	}},
	{Name: "tall-8x4", TM: 64, TN: 32, TK: 16, Threads: 64, RM: 8, RN: 4, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.624, Step: 0.468, Fixed: 1.811, Worker: 0.284},
		Native: Rate{Efficiency: 0.467, Step: 0.421, Fixed: 1.323, Worker: 0.119},
	}},
	{Name: "large-8x4", TM: 64, TN: 64, TK: 16, Threads: 128, RM: 8, RN: 4, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.777, Step: 0.532, Fixed: 1.483, Worker: 0.434, Rounds: 0.98},
		Native: Rate{Efficiency: 0.594, Step: 0.626, Fixed: 0.656, Worker: 0.207, Stream: 13500},
	}},
	{Name: "large-8x8", TM: 64, TN: 64, TK: 16, Threads: 64, RM: 8, RN: 8, Epilogues: true, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.905, Step: 0.982, Fixed: 0.818, Worker: 0.920},
		Words:  0.957,
		Native: Rate{Efficiency: 0.690, Step: 1.144, Fixed: 0.929, Worker: 0.471, Stream: 13500},
	}},
	{Name: "large-8x8-k2", TM: 64, TN: 64, TK: 16, Threads: 128, RM: 8, RN: 8, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.668, Step: 0.343, Fixed: 2.100, Worker: 0.849},
		Native: Rate{Efficiency: 0.661, Step: 0.690, Fixed: 0.792, Worker: 0.400, Stream: 13500},
	}},
	{Name: "thin-8x64", TM: 8, TN: 64, TK: 16, Threads: 64, RM: 8, RN: 4, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.322, Step: 0.384, Fixed: 2.857, Worker: 0.188},
		Direct: 1.94,
		Native: Rate{Efficiency: 0.308, Step: 0.336, Fixed: 0.507, Worker: 0.081, Stream: 30000, Along: 15500},
	}},
	{Name: "thin-8x128", TM: 8, TN: 128, TK: 16, Threads: 128, RM: 8, RN: 4, Epilogues: true, Rates: Rates{
		WGSL:   Rate{Efficiency: 0.324, Step: 0.289, Fixed: 2.822, Worker: 0.636},
		Native: Rate{Efficiency: 0.413, Step: 0.260, Fixed: 0.286, Worker: 0.300, Stream: 33000, Along: 12500},
	}},

	{Name: "tensor-16x32", TM: 16, TN: 32, TK: 32, Threads: 128, Kind: mmaNarrow, Epilogues: true, Rates: Rates{
		Halves:     Rate{Efficiency: 0.616, Step: 0.031, Fixed: 0.580, Worker: 0.389},
		WideHalves: Rate{Efficiency: 0.917, Step: 0.002, Fixed: 0.577, Worker: 0.435},
		Bytes:      Rate{Efficiency: 0.687, Step: 0.045, Fixed: 0.524, Worker: 0.536},
		WideBytes:  Rate{Efficiency: 1.503, Step: 0.001, Fixed: 0.518, Worker: 0.802},
	}},
	{Name: "tensor-32x32", TM: 32, TN: 32, TK: 32, Threads: 128, Kind: mma, Clusters: true, Epilogues: true, Rates: Rates{
		Native:     Rate{Efficiency: 0.640, Step: 0.072, Fixed: 0.783, Worker: 0.460, Stream: 17500},
		TF32:       Rate{Efficiency: 0.731, Step: 0.089, Fixed: 0.779, Worker: 0.561},
		Halves:     Rate{Efficiency: 1.058, Step: 0.046, Fixed: 0.637, Worker: 0.942},
		WideHalves: Rate{Efficiency: 1.504, Step: 0.009, Fixed: 0.883, Worker: 0.727},
		Bytes:      Rate{Efficiency: 1.295, Step: 0.032, Fixed: 0.705, Worker: 1.017},
		WideBytes:  Rate{Efficiency: 1.799, Step: 0.008, Fixed: 0.896, Worker: 0.305},
	}},
	{Name: "tensor-64x64", TM: 64, TN: 64, TK: 32, Threads: 128, Kind: mma, Epilogues: true, Rates: Rates{
		Native:     Rate{Efficiency: 0.827, Step: 0.577, Fixed: 1.034, Worker: 0.573, Stream: 15500},
		TF32:       Rate{Efficiency: 1.079, Step: 0.584, Fixed: 0.542, Worker: 0.457},
		Halves:     Rate{Efficiency: 1.474, Step: 0.521, Fixed: 0.500, Worker: 0.324},
		WideHalves: Rate{Efficiency: 1.877, Step: 0.019, Fixed: 0.652, Worker: 0.240},
		Bytes:      Rate{Efficiency: 1.854, Step: 0.282, Fixed: 0.957, Worker: 0.567},
		WideBytes:  Rate{Efficiency: 2.519, Step: 0.008, Fixed: 0.837, Worker: 0.298},
	}},
	{Name: "wgmma-64x64", TM: 64, TN: 64, TK: 32, Threads: 384, Kind: wgmma, Shared: 109504, HalfCols: 0.88, Epilogues: true, Rates: Rates{
		Native:     Rate{Efficiency: 1.340, Step: 0.662, Fixed: 0.559, Worker: 1.394, Stream: 15900, Along: 14000},
		TF32:       Rate{Efficiency: 1.408, Step: 0.515, Fixed: 0.583, Worker: 1.015},
		Halves:     Rate{Efficiency: 2.605, Step: 0.283, Fixed: 1.095, Worker: 0.922},
		WideHalves: Rate{Efficiency: 2.652, Step: 0.178, Fixed: 1.572, Worker: 0.495},
		Bytes:      Rate{Efficiency: 4.015, Step: 0.182, Fixed: 1.047, Worker: 0.859},
		WideBytes:  Rate{Efficiency: 5.226, Step: 0.031, Fixed: 1.168, Worker: 0.735},
	}},
	{Name: "wgmma-64x64-deep", TM: 64, TN: 64, TK: 32, Threads: 384, Kind: wgmma, Shared: 200704, HalfCols: 0.78, Rates: Rates{
		Native:     Rate{Efficiency: 1.074, Step: 0.140, Fixed: 0.338, Worker: 1.436, Stream: 15700},
		TF32:       Rate{Efficiency: 1.402, Step: 0.341, Fixed: 0.300, Worker: 1.262},
		Halves:     Rate{Efficiency: 2.448, Step: 0.053, Fixed: 0.887, Worker: 1.239},
		WideHalves: Rate{Efficiency: 2.540, Step: 0.043, Fixed: 0.438, Worker: 1.189},
		Bytes:      Rate{Efficiency: 3.893, Step: 0.067, Fixed: 0.594, Worker: 1.482},
		WideBytes:  Rate{Efficiency: 6.226, Step: 0.058, Fixed: 0.306, Worker: 1.389},
	}},
	{Name: "wgmma-128x64", TM: 128, TN: 64, TK: 32, Threads: 512, Kind: wgmma, Shared: 222176, HalfRows: 0.72, HalfCols: 0.82, Rates: Rates{
		Native:     Rate{Efficiency: 1.574, Step: 0.251, Fixed: 0.395, Worker: 1.612, Stream: 14400},
		TF32:       Rate{Efficiency: 2.249, Step: 0.011, Fixed: 0.300, Worker: 1.767},
		Halves:     Rate{Efficiency: 3.504, Step: 0.133, Fixed: 0.300, Worker: 1.726},
		WideHalves: Rate{Efficiency: 3.923, Step: 0.030, Fixed: 0.348, Worker: 1.385},
		Bytes:      Rate{Efficiency: 5.604, Step: 0.157, Fixed: 0.306, Worker: 1.562},
		WideBytes:  Rate{Efficiency: 9.334, Step: 0.106, Fixed: 0.338, Worker: 1.608},
	}},
	{Name: "wgmma-128x128", TM: 128, TN: 128, TK: 32, Threads: 512, Kind: wgmma, Shared: 218048, HalfRows: 0.74, HalfCols: 0.72, Epilogues: true, Rates: Rates{
		Native:     Rate{Efficiency: 2.059, Step: 0.498, Fixed: 1.654, Worker: 2.601, Stream: 20000, Along: 14400},
		TF32:       Rate{Efficiency: 2.655, Step: 0.453, Fixed: 0.374, Worker: 2.478},
		Halves:     Rate{Efficiency: 5.030, Step: 0.120, Fixed: 0.452, Worker: 2.828},
		WideHalves: Rate{Efficiency: 4.884, Step: 0.289, Fixed: 0.474, Worker: 2.484},
		Bytes:      Rate{Efficiency: 8.306, Step: 0.078, Fixed: 0.306, Worker: 3.031},
		WideBytes:  Rate{Efficiency: 9.101, Step: 0.150, Fixed: 0.312, Worker: 2.605},
	}},
	{Name: "wgmma-64x128", TM: 64, TN: 128, TK: 32, Threads: 512, Kind: wgmmaSwapped, Shared: 222176, HalfRows: 0.74, Rates: Rates{
		Native: Rate{Efficiency: 1.613, Step: 0.510, Fixed: 0.616, Worker: 3.353, Stream: 26290},
		TF32:   Rate{Efficiency: 2.037, Step: 0.047, Fixed: 0.379, Worker: 2.725, Stream: 29590},
	}},

	{Name: "wide-64x64", TM: 64, TN: 64, TK: 32, Threads: 256, Kind: wgmmaAligned, Shared: 109568, HalfRows: 0.79, Epilogues: true, Rates: Rates{
		Halves:     Rate{Efficiency: 0.866, Step: 0.847, Fixed: 1.540, Worker: 0.241},
		WideHalves: Rate{Efficiency: 4.407, Step: 0.079, Fixed: 0.614, Worker: 0.525, Stream: 29500},
		WideBytes:  Rate{Efficiency: 8.403, Step: 0.044, Fixed: 0.642, Worker: 0.482, Stream: 29500},
	}},
	{Name: "wide-64x128", TM: 64, TN: 128, TK: 32, Threads: 256, Kind: wgmmaAligned, Shared: 109568, HalfRows: 0.92, Epilogues: true, Rates: Rates{
		Halves:     Rate{Efficiency: 0.936, Step: 1.903, Fixed: 0.624, Worker: 0.410},
		WideHalves: Rate{Efficiency: 5.189, Step: 0.087, Fixed: 1.023, Worker: 0.577, Stream: 32500},
		WideBytes:  Rate{Efficiency: 9.376, Step: 0.060, Fixed: 0.962, Worker: 0.501, Stream: 32500},
	}},
	{Name: "wide-128x128", TM: 128, TN: 128, TK: 32, Threads: 384, Kind: wgmmaAligned, Shared: 218112, HalfRows: 0.82, Epilogues: true, Rates: Rates{
		Halves:     Rate{Efficiency: 0.925, Step: 1.422, Fixed: 0.000, Worker: 2.667},
		WideHalves: Rate{Efficiency: 7.568, Step: 0.105, Fixed: 0.922, Worker: 1.247, Stream: 31000},
		WideBytes:  Rate{Efficiency: 15.700, Step: 0.076, Fixed: 0.369, Worker: 1.500, Stream: 31000},
	}},

	{Name: "int4-16x128", TM: 16, TN: 128, TK: 128, Threads: 128, Kind: int4, Epilogues: true, Rates: Rates{
		Int4: Rate{Efficiency: 2.1, Step: 0.40, Fixed: 2.0, Worker: 0.5, Stream: 21800},
	}},
	{Name: "int4-32x128", TM: 32, TN: 128, TK: 128, Threads: 128, Kind: int4, Epilogues: true, Rates: Rates{
		Int4: Rate{Efficiency: 2.65, Step: 0.55, Fixed: 2.0, Worker: 0.7, Stream: 19000},
	}},
	{Name: "int4-64x128", TM: 64, TN: 128, TK: 128, Threads: 128, Kind: int4, Epilogues: true, Rates: Rates{
		Int4: Rate{Efficiency: 2.85, Step: 0.90, Fixed: 2.0, Worker: 1.2, Stream: 16500},
	}},

	// Workers of these stay as those of warpgroups do, and take turns; of few rows warps multiply each by itself.
	{Name: "int4-stream-16x128", TM: 16, TN: 128, TK: 128, Threads: 192, Kind: wgmmaInt4, Shared: 114688, Epilogues: true, Rates: Rates{
		Int4: Rate{Efficiency: 3.192, Step: 0.305, Fixed: 1.366, Worker: 0.616, Stream: 28000},
	}},
	{Name: "int4-wgmma-32x128", TM: 32, TN: 128, TK: 128, Threads: 320, Kind: wgmmaInt4, Shared: 114688, Epilogues: true, Rates: Rates{
		Int4: Rate{Efficiency: 5.101, Step: 0.511, Fixed: 1.092, Worker: 0.697, Stream: 28000},
	}},
	{Name: "int4-wgmma-64x128", TM: 64, TN: 128, TK: 128, Threads: 352, Kind: wgmmaInt4, Shared: 229376, Epilogues: true, Rates: Rates{
		Int4: Rate{Efficiency: 7.300, Step: 0.444, Fixed: 0.853, Worker: 1.799, Stream: 23000},
	}},

	{Name: "simd-32x32", TM: 32, TN: 32, TK: 16, Threads: 1, Kind: simd, Rates: Rates{
		CPU: Rate{Efficiency: 0.85, Worker: 0.2},
	}},
	{Name: "simd-64x64", TM: 64, TN: 64, TK: 16, Threads: 1, Kind: simd, Rates: Rates{
		CPU: Rate{Efficiency: 0.9, Worker: 0.4},
	}},
	{Name: "simd-16x128", TM: 16, TN: 128, TK: 16, Threads: 1, Kind: simd, Rates: Rates{
		CPU: Rate{Efficiency: 0.8, Worker: 0.3},
	}},
	{Name: "simd-64x128", TM: 64, TN: 128, TK: 16, Threads: 1, Kind: simd, Rates: Rates{
		CPU: Rate{Efficiency: 0.92, Worker: 0.7},
	}},
	{Name: "simd-128x128", TM: 128, TN: 128, TK: 16, Threads: 1, Kind: simd, Rates: Rates{
		CPU: Rate{Efficiency: 0.95, Worker: 1.3},
	}},
}
