// Package native holds the device code of the kernels that carry out a plan on
// GPUs with their own compiler, and what a loader must know to launch them. It
// knows no GPU API.
//
// gemm.cuh is the text of the kernels, written against a small dialect header so
// that CUDA and HIP share it. kernels.cu makes the kernels of every row of the
// tile table (tiles.inc) for NVIDIA GPUs, kernels.hip (tiles_hip.inc) for those of
// AMD, where mfma.cuh has those for matrix cores; scripts/cuda.sh and
// scripts/hip.sh compile them to products/, which is committed and of which the
// code is embedded, so that neither building nor running needs a toolkit. MANIFEST
// and HIP-MANIFEST there have the hashes of sources and products, which tests
// compare; the tables beside them are for tests too. CI makes
// the products for AMD again, bit for bit. It cannot do so for NVIDIA: Debian has nvcc
// 12.4 at most, in 1 GB, and another version makes other bytes. internal/emulator runs the HIP
// kernels and those of warpgroups on the CPU, for tests.
//
// All kernels have the same six parameters of 8 bytes each:
//
//	const uint4    *items      the launch's items, at word Launch.Items of the encoded plan
//	const uint32_t *table      its table, at word Launch.Table; null without Loop
//	const float    *A, *B      with the launch's bases added
//	float          *C
//	float          *workspace  may be null when the launch neither splits nor fixes up
//
// The grid is (Launch.Count, pieces).
package native

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"strings"

	"github.com/batchgemm/batchgemm/native/internal/tiles"
	"github.com/batchgemm/batchgemm/planner"
)

//go:generate go run ./internal/tiles/generate

//go:embed products/*.gz
var products embed.FS

// KernelName is the symbol of a kernel in the products for NVIDIA GPUs. Wide, Loop
// and Split are decided at run time and do not change it.
func KernelName(k planner.Kernel) string {
	suffix := "fixup"
	if !k.Fixup {
		suffix = transposition(k.TransA) + transposition(k.TransB)
		if k.TF32 {
			suffix += "_tf32"
		}
		if k.Cluster > 0 {
			suffix += "_cluster"
		}
	}
	return "bg_" + tiles.Identifier(k.Tile.Tile()) + "_" + suffix
}

func transposition(trans bool) string {
	if trans {
		return "t"
	}
	return "n"
}

// The shape of a fix-up's thread group, as in gemm.cuh.
const (
	pieceVectors = 16 // vectors of 4 elements of a tile that one group sums
	slotSets     = 8  // sets of threads that share the partial tiles
)

// Geometry gives the launch of a kernel: the threads of a group, the bytes of
// dynamic shared memory, which only kernels for tensor cores have, and the groups
// that share an item, the second extent of the grid.
func Geometry(k planner.Kernel) (threads, sharedBytes, pieces int) {
	t := k.Tile.Tile()
	if k.Fixup {
		return pieceVectors * slotSets, 0, t.TM * t.TN / (4 * pieceVectors)
	}
	return t.Threads, dynamicShared(k), 1
}

// dynamicShared is the dynamic shared memory of a kernel in bytes.
func dynamicShared(k planner.Kernel) int {
	switch unit := k.Tile.Tile().Unit; {
	case k.Fixup:
		return 0
	case unit == planner.UnitMMA:
		return tensorShared(k)
	case unit == planner.UnitWGMMA: // of the transposition that takes most: kernels assert it
		return k.Tile.Tile().Shared
	}
	return 0
}

// tensorShared is the dynamic shared memory of a kernel of tensor.cuh, in bytes:
// its stages, with a line of 16 bytes more a row or two where memory does not run
// along K, later the sums of the teams, and what a cluster sends.
func tensorShared(k planner.Kernel) int {
	t := k.Tile.Tile()
	m := tiles.TensorOf(t)
	operand := func(length int, alongK bool) int {
		if alongK {
			return length * (tiles.TensorStep + 4)
		}
		return tiles.TensorStep * (length + 8)
	}
	stage := operand(t.TM, !k.TransA) + operand(t.TN, k.TransB)
	floats := max(m.Teams*m.Stages*stage, m.Teams*t.TM*(t.TN+8))
	if k.Cluster > 0 {
		floats += t.TM * t.TN
	}
	return 4 * floats
}

// Image returns the code of all kernels for a compute capability, and its kind
// for messages: a cubin, where one runs there, or else PTX, which the driver
// compiles. Both are what cuModuleLoadData takes; the PTX ends with a zero byte.
func Image(major, minor int) (code []byte, kind string, err error) {
	switch {
	case major < 8:
		return nil, "", fmt.Errorf("compute capability %d.%d is below 8.0", major, minor)
	case major == 8: // cubins run on later minor versions of their major one
		return image("sm_80.cubin")
	case major == 9: // with instructions that no other version has
		return image("sm_90a.cubin")
	}
	return image("compute_80.ptx")
}

// Unpack returns what scripts/cuda.sh and scripts/hip.sh have packed.
func Unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// image unpacks a product.
func image(name string) (code []byte, kind string, err error) {
	packed, err := products.ReadFile("products/" + name + ".gz")
	if err != nil {
		return nil, "", err
	}
	if code, err = Unpack(packed); err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	if strings.HasSuffix(name, ".ptx") {
		code = append(code, 0)
	}
	return code, name, nil
}
