package cpu

import "golang.org/x/sys/cpu"

//go:generate go -C asm run . -out ../kernels_amd64.s

var avx512 = instructions{
	name: "avx512", lanes: 16, gflops: 192, // two units, 16 lanes, multiply and add
	whole: avx512Kernels, edge: avx512Kernels, transpose: transpose512,
}

var avx2 = instructions{
	name: "avx2", lanes: 8, gflops: 96,
	whole: avx2Kernels, edge: avx2EdgeKernels, transpose: transpose2,
}

// available returns the instruction sets of processor and system, best first. Package cpu (golang.org/x/sys)
// asks whether the system saves the registers.
func available() (have []*instructions) {
	x := &cpu.X86
	if x.HasAVX512F && x.HasBMI2 {
		have = append(have, &avx512)
	}
	if x.HasAVX2 && x.HasFMA {
		have = append(have, &avx2)
	}
	return append(have, &generic)
}
