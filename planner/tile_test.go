package planner

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestZhangTable3 reproduces the columns of Table 3 of Zhang et al. 2025.
func TestZhangTable3(t *testing.T) {
	table := []struct {
		name                string
		tm, tn, tk, threads int
		wcp, wdl            float64
	}{
		{"small", 16, 16, 16, 128, 2, 6},
		{"small-medium", 16, 32, 16, 128, 4, 10},
		{"medium", 32, 32, 16, 128, 8, 16},
		{"medium-large", 32, 64, 16, 256, 8, 14},
		{"large", 64, 64, 16, 256, 16, 24},
	}
	require.Len(t, table, zhangTiles)
	for i, row := range table {
		tile := TileID(i).Tile()
		require.True(t, tile.Zhang)
		require.Equal(t, row.name, tile.Name)
		require.Equal(t, []int{row.tm, row.tn, row.tk, row.threads}, []int{tile.TM, tile.TN, tile.TK, tile.Threads})
		require.Equal(t, row.wcp, tile.WCP(), row.name)
		require.Equal(t, row.wdl, tile.WDL(), row.name)
		require.Equal(t, row.wcp, float64(tile.RM*tile.RN), "%s: a thread holds W_CP outputs", row.name)
	}
}

// TestTileTable holds every row to what kernels and encodings rely on.
func TestTileTable(t *testing.T) {
	names := map[string]bool{}
	for id, tile := range Tiles() {
		t.Run(tile.Name, func(t *testing.T) {
			require.False(t, names[tile.Name])
			names[tile.Name] = true
			found, err := TileByName(tile.Name)
			require.NoError(t, err)
			require.Equal(t, TileID(id), found)
			require.Equal(t, id < zhangTiles, tile.Zhang)
			require.Equal(t, id < NumFMATiles, tile.Unit == UnitFMA)
			if tile.Unit == UnitFMA {
				require.Zero(t, tile.TM%tile.RM+tile.TN%tile.RN, "register blocks cover the tile")
				require.Equal(t, tile.Threads, tile.TM/tile.RM*(tile.TN/tile.RN)*tile.Groups(), "threads cover the tile")
				require.Zero(t, tile.TK%tile.Groups(), "K groups share a step evenly")
				require.LessOrEqual(t, tile.SharedBytes(), 16<<10, "fits WebGPU's default limit")
				require.LessOrEqual(t, tile.Threads, 256, "fits WebGPU's default limit")
			} else {
				h200, err := LookupDevice("h200")
				require.NoError(t, err)
				require.Positive(t, h200.Occupancy(tile.Threads, tile.Resources()).Groups)
			}
			require.Zero(t, tile.TK%4+tile.TM%4+tile.TN%4, "steps and tiles keep 16-byte alignment")
			for _, size := range []int{tile.TM, tile.TN, tile.TK} {
				require.Equal(t, size, 1<<shift(size), "a power of two")
				require.LessOrEqual(t, size, 1<<maxShift)
			}
			require.LessOrEqual(t, max(tile.TM, tile.TN), 1<<15, "rows and columns fit in 16 bits")
		})
	}
	_, err := TileByName("huge")
	require.ErrorContains(t, err, `unknown tile "huge" (known: small, small-medium`)
}

func TestOccupancy(t *testing.T) {
	cases := []struct {
		name, device string
		threads      int
		r            Resources
		groups       int
		limiter      string
	}{
		// Checked against LLVM 16 and 19's remarks for gfx90a: a 64x64x16 kernel of
		// 256 threads, with plain FMA and with matrix instructions.
		{"gfx90a sgemm64", "mi210", 256, Resources{166, 46, 16896}, 3, "shared memory"},
		{"gfx90a mfma", "mi210", 256, Resources{46, 46, 16384}, 4, "shared memory"},
		// The register granule matters: 73 leaves 6 waves a SIMD and not 7.
		{"gfx90a 73 VGPR", "mi210", 256, Resources{73, 40, 0}, 6, "registers"},
		{"gfx90a 100 VGPR", "mi210", 256, Resources{100, 40, 0}, 4, "registers"},
		{"gfx90a 169 VGPR", "mi210", 256, Resources{169, 40, 0}, 2, "registers"},
		// Only whole workgroups run: 20 waves by registers hold 2 groups of 8.
		{"gfx90a 512 threads, 96 VGPR", "mi210", 512, Resources{96, 40, 0}, 2, "registers"},
		{"gfx90a 1024 threads, 73 VGPR", "mi210", 1024, Resources{73, 40, 0}, 1, "registers"},
		{"gfx90a one wave", "mi210", 64, Resources{32, 40, 0}, 32, "workgroups"},
		{"gfx90a two waves", "mi210", 128, Resources{32, 40, 0}, 16, "workgroups"},
		{"gfx90a too much LDS", "mi210", 64, Resources{32, 40, 65537}, 0, "shared memory"},
		// Scalar registers are given out in steps: LLVM's AMDGPUBaseInfo, getMaxNumSGPRs.
		{"gfx908 80 SGPR", "mi100", 64, Resources{24, 80, 0}, 40, "workgroups"},
		{"gfx908 81 SGPR", "mi100", 64, Resources{24, 81, 0}, 36, "scalar registers"},
		{"gfx908 88 SGPR", "mi100", 64, Resources{24, 88, 0}, 36, "scalar registers"},
		{"gfx908 89 SGPR", "mi100", 64, Resources{24, 89, 0}, 32, "scalar registers"},
		{"gfx908 100 SGPR", "mi100", 64, Resources{24, 100, 0}, 32, "scalar registers"},
		{"gfx908 101 SGPR", "mi100", 64, Resources{24, 101, 0}, 28, "scalar registers"},
		{"gfx908 165 VGPR", "mi100", 256, Resources{165, 46, 16896}, 1, "registers"},
		// NVIDIA's occupancy calculator.
		{"sm_90 64 threads, 128 registers", "h200", 64, Resources{128, 0, 25 << 10}, 8, "shared memory"},
		{"sm_90 128 threads, 128 registers", "h200", 128, Resources{128, 0, 38 << 10}, 4, "registers"},
		{"sm_90 256 threads, 32 registers", "h200", 256, Resources{32, 0, 0}, 8, "waves"},
		{"sm_80 128 threads, 96 registers", "a100", 128, Resources{96, 0, 8 << 10}, 5, "registers"},
		// Resident workgroups counted on an H200 through Vulkan.
		{"Vulkan 8 KB", "h200-webgpu", 32, Resources{0, 0, 8 << 10}, 6, "shared memory"},
		{"Vulkan 12 KB", "h200-webgpu", 32, Resources{0, 0, 12 << 10}, 4, "shared memory"},
		{"Vulkan 20 KB", "h200-webgpu", 32, Resources{0, 0, 20 << 10}, 2, "shared memory"},
		{"too many threads", "webgpu-default", 512, Resources{}, 0, "threads"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := device(t, c.device)
			o := d.Occupancy(c.threads, c.r)
			require.Equal(t, c.groups, o.Groups, "%+v", o)
			require.Equal(t, c.limiter, o.Limiter)
			require.LessOrEqual(t, o.Waves, d.MaxWaves)
		})
	}
}

func TestLookupDevice(t *testing.T) {
	for _, d := range KnownDevices() {
		found, err := LookupDevice(d.Name)
		require.NoError(t, err)
		require.Equal(t, d, *found)
		require.Positive(t, min(d.ComputeUnits, d.WaveSize, d.MaxWaves, d.MaxGroups, d.Shared, d.MaxThreads, d.GroupShared), d.Name)
		require.Positive(t, min(d.TFLOPS, d.LaunchMicros), d.Name)
		for id := range tiles {
			require.Equal(t, d.Fits(TileID(id), ComputeF32), tiles[id].Unit == UnitFMA, "%s runs every tile of plain fp32", d.Name)
		}
	}
	d, err := LookupDevice("GFX90A")
	require.NoError(t, err)
	require.Equal(t, "mi210", d.Name)
	_, err = LookupDevice("voodoo")
	require.ErrorContains(t, err, `unknown device "voodoo" (known: mi210, mi100`)
}
