package planner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/occupancy"
)

func TestOccupancy(t *testing.T) {
	cases := []struct {
		name, device string
		threads      int
		r            occupancy.Resources
		groups       int
		limiter      string
	}{
		// Checked against LLVM 16 and 19's remarks for gfx90a: a 64x64x16 kernel of
		// 256 threads, with plain FMA and with matrix instructions.
		{"gfx90a sgemm64", "mi210", 256, occupancy.Resources{Registers: 166, ScalarRegisters: 46,
			Shared: 16896}, 3, "shared memory"},
		{"gfx90a mfma", "mi210", 256, occupancy.Resources{Registers: 46, ScalarRegisters: 46, Shared: 16384},
			4, "shared memory"},
		// The register granule matters: 73 leaves 6 waves a SIMD and not 7.
		{"gfx90a 73 VGPR", "mi210", 256, occupancy.Resources{Registers: 73, ScalarRegisters: 40, Shared: 0},
			6, "registers"},
		{"gfx90a 100 VGPR", "mi210", 256, occupancy.Resources{Registers: 100, ScalarRegisters: 40, Shared: 0},
			4, "registers"},
		{"gfx90a 169 VGPR", "mi210", 256, occupancy.Resources{Registers: 169, ScalarRegisters: 40, Shared: 0},
			2, "registers"},
		// Only whole workgroups run: 20 waves by registers hold 2 groups of 8.
		{"gfx90a 512 threads, 96 VGPR", "mi210", 512, occupancy.Resources{Registers: 96, ScalarRegisters: 40,
			Shared: 0}, 2, "registers"},
		{"gfx90a 1024 threads, 73 VGPR", "mi210", 1024,
			occupancy.Resources{Registers: 73, ScalarRegisters: 40, Shared: 0}, 1, "registers"},
		{"gfx90a one wave", "mi210", 64, occupancy.Resources{Registers: 32, ScalarRegisters: 40, Shared: 0},
			32, "workgroups"},
		{"gfx90a two waves", "mi210", 128, occupancy.Resources{Registers: 32, ScalarRegisters: 40, Shared: 0},
			16, "workgroups"},
		{"gfx90a too much LDS", "mi210", 64, occupancy.Resources{Registers: 32, ScalarRegisters: 40,
			Shared: 65537}, 0, "shared memory"},
		// Scalar registers are given out in steps: LLVM's AMDGPUBaseInfo, getMaxNumSGPRs.
		{"gfx908 80 SGPR", "mi100", 64, occupancy.Resources{Registers: 24, ScalarRegisters: 80, Shared: 0},
			40, "workgroups"},
		{"gfx908 81 SGPR", "mi100", 64, occupancy.Resources{Registers: 24, ScalarRegisters: 81, Shared: 0},
			36, "scalar registers"},
		{"gfx908 88 SGPR", "mi100", 64, occupancy.Resources{Registers: 24, ScalarRegisters: 88, Shared: 0},
			36, "scalar registers"},
		{"gfx908 89 SGPR", "mi100", 64, occupancy.Resources{Registers: 24, ScalarRegisters: 89, Shared: 0},
			32, "scalar registers"},
		{"gfx908 100 SGPR", "mi100", 64, occupancy.Resources{Registers: 24, ScalarRegisters: 100, Shared: 0},
			32, "scalar registers"},
		{"gfx908 101 SGPR", "mi100", 64, occupancy.Resources{Registers: 24, ScalarRegisters: 101, Shared: 0},
			28, "scalar registers"},
		{"gfx908 165 VGPR", "mi100", 256, occupancy.Resources{Registers: 165, ScalarRegisters: 46,
			Shared: 16896}, 1, "registers"},
		// NVIDIA's occupancy calculator.
		{"sm_90 64 threads, 128 registers", "h200", 64,
			occupancy.Resources{Registers: 128, ScalarRegisters: 0, Shared: 25 << 10}, 8, "shared memory"},
		{"sm_90 128 threads, 128 registers", "h200", 128,
			occupancy.Resources{Registers: 128, ScalarRegisters: 0, Shared: 38 << 10}, 4, "registers"},
		{"sm_90 256 threads, 32 registers", "h200", 256,
			occupancy.Resources{Registers: 32, ScalarRegisters: 0, Shared: 0}, 8, "waves"},
		{"sm_80 128 threads, 96 registers", "a100", 128,
			occupancy.Resources{Registers: 96, ScalarRegisters: 0, Shared: 8 << 10}, 5, "registers"},
		// Resident workgroups counted on an H200 through Vulkan.
		{"Vulkan 8 KB", "h200-webgpu", 32, occupancy.Resources{Registers: 0, ScalarRegisters: 0,
			Shared: 8 << 10}, 6, "shared memory"},
		{"Vulkan 12 KB", "h200-webgpu", 32, occupancy.Resources{Registers: 0, ScalarRegisters: 0,
			Shared: 12 << 10}, 4, "shared memory"},
		{"Vulkan 20 KB", "h200-webgpu", 32, occupancy.Resources{Registers: 0, ScalarRegisters: 0,
			Shared: 20 << 10}, 2, "shared memory"},
		{"too many threads", "webgpu-default", 512, occupancy.Resources{}, 0, "threads"},
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
