package gcn

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestChecks runs programs that the hardware does not define, and similar ones that it does. The text in
// braces makes the difference: with it there is no error.
func TestChecks(t *testing.T) {
	const matrix = "v_mov_b32_e32 v2, 1.0\ns_nop 4\nv_mfma_f32_16x16x4f32 v[4:7], v2, v2, v[4:7]\n"
	const matrix940 = "v_mov_b32_e32 v2, 1.0\ns_nop 4\nv_mfma_f32_16x16x4_f32 v[4:7], v2, v2, v[4:7]\n"
	const whole = "v_mov_b32_e32 v2, 1\ns_nop 4\nv_mfma_i32_16x16x16i8 v[4:7], v2, v2, v[4:7]\n"
	const whole942 = "v_mov_b32_e32 v2, 1\nv_mov_b32_e32 v3, 1\ns_nop 4\nv_mfma_i32_16x16x32_i8 v[4:7], " +
		"v[2:3], v[2:3], v[4:7]\n"
	const bytes942 = "v_mov_b32_e32 v2, 1\nv_mov_b32_e32 v3, 1\ns_nop 4\nv_mfma_f32_16x16x32_fp8_fp8 " +
		"v[4:7], v[2:3], v[2:3], v[4:7]\n"
	const matrix908 = "v_mov_b32_e32 v2, 1.0\ns_nop 4\nv_mfma_f32_16x16x4f32 a[4:7], v2, v2, a[4:7]\n"
	for _, test := range []struct{ name, arch, code, want string }{
		// Waits.
		{"a load", "gfx90a", "global_load_dword v2, v1, s[6:7]\n{s_waitcnt vmcnt(0)}\nv_mov_b32_e32 v3, v2",
			"reads v2, which a load under way will write"},
		{"the second of two loads", "gfx90a",
			"global_load_dword v2, v1, s[6:7]\nglobal_load_dword v3, v1, s[6:7]\ns_waitcnt " +
				"vmcnt(1)\n{s_waitcnt vmcnt(0)}\nv_mov_b32_e32 v4, v3", "reads v3"},
		{"a store counts as a load", "gfx90a",
			"global_load_dword v2, v1, s[6:7]\n{global_store_dword v1, v0, s[6:7] offset:256}\ns_waitcnt " +
				"vmcnt(1)\nv_mov_b32_e32 v4, v2", "reads v2"},
		{"a store does not where it has a counter", "gfx1030",
			"global_load_dword v2, v1, s[6:7]\nglobal_store_dword v1, v0, s[6:7] offset:256\ns_waitcnt " +
				"vmcnt(1)\n{s_waitcnt vmcnt(0)}\nv_mov_b32_e32 v4, v2", "reads v2"},
		{"written over", "gfx90a",
			"global_load_dword v2, v1, s[6:7]\n{s_waitcnt vmcnt(0)}\nv_mov_b32_e32 v2, 0", "writes v2"},
		{"written over by another kind", "gfx90a",
			"global_load_dword v2, v1, s[6:7]\n{s_waitcnt vmcnt(0)}\nds_read_b32 v2, v1", "writes v2"},
		{"a store of what is loaded", "gfx90a",
			"global_load_dword v2, v1, s[6:7]\n{s_waitcnt vmcnt(0)}\nglobal_store_dword v1, v2, s[6:7] " +
				"offset:256", "reads v2"},
		{"half of a dual operation", "gfx1100",
			"global_load_b32 v2, v1, s[6:7]\n{s_waitcnt vmcnt(0)}\nv_dual_mov_b32 v4, v0 :: " +
				"v_dual_mov_b32 v5, v2", "reads v2"},
		{"shared memory", "gfx908",
			"ds_write_b32 v1, v0\nds_read_b32 v2, v1\n{s_waitcnt lgkmcnt(0)}\nv_mov_b32_e32 v3, v2",
			"reads v2"},
		{"shared memory in order", "gfx908",
			"ds_write_b32 v1, v0\nds_read_b32 v2, v1\n{ds_read_b32 v4, v1}\ns_waitcnt " +
				"lgkmcnt(1)\nv_mov_b32_e32 v3, v2", "reads v2"},
		{"scalar loads in any order", "gfx90a",
			"s_load_dword s10, s[6:7], 0x0\ns_load_dword s11, s[6:7], 0x4\ns_waitcnt " +
				"lgkmcnt(1)\n{s_waitcnt lgkmcnt(0)}\ns_mov_b32 s12, s10", "reads s10"},
		{"a scalar load beside shared memory", "gfx90a",
			"ds_write_b32 v1, v0\nds_read_b32 v2, v1\ns_load_dword s11, s[6:7], 0x4\n{s_waitcnt " +
				"lgkmcnt(0)}\ns_waitcnt lgkmcnt(1)\nv_mov_b32_e32 v3, v2", "reads v2"},
		{"a flat load, of global memory", "gfx90a",
			"v_mov_b32_e32 v2, s6\nv_mov_b32_e32 v3, s7\nflat_load_dword v4, v[2:3]\n{s_waitcnt " +
				"vmcnt(0)}\ns_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v5, v4", "reads v4"},
		{"a flat load, as of shared memory", "gfx90a",
			"v_mov_b32_e32 v2, s6\nv_mov_b32_e32 v3, s7\nflat_load_dword v4, v[2:3]\n{s_waitcnt " +
				"lgkmcnt(0)}\ns_waitcnt vmcnt(0)\nv_mov_b32_e32 v5, v4", "reads v4"},
		{"a flat load, as of shared memory", "gfx1030",
			"v_mov_b32_e32 v2, s6\nv_mov_b32_e32 v3, s7\nflat_load_dword v4, v[2:3]\n{s_waitcnt " +
				"lgkmcnt(0)}\ns_waitcnt vmcnt(0)\nv_mov_b32_e32 v5, v4", "reads v4"},
		{"a flat load in any order", "gfx90a",
			"ds_write_b32 v1, v0\nv_mov_b32_e32 v2, s6\nv_mov_b32_e32 v3, s7\nflat_load_dword v4, " +
				"v[2:3]\ns_waitcnt vmcnt(0) lgkmcnt(1)\n{s_waitcnt lgkmcnt(0)}\nv_mov_b32_e32 v5, v4",
			"reads v4"},
		{"vcc of a branch", "gfx90a",
			"s_load_dwordx2 vcc, s[6:7], 0x0\n{s_waitcnt lgkmcnt(0)}\ns_cbranch_vccz 0", "reads vcc"},
		{"shared memory at a barrier", "gfx90a", "ds_write_b32 v1, v0\n{s_waitcnt lgkmcnt(0)}\ns_barrier",
			"memory operations are under way"},
		{"a store at a barrier", "gfx90a", "global_store_dword v1, v0, s[6:7]\ns_barrier", ""},
		{"a store at a barrier", "gfx908",
			"global_store_dword v1, v0, s[6:7]\n{s_waitcnt vmcnt(0)}\ns_barrier",
			"memory operations are under way"},
		{"a store at a barrier", "gfx1100",
			"global_store_b32 v1, v0, s[6:7]\n{s_waitcnt_vscnt null, 0x0}\ns_barrier",
			"memory operations are under way"},

		// Memory.
		{"after a buffer", "gfx90a",
			"v_mov_b32_e32 v2, 0xffc\n{v_mov_b32_e32 v2, 0xff0}\nglobal_load_dwordx2 v[4:5], v2, s[6:7]",
			"8 bytes at byte 4092 of a buffer, which has 4096"},
		{"before a buffer", "gfx90a", "global_load_dword v4, v1, s[6:7] offset:-8\n",
			"4 bytes at 0x3fffff7f8, where no buffer is: byte -8 of a buffer"},
		{"an odd address", "gfx90a",
			"v_mov_b32_e32 v2, 1\n{v_mov_b32_e32 v2, 2}\nglobal_load_dword v4, v2, s[6:7]",
			"4 bytes at byte 1 of a buffer"},
		{"lanes that do not take part", "gfx90a",
			"v_mov_b32_e32 v2, -1\n{s_mov_b64 exec, 0}\nglobal_load_dword v4, v2, s[6:7]",
			"where no buffer is"},
		{"an address that nothing wrote", "gfx90a",
			"{v_mov_b32_e32 v20, 0}\nglobal_load_dword v4, v20, s[6:7]", "where no buffer is"},
		{"beyond shared memory", "gfx90a",
			"v_mov_b32_e32 v2, 0x400\n{v_mov_b32_e32 v2, 0x3fc}\nds_read_b32 v3, v2",
			"4 bytes at 1024 of 1024"},
		{"an address of shared memory that is not aligned", "gfx90a",
			"v_mov_b32_e32 v2, 2\n{v_mov_b32_e32 v2, 4}\nds_read_b128 v[4:7], v2", "16 bytes at 2"},
		{"a scalar load after a buffer", "gfx90a", "s_load_dwordx4 s[8:11], s[6:7], 0xff8\n",
			"16 bytes at byte 4088"},

		// Wait states.
		{"a product in a store", "gfx90a", matrix + "s_nop 9\n{s_nop 0}\nglobal_store_dword v1, v4, s[6:7]",
			"v4 was written by matrix cores 10 wait states before, 11 are needed"},
		{"a product in an operation", "gfx90a", matrix + "s_nop 9\n{s_nop 0}\nv_mov_b32_e32 v9, v7",
			"v7 was written by matrix cores"},
		{"a product as a factor", "gfx90a",
			matrix + "s_nop 9\n{s_nop 0}\nv_mfma_f32_16x16x4f32 v[8:11], v2, v4, v[8:11]",
			"v4 was written by matrix cores"},
		{"a product as a sum", "gfx90a", matrix + "v_mfma_f32_16x16x4f32 v[4:7], v2, v2, v[4:7]\n", ""},
		{"a product as another sum", "gfx90a",
			matrix + "s_nop 6\n{s_nop 0}\nv_mfma_f32_16x16x4f32 v[6:9], v2, v2, v[6:9]",
			"v6 was written by matrix cores 7 wait states before, 8 are needed"},
		{"a sum that is written", "gfx90a",
			"v_mov_b32_e32 v2, 1.0\ns_nop 4\nv_mfma_f32_16x16x4f32 v[4:7], v2, v2, v[8:11]\ns_nop " +
				"5\n{s_nop 0}\nv_mov_b32_e32 v8, 0",
			"v8 was read by matrix cores 6 wait states before, 7 are needed"},
		{"a factor too early", "gfx90a",
			"v_mov_b32_e32 v2, 1.0\n{s_nop 1}\nv_mfma_f32_16x16x4f32 v[4:7], v2, v2, v[4:7]",
			"v2 was written by a vector instruction 0 wait states before, 2 are needed"},
		{"a product in a store", "gfx942",
			matrix940 + "s_nop 8\n{s_nop 0}\nglobal_store_dword v1, v4, s[6:7]",
			"v4 was written by matrix cores 9 wait states before, 10 are needed"},
		{"a product of whole numbers in a store", "gfx90a",
			whole + "s_nop 9\n{s_nop 0}\nglobal_store_dword v1, v4, s[6:7]",
			"v4 was written by matrix cores 10 wait states before, 11 are needed"},
		{"a product of whole numbers in a store", "gfx942",
			whole942 + "s_nop 5\n{s_nop 0}\nglobal_store_dword v1, v4, s[6:7]",
			"v4 was written by matrix cores 6 wait states before, 7 are needed"},
		{"a product of bytes in a store", "gfx942", bytes942 +
			"s_nop 5\n{s_nop 0}\nglobal_store_dword v1, v4, s[6:7]",
			"v4 was written by matrix cores 6 wait states before, 7 are needed"},
		{"a product of bytes as a sum", "gfx942", bytes942 +
			"v_mfma_f32_16x16x32_fp8_fp8 v[4:7], v[2:3], v[2:3], v[4:7]\n", ""},
		{"a product of bytes as another sum", "gfx942", bytes942 +
			"s_nop 3\n{s_nop 0}\nv_mfma_f32_16x16x32_fp8_fp8 v[6:9], v[2:3], v[2:3], v[6:9]",
			"v6 was written by matrix cores 4 wait states before, 5 are needed"},
		{"a factor of bytes too early", "gfx942",
			"v_mov_b32_e32 v2, 1\nv_mov_b32_e32 v3, 1\ns_nop 0\n{s_nop 0}\nv_mfma_f32_16x16x32_fp8_fp8 " +
				"v[4:7], v[2:3], v[2:3], v[4:7]",
			"v3 was written by a vector instruction 1 wait states before, 2 are needed"},
		{"a product in a move", "gfx908", matrix908 + "s_nop 8\n{s_nop 0}\nv_accvgpr_read_b32 v9, a4",
			"a4 was written by matrix cores 9 wait states before, 10 are needed"},
		{"a sum that is written", "gfx908", matrix908 + "s_nop 5\n{s_nop 0}\nv_accvgpr_write_b32 a4, 0",
			"a4 was written by matrix cores 6 wait states before, 7 are needed"},
		{"a sum too early", "gfx908",
			"v_mov_b32_e32 v2, 1.0\ns_nop 4\nv_accvgpr_write_b32 a4, 0\n{s_nop 0}\nv_mfma_f32_16x16x4f32 " +
				"a[4:7], v2, v2, a[4:7]", "a4 was written 0 wait states before, 1 are needed"},
		{"a move to a store", "gfx908",
			"v_accvgpr_read_b32 v4, a4\ns_nop 0\n{s_nop 0}\nglobal_store_dword v1, v4, s[6:7]",
			"v4 was read from an accumulation register 1 wait states before, 2 are needed"},
		{"an address before a move", "gfx908",
			"v_mov_b32_e32 v4, 0\nv_accvgpr_read_b32 v5, a4\n{s_nop 0}\nglobal_load_dword v6, v4, s[6:7]",
			"v4 was written, and an accumulation register was used"},
		{"a mask in a load", "gfx908",
			"v_readfirstlane_b32 s10, v0\nv_readfirstlane_b32 s11, v0\ns_nop 3\n{s_nop 3\ns_mov_b64 " +
				"s[10:11], s[6:7]}\nglobal_load_dword v4, v1, s[10:11]",
			"s11 was written by a vector instruction 4 wait states before, 5 are needed"},
		{"a lane number", "gfx90a",
			"v_readfirstlane_b32 s10, v0\ns_nop 2\n{s_nop 0}\nv_readlane_b32 s11, v0, s10",
			"s10 was written by a vector instruction 3 wait states before, 4 are needed"},
		{"a lane number of a write", "gfx90a",
			"v_readfirstlane_b32 s10, v0\ns_nop 2\n{s_nop 0}\nv_writelane_b32 v4, 1, s10",
			"s10 was written by a vector instruction 3 wait states before, 4 are needed"},
		{"a mask in an operation", "gfx942",
			"v_cmp_eq_u32_e32 vcc, 0, v0\ns_nop 0\n{s_nop 0}\nv_cndmask_b32_e32 v4, v0, v1, vcc",
			"vcc was written by a vector instruction 1 wait states before, 2 are needed"},
		{"a lane of a result", "gfx942", "v_mov_b32_e32 v4, 0\n{s_nop 0}\nv_readfirstlane_b32 s10, v4",
			"v4 was written 0 wait states before, 1 are needed"},
		{"a reciprocal", "gfx942", "v_rcp_iflag_f32_e32 v4, v0\n{s_nop 0}\nv_mul_f32_e32 v5, v4, v4",
			"v4 was written by a transcendental function"},
		{"a reciprocal", "gfx1100",
			"v_rcp_iflag_f32_e32 v4, v0\n{s_waitcnt_depctr 0xfff}\nv_mul_f32_e32 v5, v4, v4",
			"v4 was written by a transcendental function"},
		{"a reciprocal, much later", "gfx1100", "v_rcp_iflag_f32_e32 v4, v0\n" +
			strings.Repeat("v_mov_b32_e32 v6, 0\n", 5) + "{v_mov_b32_e32 v6, 0}\nv_mul_f32_e32 v5, v4, v4",
			"v4 was written by a transcendental function"},
		{"what a store still reads", "gfx90a",
			"global_store_dwordx4 v1, v[4:7], s[6:7]\n{s_nop 0}\nv_mov_b32_e32 v6, 0",
			"v6 was stored 0 wait states before, 1 are needed"},
		{"what a store still reads", "gfx942",
			"global_store_dwordx4 v1, v[4:7], s[6:7]\ns_nop 0\n{s_nop 0}\nv_mov_b32_e32 v6, 0",
			"v6 was stored 1 wait states before, 2 are needed"},
		{"loads that cannot be repeated", "gfx90a",
			"global_load_dword v2, v1, s[6:7]\n{s_nop 0}\nglobal_load_dword v1, v0, s[6:7] offset:0",
			"of loads in a row one reads what one writes"},
		{"no wait states on RDNA", "gfx1030", "v_readfirstlane_b32 s10, v0\nv_readlane_b32 s11, v0, s10", ""},
	} {
		t.Run(test.arch+" "+test.name, func(t *testing.T) {
			start := begin
			if test.arch == "gfx1100" {
				start = strings.Replace(start, "dwordx2", "b64", 1)
			}
			if test.name == "loads that cannot be repeated" {
				start += "v_mov_b32_e32 v0, 0\n"
			}
			before, rest, _ := strings.Cut(test.code, "{")
			middle, after, made := strings.Cut(rest, "}")
			err := err2(program(t, test.arch, start+before+after).Run())
			if made || test.want != "" {
				require.ErrorContains(t, err, test.want)
				if !made {
					return
				}
			}
			require.NoError(t, err2(program(t, test.arch, start+before+middle+after).Run()))
		})
	}
}

// TestRaces runs two waves, or two workgroups.
func TestRaces(t *testing.T) {
	for _, test := range []struct {
		name, code string
		groups     int
		want       error
	}{
		{"each its own word", "ds_write_b32 v1, v0\ns_waitcnt lgkmcnt(0)\nds_read_b32 v2, v1", 1, nil},
		{"a word that another wave writes",
			"ds_write_b32 v1, v0\ns_waitcnt lgkmcnt(0)\n{s_barrier}\nds_read_b32 v2, v3", 1, errSharedRace},
		{"a word that another wave reads",
			"ds_read_b32 v2, v3\ns_waitcnt lgkmcnt(0)\n{s_barrier}\nds_write_b32 v1, v0", 1, errSharedRace},
		{"a word that both write", "ds_write_b32 v4, v0\n{}", 1, errSharedRace},
		{"bytes of one word", "ds_write_b8 v5, v0", 1, nil},
		{"a byte and its word", "ds_write_b8 v5, v0\ns_waitcnt lgkmcnt(0)\n{s_barrier}\nds_read_b32 v2, v6",
			1, errSharedRace},
		{"a word and its byte", "ds_read_b32 v2, v6\ns_waitcnt lgkmcnt(0)\n{s_barrier}\nds_write_b8 v5, v0",
			1, errSharedRace},
		{"sums", "ds_add_u32 v4, v0", 1, nil},
		{"a sum that is read", "ds_add_u32 v4, v0\ns_waitcnt lgkmcnt(0)\n{s_barrier}\nds_read_b32 v2, v4", 1,
			errSharedRace},
		{"a loop of compare and swap",
			"ds_read_b32 v2, v4\ns_waitcnt lgkmcnt(0)\nds_cmpst_rtn_b32 v7, v4, v2, v0", 1, nil},
		{"compare and swap of what is written",
			"ds_write_b32 v1, v0\ns_waitcnt lgkmcnt(0)\n{s_barrier}\nds_cmpst_rtn_b32 v7, v4, v0, v0", 1,
			errSharedRace},
		{"a word that another wave swaps",
			"ds_cmpst_rtn_b32 v7, v4, v0, v0\ns_waitcnt lgkmcnt(0)\n{s_barrier}\nds_read2_b32 v[8:9], v4 " +
				"offset1:1", 1, errSharedRace},
		{"a wave that has ended", "s_cmp_eq_u32 s10, 0\ns_cbranch_scc1 1\ns_branch 1\ns_barrier\ns_nop 0", 1,
			nil},
		{"both groups read", "global_load_dword v2, v1, s[6:7]", 2, nil},
		{"both groups write", "global_store_dword v1, v0, s[6:7]\n{}", 2, errRace},
		{"what another group wrote",
			"s_lshl_b32 s11, s8, 9\nv_add_u32_e32 v8, s11, v1\nglobal_store_dword v8, v0, " +
				"s[6:7]\n{s_endpgm}\nglobal_load_dword v2, v1, s[6:7]", 2, errRace},
		{"what another group read",
			"s_lshl_b32 s11, s8, 9\nv_add_u32_e32 v8, s11, v1\nglobal_load_dword v2, v1, " +
				"s[6:7]\n{s_endpgm}\nglobal_store_dword v8, v0, s[6:7]", 2, errRace},
	} {
		t.Run(test.name, func(t *testing.T) {
			const start = begin + `
				v_lshrrev_b32_e32 v2, 6, v0
				v_readfirstlane_b32 s10, v2
				v_xad_u32 v3, v1, 0x100, 0
				v_mov_b32_e32 v4, 0
				v_and_b32_e32 v5, 63, v0
				v_lshlrev_b32_e32 v5, 1, v5
				v_add_u32_e32 v5, s10, v5
				v_and_b32_e32 v6, 0xfc, v5
				s_nop 4
			`
			run := func(code string) error {
				for _, contrary := range []bool{false, true} {
					l := program(t, "gfx90a", start+code)
					l.Threads, l.Groups[0], l.Contrary = 128, test.groups, contrary
					if _, err := l.Run(); err != nil {
						return err
					}
				}
				return nil
			}
			before, rest, _ := strings.Cut(test.code, "{")
			middle, after, made := strings.Cut(rest, "}")
			require.ErrorIs(t, run(before+after), test.want)
			if made && middle != "" {
				require.NoError(t, run(before+middle+after))
			}
		})
	}
}

// TestReadOnly also has a loop that does not end.
func TestReadOnly(t *testing.T) {
	l := program(t, "gfx90a", begin+"global_store_dword v1, v0, s[6:7]")
	l.Memory[0].Writable = false
	require.ErrorContains(t, err2(l.Run()), "lane 0: writes a buffer")
	require.ErrorIs(t, err2(program(t, "gfx90a", "s_branch 65535").Run()), errEndless)
	l = program(t, "gfx90a", "")
	l.Threads = 256
	require.ErrorContains(t, err2(l.Run()), "256 threads")
}
