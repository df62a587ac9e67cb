// Package native holds the device code of the kernels that carry out a plan on
// GPUs with their own compiler, and what a loader must know to launch them. It
// knows no GPU API.
//
// The kernels are listed once, in internal/kernels/list.go. go generate writes an instance of each to lists/,
// a line with its name, its tile and the function that it is made of, and kernels.cu, for NVIDIA, and
// kernels.hip, for AMD, make kernels of those lines. To add a kernel, list it, say in
// internal/kernels/instances.go what it is an instance of, and run go generate. Headers include what they
// use, so that each compiles alone.
//
// The device text lies in folders: ptx has instructions of NVIDIA, as amd/dialect_hip.h those of AMD, between
// which dialect.h chooses; element types of elements; epilogue what is done to sums; and kernels the kernels,
// of which gemm.cuh is plain fp32, shared by CUDA and HIP, tensor.cuh mma.sync, wgmma.cuh warpgroups, and
// ragged.cuh what makes items. amd has what is another there: mfma.cuh matrix cores, bits16_hip.cuh and
// mfma_bits16.cuh elements of 16 and 8 bits, int4_hip.cuh B of 4.
//
// scripts/cuda.sh and scripts/hip.sh compile them, and scripts/pack.sh packs them into products/, those for
// NVIDIA in parts (Arch.Product), of which a device loads what its plans need. That is committed and embedded
// by a package of its own, where it can be used, so that neither building nor running needs a toolkit.
// MANIFEST and HIP-MANIFEST there have the hashes of sources, which tests compare, and of products, which are
// compared when they are loaded; the tables beside them are for tests and for go generate, which writes what
// kernels take to resources.go. CI makes the products for AMD again, bit for bit. It cannot do so for NVIDIA:
// Debian has nvcc 12.4 at most, in 1 GB, and another version makes other bytes. internal/emulator runs the
// HIP kernels and those of warpgroups on the CPU, for tests; internal/gcn runs the products for AMD.
//
// epilogue/epilogue.cuh has what kernels with an epilogue do beside; their names end with _e.
// TestWarpgroupEpiloguesEmulated and TestEpiloguesEmulated run them on the CPU, but those of tensor.cuh.
//
// All kernels have the same parameters of 8 bytes each, the last four with an epilogue alone:
//
//	const uint4    *items      the launch's items, at word Launch.Items of the encoded plan; words after
//	                           them that count partials are written
//	const uint32_t *table      its table, at word Launch.Table; null without Loop; with Ragged the sizes
//	const float    *A, *B      with the launch's bases added; what an epilogue has by pointers, as C and B2
//	                           then, is not used
//	float          *C
//	float          *workspace  may be null when the launch neither splits nor fixes up; with Ragged the plan
//	const void     *B2         with the launch's base added; where the epilogue has no part, it and what
//	                           follows is null
//	const void     *bias       of C's type
//	const uint32_t *rows
//	uint64_t        epilogue   encoding.Epilogue.Word
//
// The grid is (Launch.Count, pieces).
package native

import (
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/native/internal/kernels"
)

//go:generate go run ./internal/kernels/generate

// The shape of a fix-up's thread group, as in fixup.cuh.
const (
	fixupThreads = 128
	slotSets     = 8 // sets of threads that share the slots, at most
)

// raggedThreads is the largest thread group that makes items, as in ragged.cuh: one thread
// an entry, but for many entries.
const raggedThreads = 1024

// Pieces gives the groups that share an item of a launch, the second extent of the grid: more than one for a
// fix-up, in which each has fixupThreads threads, in as many sets as slotSets in fixup.cuh says of the most
// parts of a tile.
func Pieces(l *encoding.Launch) int {
	if !l.Fixup {
		return 1
	}
	vectors := l.Tile.TM * l.Tile.TN / 4
	sets := max(fixupThreads/vectors, 1)
	for sets < min(l.MostPartials, slotSets) {
		sets *= 2
	}
	return vectors * sets / fixupThreads
}

// Geometry gives the launch of a kernel: the threads of a group, and the bytes of
// dynamic shared memory, which only kernels for tensor cores have.
func Geometry(k encoding.Kernel) (threads, sharedBytes int) {
	t := k.Tile
	if k.Ragged > 0 {
		return min(int(k.Entries), raggedThreads), 0
	}
	if k.Fixup {
		return fixupThreads, 0
	}
	shared := dynamicShared(k)
	if k.Epilogue != (encoding.Epilogue{}) && t.Unit == tile.WGMMA {
		shared += 4 * itemPlaces * (encoding.EpilogueItemWords - encoding.ItemWords)
	}
	return t.Threads, shared
}

// itemPlaces is the items in shared memory of kernels of warpgroups: kItemPlaces in wgmma_items.cuh.
const itemPlaces = 16

// dynamicShared is the dynamic shared memory of a kernel in bytes.
func dynamicShared(k encoding.Kernel) int {
	switch unit := k.Tile.Unit; {
	case k.Fixup:
		return 0
	case unit == tile.MMA:
		return tensorShared(k)
	case unit == tile.Int4: // stages, later the sums, and the rows of A
		return max(kernels.Int4Of(k.Tile).Stages*kernels.Int4Stage(k.Tile), 4*k.Tile.TM*(k.Tile.TN+4)) +
			4*k.Tile.TM
	case unit == tile.WGMMA: // kernels assert that it is enough
		return k.Tile.Shared
	}
	return 0
}

// tensorShared is the dynamic shared memory of a kernel of tensor.cuh, in bytes:
// its stages, with a line of 16 bytes more a row or two where memory does not run
// along K, later the sums of the teams, and what a cluster sends.
func tensorShared(k encoding.Kernel) int {
	t := k.Tile
	m := kernels.TensorOf(t)
	operand := func(length int, alongK bool) int {
		switch {
		case alongK:
			return length * (kernels.TensorStep + 4)
		case k.TypeA.Bytes() == 1:
			return kernels.TensorStep * (length + 16)
		}
		return kernels.TensorStep * (length + 8)
	}
	stage := operand(t.TM, !k.TransA) + operand(t.TN, k.TransB)
	floats := max(m.Teams*m.Stages*stage, m.Teams*t.TM*(t.TN+8))
	if k.Cluster > 0 {
		floats += t.TM * t.TN
	}
	if k.Epilogue != (encoding.Epilogue{}) && !k.TransA { // the rows of A
		floats += t.TM
	}
	return 4 * floats
}
