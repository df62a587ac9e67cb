package gcn

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOrder runs two workgroups of two waves. Each wave stores, and its first lane counts at the counter of
// its number. Waves of the later workgroup load what another wave of the other one stored. The text in
// braces makes that correct.
func TestOrder(t *testing.T) {
	const (
		store     = "global_store_dword v8, v0, s[6:7]\n"
		storeBack = store + "buffer_wbl2 sc1\ns_waitcnt vmcnt(0)\ns_barrier\n"
		storeWait = store + "s_waitcnt vmcnt(0)\ns_barrier\n"
		storeOnce = store + "s_waitcnt_vscnt null, 0x0\ns_barrier\n"
		count     = "global_atomic_add v4, v2, v3, s[6:7] glc\ns_waitcnt vmcnt(0)\n"
		count942  = "global_atomic_add v4, v2, v3, s[6:7] sc0\ns_waitcnt vmcnt(0)\n"
		load      = "global_load_dword v5, v9, s[6:7]\n"
		loadNew   = "buffer_wbinvl1_vol\n" + load
	)
	for _, test := range []struct{ name, arch, store, count, load string }{
		{"a wait for stores", "gfx90a", store + "{s_waitcnt vmcnt(0)\n}s_barrier\n", count, loadNew},
		{"a wait for stores", "gfx1030", store + "{s_waitcnt_vscnt null, 0x0\n}s_barrier\n", count,
			"buffer_gl1_inv\nbuffer_gl0_inv\n" + load},
		{"a wait for the last store", "gfx90a", store + store +
			"s_waitcnt vmcnt(1)\n{s_waitcnt vmcnt(0)\n}s_barrier\n", count, loadNew},
		{"a barrier", "gfx90a", store + "s_waitcnt vmcnt(0)\n{s_barrier\n}", count, loadNew},
		{"a barrier after the wait", "gfx90a", store + "s_barrier\ns_waitcnt vmcnt(0)\n{s_barrier\n}", count,
			loadNew},
		{"a write-back", "gfx942", store + "{buffer_wbl2 sc1\n}s_waitcnt vmcnt(0)\ns_barrier\n", count942,
			"buffer_inv sc1\n" + load},
		{"a wait for the write-back", "gfx942", store + "buffer_wbl2 sc1\n{s_waitcnt vmcnt(0)\n}s_barrier\n",
			count942, "buffer_inv sc1\n" + load},
		{"a write-back after the store", "gfx942", "buffer_wbl2 sc1\n" + store +
			"{buffer_wbl2 sc1\n}s_waitcnt vmcnt(0)\ns_barrier\n", count942, "buffer_inv sc1\n" + load},
		{"what is told", "gfx90a", storeWait, "v_mov_b32_e32 v4, s8\n{" + count +
			"}global_atomic_add v2, v3, s[6:7] offset:8\ns_waitcnt vmcnt(0)\n", loadNew},
		{"a wait for what is told", "gfx90a", storeWait,
			"global_atomic_add v4, v2, v3, s[6:7] glc\n{s_waitcnt " +
				"vmcnt(0)\n}buffer_wbinvl1_vol\ns_waitcnt vmcnt(0)\n", load},
		{"an emptied cache", "gfx90a", storeWait, count, "{buffer_wbinvl1_vol\n}" + load},
		{"an emptied cache", "gfx942", storeBack, count942, "{buffer_inv sc1\n}" + load},
		{"the nearest cache", "gfx1030", storeOnce, count, "buffer_gl1_inv\n{buffer_gl0_inv\n}" + load},
		{"the second cache", "gfx1030", storeOnce, count, "{buffer_gl1_inv\n}buffer_gl0_inv\n" + load},
	} {
		t.Run(test.arch+" "+test.name, func(t *testing.T) {
			code := test.store + "s_mov_b32 exec_lo, 1\n" + test.count + "s_mov_b32 exec_lo, -1\n"
			if test.arch != "gfx1030" {
				code = strings.NewReplacer("exec_lo", "exec", "s_mov_b32", "s_mov_b64").Replace(code)
			}
			before, rest, _ := strings.Cut(code+lastLoads+test.load, "{")
			middle, after, _ := strings.Cut(rest, "}")
			for _, contrary := range []bool{false, true} {
				require.ErrorIs(t, runOrder(t, test.arch, before+after, contrary), errRace)
				require.NoError(t, runOrder(t, test.arch, before+middle+after, contrary))
			}
		})
	}
}

// lastLoads ends waves that counted first at their counter.
const lastLoads = "v_readfirstlane_b32 s12, v4\ns_cmp_eq_u32 s12, 0\ns_cbranch_scc1 1\ns_branch 1\ns_endpgm\n"

// runOrder runs code with the place of a lane in v8, that of another wave of the other workgroup in v9, the
// counter of its wave in v2, and 1 in v3.
func runOrder(t *testing.T, arch, code string, contrary bool) error {
	t.Helper()
	lanes := 64
	if arches[arch].stores {
		lanes = 32
	}
	l := program(t, arch, begin+fmt.Sprintf(`
		s_lshl_b32 s11, s8, 9
		v_add_u32_e32 v8, s11, v1
		v_add_u32_e32 v8, 0x400, v8
		v_xor_b32_e32 v9, %#x, v8
		v_lshrrev_b32_e32 v2, %d, v0
		v_lshlrev_b32_e32 v2, 2, v2
		v_mov_b32_e32 v3, 1
	`, 0x200+4*lanes, lanes/32+4)+code)
	l.Threads, l.Groups[0], l.Contrary = 2*lanes, 2, contrary
	l.Memory[0].Counters = []int{0, 4, 8, 12}
	clear(l.Memory[0].Data[:16])
	return err2(l.Run())
}
