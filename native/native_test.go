package native

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/batchgemm/batchgemm/planner"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite tiles.inc")

func TestTileList(t *testing.T) {
	if *update {
		require.NoError(t, os.WriteFile("tiles.inc", []byte(tileList()), 0o644))
	}
	text, err := os.ReadFile("tiles.inc")
	require.NoError(t, err)
	require.Equal(t, tileList(), string(text), "run go test ./native -update, then scripts/cuda.sh where nvcc is")
}

// TestProductsAreCurrent fails when a source changed after the products were built.
func TestProductsAreCurrent(t *testing.T) {
	manifest, err := products.ReadFile("products/MANIFEST")
	require.NoError(t, err)
	sources := 0
	for line := range strings.Lines(string(manifest)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		require.Len(t, fields, 2, line)
		text, err := os.ReadFile(fields[1])
		require.NoError(t, err)
		sum := sha256.Sum256(text)
		require.Equal(t, fields[0], hex.EncodeToString(sum[:]),
			"%s changed: run scripts/cuda.sh where nvcc is and commit the products", fields[1])
		sources++
	}
	require.Equal(t, 5, sources)
}

// kernels are all kernels that differ in name.
func kernels() []planner.Kernel {
	var all []planner.Kernel
	for id := range planner.NumTiles {
		k := planner.Kernel{Tile: planner.TileID(id)}
		all = append(all, k, planner.Kernel{Tile: k.Tile, Fixup: true})
		for _, trans := range [][2]bool{{false, true}, {true, false}, {true, true}} {
			k.TransA, k.TransB = trans[0], trans[1]
			all = append(all, k)
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
		{"H200", 9, 0, "sm_90.cubin", "\x7fELF"},
		{"later major version", 12, 0, "compute_80.ptx", "//"},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, kind, err := Image(test.major, test.minor)
			require.NoError(t, err)
			require.Equal(t, test.kind, kind)
			require.True(t, strings.HasPrefix(string(code), test.begin))
			for _, k := range kernels() {
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

func TestResources(t *testing.T) {
	table, err := resources()
	require.NoError(t, err)
	require.Equal(t, 2*len(kernels()), len(table))
	for name, u := range table {
		require.Zero(t, u.spilled, "%s spills registers", name)
	}
	for _, major := range []int{8, 9} {
		for _, k := range kernels() {
			r, err := Resources(k, major)
			require.NoError(t, err)
			require.Positive(t, r.Registers)
			threads, shared, pieces := Geometry(k)
			require.Zero(t, shared)
			require.Positive(t, pieces)
			require.LessOrEqual(t, r.Shared, 48<<10, "static shared memory")
			d, err := planner.LookupDevice(map[int]string{8: "a100", 9: "h200"}[major])
			require.NoError(t, err)
			if !k.Fixup {
				require.GreaterOrEqual(t, d.Occupancy(threads, r).Groups, min(minGroups(k.Tile.Tile()), 4), KernelName(k))
			}
		}
	}
}

func TestKernelName(t *testing.T) {
	id, err := planner.TileByName("large-8x4")
	require.NoError(t, err)
	require.Equal(t, "bg_large_8x4_nt", KernelName(planner.Kernel{Tile: id, TransB: true, Wide: true, Loop: true, Split: true}))
	require.Equal(t, "bg_large_8x4_fixup", KernelName(planner.Kernel{Tile: id, Fixup: true}))
}
