package tile

// table is the tile table, which holds only geometry. Package planner tries rows in this order; tests and
// plans depend on it.
//
// The first rows are Table 3 of Zhang et al. 2025, in the order of Algorithm 1. Their register blocks spread
// W_CP outputs per thread.
//
// The other rows with register blocks are ours. A thread holds 16 or 32 outputs, because the rows of Table 3
// are limited by loads from workgroup memory, and not by FMAs. Additional threads form K groups: each group
// takes a share of every K step, and the groups' sums are added at the end. So a small tile finishes a long
// K early. Rows called thin are for problems of few rows, which wait for a long B.
//
// In tensor-32x32 each warp has a share of every K step. In rows of warpgroups, 128 threads for each 64 rows
// multiply, and the others bring the operands. Aligned tiles are only for aligned rows.
var table = [...]Shape{
	{Name: "small", TM: 16, TN: 16, TK: 16, Threads: 128, RM: 1, RN: 2, Few: true, Zhang: true},
	{Name: "small-medium", TM: 16, TN: 32, TK: 16, Threads: 128, RM: 1, RN: 4, Zhang: true},
	{Name: "medium", TM: 32, TN: 32, TK: 16, Threads: 128, RM: 2, RN: 4, Zhang: true},
	{Name: "medium-large", TM: 32, TN: 64, TK: 16, Threads: 256, RM: 2, RN: 4, Zhang: true},
	{Name: "large", TM: 64, TN: 64, TK: 16, Threads: 256, RM: 4, RN: 4, Zhang: true},

	{Name: "tiny-k4", TM: 8, TN: 8, TK: 16, Threads: 32, RM: 2, RN: 4, Few: true, Epilogues: true},
	{Name: "small-k8", TM: 16, TN: 16, TK: 64, Threads: 128, RM: 4, RN: 4, Few: true},
	{Name: "medium-k2", TM: 32, TN: 32, TK: 16, Threads: 64, RM: 8, RN: 4, Epilogues: true},
	{Name: "medium-k4", TM: 32, TN: 32, TK: 32, Threads: 128, RM: 8, RN: 4, Few: true},
	{Name: "tall-8x4", TM: 64, TN: 32, TK: 16, Threads: 64, RM: 8, RN: 4, Few: true},
	{Name: "large-8x4", TM: 64, TN: 64, TK: 16, Threads: 128, RM: 8, RN: 4, Few: true},
	{Name: "large-8x8", TM: 64, TN: 64, TK: 16, Threads: 64, RM: 8, RN: 8, Few: true, Epilogues: true},
	{Name: "large-8x8-k2", TM: 64, TN: 64, TK: 16, Threads: 128, RM: 8, RN: 8},
	{Name: "thin-8x64", TM: 8, TN: 64, TK: 16, Threads: 64, RM: 8, RN: 4, Few: true},
	{Name: "thin-8x128", TM: 8, TN: 128, TK: 16, Threads: 128, RM: 8, RN: 4, Epilogues: true},

	{Name: "tensor-16x32", TM: 16, TN: 32, TK: 32, Threads: 128, Kind: mmaNarrow, Epilogues: true},
	{Name: "tensor-32x32", TM: 32, TN: 32, TK: 32, Threads: 128, Kind: mma,
		Clusters: true, Epilogues: true},
	{Name: "tensor-64x64", TM: 64, TN: 64, TK: 32, Threads: 128, Kind: mma, Epilogues: true},
	{Name: "wgmma-64x64", TM: 64, TN: 64, TK: 32, Threads: 384, Kind: wgmma,
		Shared: 109504, Epilogues: true, Raw: true},
	{Name: "wgmma-64x64-deep", TM: 64, TN: 64, TK: 32, Threads: 384, Kind: wgmma,
		Shared: 200704},
	{Name: "wgmma-128x64", TM: 128, TN: 64, TK: 32, Threads: 512, Kind: wgmma,
		Shared: 222176, Raw: true},
	{Name: "wgmma-128x128", TM: 128, TN: 128, TK: 32, Threads: 512, Kind: wgmma,
		Shared: 218048, Epilogues: true, Raw: true},
	{Name: "wgmma-64x128", TM: 64, TN: 128, TK: 32, Threads: 512, Kind: wgmmaSwapped,
		Shared: 222176},

	{Name: "aligned-64x64", TM: 64, TN: 64, TK: 32, Threads: 256, Kind: wgmmaAligned,
		Shared: 109568, Epilogues: true},
	{Name: "aligned-64x128", TM: 64, TN: 128, TK: 32, Threads: 256, Kind: wgmmaAligned,
		Shared: 109568, Epilogues: true},
	{Name: "aligned-128x128", TM: 128, TN: 128, TK: 32, Threads: 384, Kind: wgmmaAligned,
		Shared: 218112, Epilogues: true},
	{Name: "aligned-128x256", TM: 128, TN: 256, TK: 32, Threads: 384, Kind: wgmmaBoxes,
		Shared: 230912, Epilogues: true},

	{Name: "int4-16x128", TM: 16, TN: 128, TK: 128, Threads: 128, Kind: int4, Epilogues: true},
	{Name: "int4-32x128", TM: 32, TN: 128, TK: 128, Threads: 128, Kind: int4, Epilogues: true},
	{Name: "int4-64x128", TM: 64, TN: 128, TK: 128, Threads: 128, Kind: int4, Epilogues: true},

	{Name: "int4-stream-16x128", TM: 16, TN: 128, TK: 128, Threads: 320, Kind: wgmmaInt4,
		Shared: 114688, Epilogues: true},
	{Name: "int4-wgmma-32x128", TM: 32, TN: 128, TK: 128, Threads: 320, Kind: wgmmaInt4,
		Shared: 114688, Epilogues: true},
	{Name: "int4-wgmma-64x128", TM: 64, TN: 128, TK: 128, Threads: 512, Kind: wgmmaInt4,
		Shared: 229376, Epilogues: true},
	{Name: "int4-wgmma-128x128", TM: 128, TN: 128, TK: 128, Threads: 512, Kind: wgmmaInt4,
		Shared: 229376, Epilogues: true},

	{Name: "f64-16x16", TM: 16, TN: 16, TK: 64, Threads: 128, Kind: double, Epilogues: true},
	{Name: "f64-16x32", TM: 16, TN: 32, TK: 64, Threads: 128, Kind: double, Epilogues: true},
	{Name: "f64-32x32", TM: 32, TN: 32, TK: 16, Threads: 64, Kind: double, Epilogues: true},
	{Name: "f64-32x32-deep", TM: 32, TN: 32, TK: 64, Threads: 256, Kind: double, Epilogues: true},
	{Name: "f64-32x64", TM: 32, TN: 64, TK: 16, Threads: 128, Kind: double, Epilogues: true},
	{Name: "f64-64x64", TM: 64, TN: 64, TK: 16, Threads: 128, Kind: double, Epilogues: true},
	{Name: "f64-64x128", TM: 64, TN: 128, TK: 16, Threads: 128, Kind: double, Epilogues: true},
	{Name: "f64-128x128", TM: 128, TN: 128, TK: 16, Threads: 384, Kind: doubleBoxes,
		Shared: 206848, Epilogues: true},

	{Name: "simd-32x32", TM: 32, TN: 32, TK: 16, Threads: 1, Kind: simd},
	{Name: "simd-64x64", TM: 64, TN: 64, TK: 16, Threads: 1, Kind: simd},
	{Name: "simd-16x128", TM: 16, TN: 128, TK: 16, Threads: 1, Kind: simd},
	{Name: "simd-64x128", TM: 64, TN: 128, TK: 16, Threads: 1, Kind: simd},
	{Name: "simd-128x128", TM: 128, TN: 128, TK: 16, Threads: 1, Kind: simd},
}
