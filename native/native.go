// Package native has the device code of the kernels for GPUs with a compiler of their own, and what a loader
// must know to launch them. It knows no GPU API.
//
// The kernels are listed once, in internal/kernels/list.go. go generate writes a line for each to lists/,
// with its name, its tile and the function that it instantiates. kernels.cu, for NVIDIA, and kernels.hip,
// for AMD, make kernels from these lines. To add a kernel, list it, define in internal/kernels/instances.go
// what it instantiates, and run go generate. Headers include what they use, so each compiles alone.
//
// The device text is in folders. ptx has instructions of NVIDIA, amd/dialect_hip.h those of AMD; dialect.h
// chooses. element has types of elements, epilogue the epilogues, and kernels the kernels: gemm.cuh is plain
// fp32 for CUDA and HIP, tensor.cuh mma.sync, wgmma.cuh warpgroups, f64.cuh fp64 for CUDA, and ragged.cuh
// makes items. amd has what differs there: mfma.cuh matrix cores, bits16_hip.cuh elements of 16 and 8 bits,
// steps_hip.cuh scales along K and B of 4 bits, f64_hip.cuh fp64.
//
// scripts/cuda.sh and scripts/hip.sh compile them, and scripts/pack.sh packs them into products/. Those for
// NVIDIA are in parts (Arch.Product), so that a device loads only what its plans need. Products are
// committed. A separate package embeds them in builds that can use them, so neither building nor running
// needs a toolkit. MANIFEST and HIP-MANIFEST have the hashes of sources, which tests check, and of products,
// which are checked when they are loaded. The tables beside them are for tests and for go generate, which
// writes the resources of kernels to resources.go. CI makes the products for AMD again, bit for bit. It
// cannot do so for NVIDIA: Debian has nvcc 12.4 at most, in 1 GB, and other versions make other bytes. For
// tests, internal/emulator runs the HIP kernels and those of warpgroups on the CPU, and internal/gcn runs
// the products for AMD.
//
// epilogue/epilogue.cuh has the code of epilogues. Names of kernels with an epilogue end with _e.
// TestWarpgroupEpiloguesEmulated and TestEpiloguesEmulated run them on the CPU, except those of tensor.cuh.
//
// All kernels have the same parameters of 8 bytes each. The last four are only for kernels with an epilogue,
// and of fp64:
//
//	const uint4    *items      the launch's items, at word Launch.Items of the encoded plan; words after
//	                           them that count partials are written
//	const uint32_t *table      its table, at word Launch.Table; null without Loop; with Ragged and Layer the
//	                           sizes
//	const float    *A, *B      with the launch's bases added; what an epilogue has by pointers, as C and B2
//	                           then, is not used
//	float          *C
//	float          *workspace  may be null when the launch neither splits nor fixes up; with Ragged the plan
//	const void     *B2         with the launch's base added; where the epilogue has no part, it and what
//	                           follows is null
//	const void     *bias       of C's type
//	const uint32_t *rows
//	uint64_t        epilogue   encoding.Kernel.Word; with Layer how many tokens there are, 0: all
//
// Those with Layer have numbers in place of some of these: encoding.Layer.Parameters.
//
// The grid is (Launch.Count, pieces).
package native

import (
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/native/internal/kernels"
)

//go:generate go run ./internal/kernels/generate

// The shape of a fix-up's thread group, as in store.cuh.
const (
	fixupThreads = 128
	slotSets     = 8 // sets of threads that share the slots, at most
)

// raggedThreads is the largest thread group that makes items, as in ragged.cuh: one thread for each entry,
// except with many entries.
const raggedThreads = 1024

// Threads of a group with Layer, as in routing.cuh.
const routeThreads, combineThreads = 1024, 256

// Pieces returns how many groups share an item of a launch, the second extent of the grid. It is more than
// one for a fix-up. There each group has fixupThreads threads, in as many sets as slotSets in store.cuh says
// for the most partials of a tile.
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

// Geometry returns the launch of a kernel: the threads of a group, and the bytes of dynamic shared memory,
// which only kernels for tensor cores of NVIDIA have.
func Geometry(k encoding.Kernel) (threads, sharedBytes int) {
	t := k.Tile
	if k.Ragged > 0 {
		return min(int(k.Entries), raggedThreads), 0
	}
	switch k.Layer {
	case encoding.LayerRoute:
		return routeThreads, 0
	case encoding.LayerCombine:
		return combineThreads, 0
	case encoding.LayerGate, encoding.LayerGateBackward:
		return encoding.GateThreads, 0
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

// itemPlaces is the number of items in shared memory of kernels of warpgroups: kItemPlaces in
// wgmma_store.cuh.
const itemPlaces = 16

// dynamicShared returns the dynamic shared memory of a kernel in bytes.
func dynamicShared(k encoding.Kernel) int {
	switch unit := k.Tile.Unit; {
	case k.Fixup:
		return 0
	case unit == tile.MMA:
		return tensorShared(k)
	case unit == tile.Int4: // stages, later the sums, and the rows of A
		return max(kernels.Int4Of(k.Tile).Stages*kernels.Int4Stage(k.Tile), 4*k.Tile.TM*(k.Tile.TN+4)) +
			4*k.Tile.TM
	case unit == tile.F64 && !k.Tile.Boxes:
		return kernels.DoubleShared(k.Tile)
	case k.Tile.Shared > 0: // kernels assert that it is enough
		return k.Tile.Shared
	}
	return 0
}

// tensorShared returns the dynamic shared memory of a kernel of tensor.cuh, in bytes: its stages, with 16
// bytes of padding every one or two rows if memory is MN-major, later the sums of the teams, and what a
// cluster sends.
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
