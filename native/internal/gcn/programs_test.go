package gcn

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/codeobject"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/planner/element"
)

// program makes a kernel from lines of assembly with one buffer of 4096 bytes, whose address is in s[4:5].
// Lane l has l in v0; lanes of a second wave count from 64, or 32.
func program(t *testing.T, name, code string) *Launch {
	t.Helper()
	k := &Kernel{Name: "test", arch: arches[name], arguments: 4, firstGroup: 8, groupIDs: [3]bool{true, true},
		meta: codeobject.Kernel{VGPRs: 128, AGPRs: 64, SGPRs: 32, LDS: 1024, WaveSize: 64, MaxThreads: 128,
			KernargBytes: 8}}
	if k.arch.stores {
		k.meta.WaveSize = 32
	}
	for line := range strings.Lines(code + "\ns_endpgm") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		op, rest, _ := strings.Cut(line, " ")
		in, err := k.instruction(op, rest)
		require.NoError(t, err, line)
		in.address, in.text = uint64(4*len(k.code)), line
		k.code = append(k.code, in)
	}
	require.NoError(t, k.link())
	b := &Buffer{Name: "a buffer", Address: 0x3_ffff_f800, Data: make([]byte, 4096), Writable: true}
	for i := range 1024 {
		binary.LittleEndian.PutUint32(b.Data[4*i:], uint32(i))
	}
	return &Launch{Kernel: k, Groups: [2]int{1, 1}, Threads: k.meta.WaveSize, Arguments: []uint64{b.Address},
		Memory: []*Buffer{b}}
}

// begin puts the buffer's address in s[6:7] and 4 times the lane in v1.
const begin = `
	s_load_dwordx2 s[6:7], s[4:5], 0x0
	v_lshlrev_b32_e32 v1, 2, v0
	s_waitcnt lgkmcnt(0)
`

// TestResults runs instructions and reads what they store from v10.
func TestResults(t *testing.T) {
	for _, test := range []struct {
		name, arch, code string
		want             func(l uint32) uint32
	}{
		{"lanes that do not take part keep theirs", "gfx90a", `
			v_mov_b32_e32 v10, 7
			v_cmp_gt_u32_e32 vcc, 5, v0
			s_and_saveexec_b64 s[10:11], vcc
			v_mov_b32_e32 v10, v0
			s_or_b64 exec, exec, s[10:11]`, func(l uint32) uint32 {
			if l < 5 {
				return l
			}
			return 7
		}},
		{"carries", "gfx90a", `
			v_mov_b32_e32 v2, 0xfffffff0
			v_add_co_u32_e32 v3, vcc, v0, v2
			v_addc_co_u32_e32 v10, vcc, 0, v0, vcc`, func(l uint32) uint32 { return l + b(l >= 16) }},
		{"a product of 64 bits and a sum", "gfx908", `
			v_mov_b32_e32 v2, -1
			v_mov_b32_e32 v3, 3
			v_mad_u64_u32 v[4:5], s[10:11], v2, v0, v[2:3]
			v_add_u32_e32 v10, v4, v5`, func(l uint32) uint32 {
			x := uint64(0xffffffff)*uint64(l) + 3<<32 + 0xffffffff
			return uint32(x) + uint32(x>>32)
		}},
		{"no carry out", "gfx1030", `
			v_mov_b32 v2, 5
			v_mad_u64_u32 v[10:11], null, v2, v0, 7`, func(l uint32) uint32 { return 5*l + 7 }},
		{"packed with words swapped", "gfx90a", `
			v_cvt_f32_u32_e32 v2, v0
			v_mov_b32_e32 v3, 2.0
			v_mov_b32_e32 v4, 1.0
			v_mov_b32_e32 v5, 4.0
			v_mov_b32_e32 v6, 0
			v_mov_b32_e32 v7, 0.5
			v_pk_fma_f32 v[8:9], v[2:3], v[4:5], v[6:7] op_sel:[0,1,1] op_sel_hi:[1,0,0]
			v_add_f32_e32 v8, v8, v9
			v_cvt_u32_f32_e32 v10, v8`, func(l uint32) uint32 { return uint32(float32(l)*4 + 0.5 + 2) }},
		{"moves of two words", "gfx90a", `
			v_mov_b32_e32 v3, 9
			v_mov_b32_e32 v2, v0
			v_pk_mov_b32 v[10:11], v[2:3], v[2:3] op_sel:[1,0]
			v_add_u32_e32 v10, v10, v11`, func(l uint32) uint32 { return 9 + l }},
		{"parts of registers", "gfx908", `
			v_mov_b32_e32 v2, 0x12345678
			v_add_u32_sdwa v3, v0, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:DWORD src1_sel:BYTE_1
			v_add_u32_sdwa v10, v3, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:DWORD src1_sel:WORD_1`,
			func(l uint32) uint32 { return l + 0x56 + 0x1234 }},
		{"a part that is written", "gfx908", `
			v_mov_b32_e32 v10, 0x12345678
			v_add_u32_sdwa v10, v0, v0 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD src1_sel:DWORD
			`,
			func(l uint32) uint32 { return 0x12340078 | 2*l<<8 }},
		{"a part that is written, and zeros", "gfx908", `
			v_mov_b32_e32 v10, 0x12345678
			v_or_b32_sdwa v10, v0, v10 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:BYTE_0 src1_sel:BYTE_3`,
			func(l uint32) uint32 { return (l&0xff | 0x12) << 16 }},
		{"two operations that exchange", "gfx1100", `
			v_dual_mov_b32 v2, v0 :: v_dual_mov_b32 v3, 7
			v_dual_mov_b32 v2, v3 :: v_dual_mov_b32 v3, v2
			v_lshl_or_b32 v10, v3, 8, v2`, func(l uint32) uint32 { return l<<8 | 7 }},
		{"lanes below", "gfx90a", `
			v_mbcnt_lo_u32_b32 v2, -1, 0
			v_mbcnt_hi_u32_b32 v10, 0xff, v2`, func(l uint32) uint32 { return min(l, 40) }},
		{"saturation", "gfx1030", "v_sub_nc_u32_e64 v10, v0, 20 clamp",
			func(l uint32) uint32 { return l - min(l, 20) }},
		{"the lane that a register says", "gfx1100", `
			s_mov_b32 s10, 0xf0
			s_ctz_i32_b32 s11, s10
			v_readlane_b32 s12, v1, s11
			s_bitset0_b32 s12, 4
			v_mov_b32_e32 v10, s12`, func(uint32) uint32 { return 0 }},
		{"modifiers of floats", "gfx90a", `
			v_cvt_f32_u32_e32 v2, v0
			v_mul_f32_e64 v2, -v2, |v2|
			v_fma_f32 v3, -v2, 1.0, 0.5
			v_cvt_u32_f32_e32 v10, v3`, func(l uint32) uint32 { return l * l }},
		{"signed numbers", "gfx90a", `
			v_subrev_u32_e32 v2, 40, v0
			v_cvt_f32_i32_e32 v2, v2
			v_add_f32_e32 v2, 0x42200000, v2
			v_cvt_u32_f32_e32 v10, v2`, func(l uint32) uint32 { return l }},
		{"the one in the middle", "gfx90a", "v_med3_u32 v10, 40, v0, 20",
			func(l uint32) uint32 { return min(max(l, 20), 40) }},
		{"negative steps", "gfx908", `
			v_mov_b32_e32 v2, 0xffffff70
			v_mul_i32_i24_e32 v10, v2, v0`, func(l uint32) uint32 { return -(144 * l) }},
		{"shared memory in two places", "gfx90a", `
			v_mov_b32_e32 v3, 5
			ds_write2st64_b32 v1, v0, v3 offset1:1
			s_waitcnt lgkmcnt(0)
			ds_read2_b32 v[4:5], v1 offset1:64
			s_waitcnt lgkmcnt(0)
			v_add_u32_e32 v10, v4, v5`, func(l uint32) uint32 { return l + 5 }},
		{"compare and swap", "gfx90a", `
			v_mov_b32_e32 v3, 0
			v_mov_b32_e32 v4, 17
			v_mov_b32_e32 v2, 100
			ds_write_b32 v3, v4
			ds_cmpst_rtn_b32 v5, v3, v0, v2
			s_waitcnt lgkmcnt(0)
			ds_read_b32 v6, v3
			s_waitcnt lgkmcnt(0)
			v_add_u32_e32 v10, v5, v6`, func(l uint32) uint32 { return 100 + 17 + b(l > 17)*83 }},
		{"compare and swap, the other way round", "gfx1100", `
			v_mov_b32_e32 v3, 0
			v_mov_b32_e32 v4, 17
			v_mov_b32_e32 v2, 100
			ds_store_b32 v3, v4
			ds_cmpstore_rtn_b32 v5, v3, v2, v0
			s_waitcnt lgkmcnt(0)
			v_mov_b32_e32 v10, v5`, func(l uint32) uint32 { return 17 + b(l > 17)*83 }},
		{"bytes", "gfx1030", `
			v_mov_b32_e32 v2, 0x1ff
			v_mov_b32_e32 v3, 0
			ds_write_b32 v1, v3
			ds_write_b8 v1, v2 offset:1
			ds_read_b32 v4, v1
			s_waitcnt lgkmcnt(0)
			v_mov_b32_e32 v10, v4`, func(uint32) uint32 { return 0xff00 }},
		{"numbers of 16 bits", "gfx90a", `
			v_lshlrev_b32_e32 v2, 2, v0
			v_cvt_f32_u32_e32 v2, v2
			v_cvt_f16_f32_e32 v3, v2
			v_mov_b32_e32 v4, 0x3800
			v_pack_b32_f16 v5, v4, v3
			v_fma_mix_f32 v6, v5, v5, 2.0 op_sel:[1,0,0] op_sel_hi:[1,1,0]
			v_cvt_u32_f32_e32 v10, v6`, func(l uint32) uint32 { return 2*l + 2 }},
		{"halves of registers", "gfx90a", `
			v_cvt_f32_u32_e32 v2, v0
			v_mov_b32_e32 v3, -1
			v_fma_mixlo_f16 v3, v2, 2.0, 0
			v_lshlrev_b32_e32 v4, 16, v3
			global_store_short_d16_hi v1, v4, s[6:7] offset:2048
			s_waitcnt vmcnt(0)
			global_load_ushort v5, v1, s[6:7] offset:2048
			s_waitcnt vmcnt(0)
			v_cvt_f32_f16_e32 v6, v5
			v_cvt_u32_f32_e32 v7, v6
			v_lshrrev_b32_e32 v8, 16, v3
			v_lshl_or_b32 v10, v8, 16, v7`, func(l uint32) uint32 { return 0xffff0000 | 2*l }},
		{"halves that are kept", "gfx1030", `
			v_mov_b32 v10, 0x10000
			v_cvt_f16_f32 v10, 1.0`, func(uint32) uint32 { return 0x13c00 }},
		{"halves that are not kept", "gfx90a", `
			v_mov_b32_e32 v10, 0x10000
			v_cvt_f16_f32_e32 v10, 1.0`, func(uint32) uint32 { return 0x3c00 }},
		{"signed fields and single lanes", "gfx90a", `
			s_movk_i32 s10, 0x1f0
			s_bfe_i32 s11, s10, 0x40004
			s_mulk_i32 s11, 0xfff9
			v_bfe_i32 v2, v0, 0, 1
			v_sub_u32_e32 v10, 0, v2
			v_writelane_b32 v10, s11, 3`, func(l uint32) uint32 {
			if l == 3 {
				return 7
			}
			return l & 1
		}},
		{"bytes of two registers", "gfx1030", `
			v_mov_b32 v2, 0x7060302
			v_mov_b32 v3, 0x8899aabb
			v_perm_b32 v4, v3, v0, v2
			v_mov_b32 v2, 0xc0d0004
			v_perm_b32 v5, v3, v0, v2
			v_lshl_add_u32 v10, v4, 8, v5`, func(l uint32) uint32 { return 0x99ff00bb + l<<8 }},
		{"halves of words in memory", "gfx90a", `
			global_store_short v1, v0, s[6:7] offset:2050
			s_waitcnt vmcnt(0)
			global_load_ushort v3, v1, s[6:7] offset:2050
			s_waitcnt vmcnt(0)
			v_mov_b32_e32 v10, v3`, func(l uint32) uint32 { return l }},
		{"low halves", "gfx90a", `
			v_mov_b32_e32 v10, -1
			v_lshlrev_b16_e32 v10, 12, v0`, func(l uint32) uint32 { return l << 12 & 0xffff }},
		{"low halves beside others", "gfx1100", `
			v_mov_b32_e32 v10, 0xabcd0000
			v_lshlrev_b16 v10, 8, v0`, func(l uint32) uint32 { return 0xabcd0000 | l<<8&0xffff }},
		{"floats that are not greater", "gfx90a", `
			v_cvt_f32_u32_e32 v2, v0
			v_cmp_ngt_f32_e32 vcc, 2.0, v2
			s_nop 4
			v_cndmask_b32_e64 v3, 0, 1, vcc
			v_cmp_nge_f32_e32 vcc, 4.0, v2
			s_nop 4
			v_cndmask_b32_e64 v10, v3, 2, vcc`, func(l uint32) uint32 {
			switch {
			case l > 4:
				return 2
			case l >= 2:
				return 1
			}
			return 0
		}},
		{"halves of sums of bytes", "gfx942", `
			v_mov_b32_e32 v2, 0x807fff01
			v_mov_b32_e32 v3, 0x7f80fe01
			v_lshlrev_b32_e32 v4, 8, v0
			v_lerp_u8 v10, v2, v3, v4`, func(l uint32) uint32 { return 0x7f7ffe01 + l&1<<8 }},
		{"a flat address", "gfx90a", `
			global_store_dword v1, v0, s[6:7] offset:2048
			s_waitcnt vmcnt(0)
			s_add_u32 s10, s6, 2048
			s_addc_u32 s11, s7, 0
			v_mov_b32_e32 v3, s11
			v_add_co_u32_e32 v2, vcc, s10, v1
			v_addc_co_u32_e32 v3, vcc, 0, v3, vcc
			flat_load_dword v10, v[2:3]
			s_waitcnt vmcnt(0) lgkmcnt(0)`, func(l uint32) uint32 { return l }},
		{"functions", "gfx90a", `
			v_cvt_f32_u32_e32 v2, v0
			v_mul_f32_e32 v2, 0.5, v2
			v_min_u32_e32 v2, 0x41200000, v2
			v_exp_f32_e32 v3, v2
			v_rcp_f32_e32 v4, v3
			v_mul_f32_e32 v5, v3, v4
			v_sub_f32_e32 v5, 1.0, v5
			v_mul_f32_e32 v5, 0x49800000, v5
			v_cvt_u32_f32_e32 v5, v5
			v_cvt_u32_f32_e32 v6, v3
			v_add_u32_e32 v10, v5, v6`,
			func(l uint32) uint32 { return uint32(math.Exp2(min(float64(l)/2, 10))) }},
		{"signs", "gfx90a", `
			s_brev_b32 s10, 1
			v_bfi_b32 v10, s10, v0, v1
			v_mad_i32_i24 v10, v0, -3, v10`, func(l uint32) uint32 { return l }},
		{"groups of one and a half", "gfx90a", `
			v_cmp_lt_u32_e64 s[10:11], v0, 3
			s_and_b64 s[10:11], s[10:11], exec
			s_cselect_b32 s12, 5, 6
			s_cmpk_gt_u32 s12, 0x5
			s_addc_u32 s12, s12, 1
			v_mov_b32_e32 v10, s12`, func(uint32) uint32 { return 6 }},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := "global_store_dword v1, v10, s[6:7]"
			load := begin
			if test.arch == "gfx1100" {
				store, load = strings.Replace(store, "dword", "b32", 1),
					strings.Replace(load, "dwordx2", "b64", 1)
			}
			l := program(t, test.arch, load+test.code+"\ns_nop 15\n"+store)
			require.NoError(t, err2(l.Run()))
			for lane := range l.Threads {
				require.Equal(t, test.want(uint32(lane)),
					binary.LittleEndian.Uint32(l.Memory[0].Data[4*lane:]), "lane %d", lane)
			}
		})
	}
}

func b(is bool) uint32 { return uint32(bit(is)) }

func err2(_ int, err error) error { return err }

// TestMatrix compares the layout of matrix cores with a product.
func TestMatrix(t *testing.T) {
	for op, m := range matrices {
		archs := []string{"gfx908", "gfx90a"}
		switch {
		case strings.HasSuffix(op, "_f32"), m.xdl:
			archs = []string{"gfx942"}
		case strings.HasSuffix(op, "_1k"):
			archs = []string{"gfx90a"}
		}
		for _, arch := range archs {
			t.Run(arch+" "+op, func(t *testing.T) { testMatrix(t, arch, op, m) })
		}
	}
}

func testMatrix(t *testing.T, arch, op string, m matrix) {
	t.Helper()
	words, depth, count := 1, 1, m.side*m.side/64
	if m.of != element.F32 {
		words, depth = m.depth*m.of.Bytes()/4, m.depth
	}
	var code strings.Builder
	line := func(format string, values ...any) { fmt.Fprintf(&code, format+"\n", values...) }
	file := "v"
	line("v_lshlrev_b32_e32 v8, 3, v0\nv_lshlrev_b32_e32 v9, 6, v0")
	line("global_load_dwordx2 v[2:3], v8, s[6:7]\nglobal_load_dwordx2 v[4:5], v8, s[6:7] offset:512")
	for i := 0; i < count; i += 4 {
		line("global_load_dwordx4 v[%d:%d], v9, s[6:7] offset:%d", 16+i, 19+i, 1024+4*i)
	}
	line("s_waitcnt vmcnt(0)")
	if arch == "gfx908" {
		file = "a"
		for i := range count {
			line("v_accvgpr_write_b32 a%d, v%d", 16+i, 16+i)
		}
		line("s_nop 4")
	}
	c := fmt.Sprintf("%s[16:%d]", file, 15+count)
	line("%s %s, %s, %s, %s", op, c, vectorText(2, words), vectorText(4, words), c)
	line("s_nop 15\ns_nop 15")
	if arch == "gfx908" {
		for i := range count {
			line("v_accvgpr_read_b32 v%d, a%d", 16+i, 16+i)
		}
		line("s_nop 4")
	}
	for i := 0; i < count; i += 4 {
		line("global_store_dwordx4 v9, v[%d:%d], s[6:7] offset:%d", 16+i, 19+i, 1024+4*i)
	}
	l := program(t, arch, begin+code.String())
	data := make([]byte, 1024+64*64)
	l.Memory[0].Data = data
	factor := func(at int) (x [64][8]float32) {
		for lane := range x {
			for j := range depth {
				x[lane][j] = float32(rand.IntN(17) - 8)
				switch to := data[at+8*lane:]; m.of {
				case element.F32:
					binary.LittleEndian.PutUint32(to, math.Float32bits(x[lane][j]))
				case element.Int8:
					to[j] = byte(int8(x[lane][j]))
				case element.E4M3:
					to[j] = byte(elemtype.Bits(m.of, x[lane][j]))
					x[lane][j] /= 2
				default:
					binary.LittleEndian.PutUint16(to[2*j:], elemtype.Bits(m.of, x[lane][j]))
				}
			}
		}
		return x
	}
	a, b := factor(0), factor(512)
	bits, number := math.Float32bits, float
	if m.of == element.Int8 {
		bits = func(x float32) uint32 { return uint32(int32(x)) }
		number = func(bits uint32) float32 { return float32(int32(bits)) }
	}
	for i := range 64 * 16 {
		binary.LittleEndian.PutUint32(data[1024+4*i:], bits(float32(i)))
	}
	require.NoError(t, err2(l.Run()))
	for row := range m.side {
		for col := range m.side {
			lane, r := row/4%(64/m.side)*m.side+col, row/4/(64/m.side)*4+row%4
			want := float32(16*lane + r)
			for g := range 64 / m.side {
				for j := range depth {
					want += a[g*m.side+row][j] * b[g*m.side+col][j]
				}
			}
			require.Equal(t, want, number(binary.LittleEndian.Uint32(data[1024+64*lane+4*r:])),
				"row %d, column %d", row, col)
		}
	}
}

func vectorText(first, count int) string {
	if count == 1 {
		return fmt.Sprintf("v%d", first)
	}
	return fmt.Sprintf("v[%d:%d]", first, first+count-1)
}

// TestFMA compares fused multiply-adds with exact sums.
func TestFMA(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	number := func() float32 {
		switch rng.IntN(4) {
		case 0: // few bits, so sums are ties
			return float32(math.Ldexp(float64(1+rng.IntN(8)), rng.IntN(60)-30))
		case 1: // subnormal
			return math.Float32frombits(rng.Uint32N(1<<24) | rng.Uint32N(2)<<31)
		}
		return math.Float32frombits(rng.Uint32()&0x81ffffff | uint32(rng.IntN(62)+1)<<25)
	}
	exact := func(a, b, c float32) float32 {
		f := func(x float32) *big.Float { return new(big.Float).SetPrec(1000).SetFloat64(float64(x)) }
		sum := f(a).Mul(f(a), f(b))
		x, _ := sum.Add(sum, f(c)).Float32()
		return x
	}
	for range 300_000 {
		a, b, c := number(), number(), number()
		if rng.IntN(4) == 0 { // half a unit in the last place, and a little
			a, b = c, math.Nextafter32(0x1p-24, float32(rng.IntN(2)))
		}
		if want := exact(a, b, c); want != 0 { // there are two zeros
			require.Equal(t, want, fma32(a, b, c), "%x * %x + %x", a, b, c)
		}
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	require.True(t, math.IsNaN(float64(fma32(inf, 0, 1))))
	require.True(t, math.IsNaN(float64(fma32(nan, 1, 1))))
	require.Equal(t, inf, fma32(inf, 2, -1))
	require.Equal(t, -inf, fma32(math.MaxFloat32, -2, math.MaxFloat32/2))
	require.Equal(t, float32(math.MaxFloat32), fma32(math.MaxFloat32, 2, -math.MaxFloat32))
}

// TestUnknown: an error names what no table has.
func TestUnknown(t *testing.T) {
	_, err := Read([]byte("no code object"))
	require.ErrorContains(t, err, "code object")
	k := program(t, "gfx90a", "").Kernel
	for text, want := range map[string]string{
		"v_frobnicate_b32 v0, v1":             `operation "v_frobnicate_b32" is in no table`,
		"v_mov_b32_dpp v0, v1 quad_perm:[]":   `operation "v_mov_b32_dpp" is in no table`,
		"v_add_f32_e64 v0, v1, v2 mul:2":      "mul:2",
		"v_mov_b32_e32 v128, 0":               "the kernel has no register v128",
		"v_mov_b32_e32 v0":                    "1 operands, not 2",
		"v_add_f32_e64 v0, v1, v2 clamp":      `operation "v_add_f32 clamp" is in no table`,
		"global_load_dword v0, v1, s[0:1] x":  "x",
		"s_waitcnt foo(1)":                    `counter "foo"`,
		"v_fma_f32 v0, v1, v2, v3 op_sel:[1]": "op_sel",
	} {
		op, rest, _ := strings.Cut(text, " ")
		_, err := k.instruction(op, rest)
		require.ErrorContains(t, err, want, text)
	}
}
