package native

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/batchgemm/batchgemm/native/internal/tiles"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite docs/hip.md and planner/kernels_cdna.go")

func TestTileList(t *testing.T) {
	for name, list := range map[string]struct{ text, then string }{
		"tiles.inc":     {tiles.CUDA(), "scripts/cuda.sh where nvcc is"},
		"tiles_hip.inc": {tiles.HIP(), "scripts/hip.sh"},
	} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, list.text, string(text), "run go generate ./native, then %s", list.then)
	}
}

// kernels are all kernels without tensor cores that differ in name.
func kernels() []planner.Kernel {
	var all []planner.Kernel
	for id := range planner.NumFMATiles {
		k := planner.Kernel{Tile: planner.TileID(id)}
		all = append(all, k, planner.Kernel{Tile: k.Tile, Fixup: true})
		for _, trans := range [][2]bool{{false, true}, {true, false}, {true, true}} {
			k.TransA, k.TransB = trans[0], trans[1]
			all = append(all, k)
		}
	}
	return all
}

// tensorKernels are all kernels with tensor cores that there are for an architecture.
func tensorKernels(arch string) []planner.Kernel {
	var all []planner.Kernel
	for id := planner.TileID(planner.NumFMATiles); id < planner.TileID(planner.NumTiles); id++ {
		tile := id.Tile()
		if tile.Unit == planner.UnitWGMMA && arch != "sm_90a" {
			continue
		}
		all = append(all, planner.Kernel{Tile: id, Fixup: true})
		for bits := range 16 {
			set := func(i int) bool { return bits>>i&1 == 1 }
			k := planner.Kernel{Tile: id, TransA: set(0), TransB: set(1), TF32: set(2)}
			if set(3) {
				k.Cluster = 2
			}
			if k.Cluster == 0 || tile.Clusters && arch == "sm_90a" {
				all = append(all, k)
			}
		}
	}
	return all
}

func TestImage(t *testing.T) {
	for _, test := range []struct {
		name         string
		major, minor int
		kind, begin  string
	}{
		{"A100", 8, 0, "sm_80.cubin", "\x7fELF"},
		{"later minor version", 8, 9, "sm_80.cubin", "\x7fELF"},
		{"H200", 9, 0, "sm_90a.cubin", "\x7fELF"},
		{"later major version", 12, 0, "compute_80.ptx", "//"},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, kind, err := Image(test.major, test.minor)
			require.NoError(t, err)
			require.Equal(t, test.kind, kind)
			require.True(t, strings.HasPrefix(string(code), test.begin))
			for _, k := range append(kernels(), tensorKernels(strings.TrimSuffix(kind, ".cubin"))...) {
				require.True(t, strings.Contains(string(code), KernelName(k)), KernelName(k))
			}
		})
	}
	_, _, err := Image(7, 5)
	require.ErrorContains(t, err, "7.5 is below 8.0")
}

// TestPTX: drivers refuse PTX of a later version than theirs.
func TestPTX(t *testing.T) {
	code, _, err := image("compute_80.ptx")
	require.NoError(t, err)
	require.Equal(t, byte(0), code[len(code)-1])
	for _, line := range []string{".version 7.0", ".target sm_80"} {
		require.True(t, strings.Contains(string(code), "\n"+line+"\n"), line)
	}
}

// resourcesOf is what a kernel takes of a compute unit, as its compiler reported it
// for a cubin.
func resourcesOf(t *testing.T, arch string, k planner.Kernel) planner.Resources {
	t.Helper()
	u, ok := cudaUsage(t)[arch+" "+KernelName(k)]
	require.True(t, ok, "%s %s", arch, KernelName(k))
	return planner.Resources{Registers: u.registers, Shared: u.shared + dynamicShared(k)}
}

// usage is a line of products/resources.tsv.
type usage struct{ registers, shared, spilled int }

// cudaUsage reads products/resources.tsv, by architecture and kernel name.
func cudaUsage(t *testing.T) map[string]usage {
	t.Helper()
	table := map[string]usage{}
	for line := range strings.Lines(product(t, "resources.tsv")) {
		var arch, name string
		var u usage
		_, err := fmt.Sscan(line, &arch, &name, &u.registers, &u.shared, &u.spilled)
		require.NoError(t, err, line)
		table[arch+" "+name] = u
	}
	return table
}

func TestResources(t *testing.T) {
	table := cudaUsage(t)
	require.Equal(t, 2*len(kernels())+len(tensorKernels("sm_80"))+len(tensorKernels("sm_90a")), len(table))
	// Bytes spilled, of which the table has these alone.
	spilled := map[string]int{
		"sm_90a bg_large_8x8_nt":   88,
		"sm_80 bg_tensor_64x64_tt": 28, "sm_90a bg_tensor_64x64_tt": 28,
		"sm_90a bg_tensor_64x64_nn": 16, "sm_90a bg_tensor_64x64_nt": 28, "sm_90a bg_tensor_64x64_tn": 28,
		"sm_90a bg_wgmma_64x64_nn": 48, "sm_90a bg_wgmma_64x64_tn": 44, "sm_90a bg_wgmma_64x64_tt": 32, "sm_90a bg_wgmma_64x64_tt_tf32": 8,
		"sm_90a bg_wgmma_128x128_nt": 52, "sm_90a bg_wgmma_128x128_nt_tf32": 32,
	}
	for name, u := range table {
		require.Equal(t, spilled[name], u.spilled, "%s spills registers", name)
	}
	for arch, name := range map[string]string{"sm_80": "a100", "sm_90a": "h200"} {
		for _, k := range kernels() {
			r := resourcesOf(t, arch, k)
			require.Positive(t, r.Registers)
			threads, shared, pieces := Geometry(k)
			require.Zero(t, shared)
			require.Positive(t, pieces)
			require.LessOrEqual(t, r.Shared, 48<<10, "static shared memory")
			d, err := planner.LookupDevice(name)
			require.NoError(t, err)
			if !k.Fixup {
				require.GreaterOrEqual(t, d.Occupancy(threads, r).Groups, min(tiles.MinGroups(k.Tile.Tile()), 4), KernelName(k))
			}
		}
	}
}

// TestTensorResources keeps what the tile table says of kernels for tensor cores
// equal to the products: the most that one of a tile takes.
func TestTensorResources(t *testing.T) {
	most := map[planner.TileID]planner.Resources{}
	for _, k := range tensorKernels("sm_90a") {
		r := resourcesOf(t, "sm_90a", k)
		if !k.Fixup {
			m := most[k.Tile]
			most[k.Tile] = planner.Resources{Registers: max(m.Registers, r.Registers), Shared: max(m.Shared, r.Shared)}
		}
	}
	for id, r := range most {
		require.Equal(t, r, id.Tile().Resources(), id.Tile().Name)
	}
}

func TestKernelName(t *testing.T) {
	id, err := planner.TileByName("large-8x4")
	require.NoError(t, err)
	require.Equal(t, "bg_large_8x4_nt", KernelName(planner.Kernel{Tile: id, TransB: true, Wide: true, Loop: true, Split: true}))
	require.Equal(t, "bg_large_8x4_fixup", KernelName(planner.Kernel{Tile: id, Fixup: true}))
}
