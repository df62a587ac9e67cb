package planner

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
			o := d.Resident(c.threads, c.r)
			require.Equal(t, c.groups, o.Groups, "%+v", o)
			require.Equal(t, c.limiter, o.Limiter)
			require.LessOrEqual(t, o.Waves, d.MaxWaves)
		})
	}
}
