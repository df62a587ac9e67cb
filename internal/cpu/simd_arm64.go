package cpu

// neon is the vector unit that every arm64 processor has.
var neon = instructions{
	name: "neon", size: 4, lanes: 4, gflops: 48, // two units, 4 lanes, multiply and add
	whole: neonKernels, edge: neonEdgeKernels, transpose: transposeGeneric[float32], double: &instructions{
		size: 8, lanes: 2,
		whole: doubleNeonKernels, edge: doubleNeonEdgeKernels, transpose: transposeGeneric[float64],
	},
}

func available() []*instructions { return []*instructions{&neon, &generic} }
