package cpu

// neon is the vector unit that every arm64 processor has.
var neon = instructions{
	name: "neon", lanes: 4, gflops: 48, // two units, 4 lanes, multiply and add
	whole: neonKernels, edge: neonEdgeKernels, transpose: transposeGeneric,
}

func available() []*instructions { return []*instructions{&neon, &generic} }
