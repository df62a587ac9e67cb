package gcn

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

var (
	execSpan = span{execReg, 2}
	vccSpan  = span{vccReg, 2}
)

func init() { register(scalarOperations) }

// scalarOperations are those on scalar registers, branches, and settings of a wave.
var scalarOperations = map[string]operation{
	"s_mov_b32":  scalar1(func(w *wave, a uint64) uint64 { return a }),
	"s_mov_b64":  scalar1(func(w *wave, a uint64) uint64 { return a }),
	"s_movk_i32": scalar1(func(w *wave, a uint64) uint64 { return uint64(int16(a)) }),
	// The index of the lowest bit that is 1.
	"s_ff1_i32_b32": scalar1(func(w *wave, a uint64) uint64 { return lowest(uint64(uint32(a))) }),
	"s_ctz_i32_b32": scalar1(func(w *wave, a uint64) uint64 { return lowest(uint64(uint32(a))) }),
	"s_brev_b32":    scalar1(func(w *wave, a uint64) uint64 { return uint64(bits.Reverse32(uint32(a))) }),
	"s_ff1_i32_b64": scalar1(func(w *wave, a uint64) uint64 { return lowest(a) }),
	// How many bits are 1.
	"s_bcnt1_i32_b32": scalar1(func(w *wave, a uint64) uint64 { return w.ones(low(a)) }),
	"s_bcnt1_i32_b64": scalar1((*wave).ones),

	"s_and_b32":      logic(func(a, b uint64) uint64 { return a & b }),
	"s_and_b64":      logic(func(a, b uint64) uint64 { return a & b }),
	"s_or_b32":       logic(func(a, b uint64) uint64 { return a | b }),
	"s_or_b64":       logic(func(a, b uint64) uint64 { return a | b }),
	"s_xor_b32":      logic(func(a, b uint64) uint64 { return a ^ b }),
	"s_xor_b64":      logic(func(a, b uint64) uint64 { return a ^ b }),
	"s_andn2_b32":    logic(func(a, b uint64) uint64 { return a &^ b }),
	"s_andn2_b64":    logic(func(a, b uint64) uint64 { return a &^ b }),
	"s_and_not1_b32": logic(func(a, b uint64) uint64 { return a &^ b }),
	"s_orn2_b32":     logic(func(a, b uint64) uint64 { return a | ^b }),
	"s_orn2_b64":     logic(func(a, b uint64) uint64 { return a | ^b }),
	"s_or_not1_b32":  logic(func(a, b uint64) uint64 { return a | ^b }),
	"s_lshl_b32":     logic(func(a, b uint64) uint64 { return uint64(uint32(a) << (b & 31)) }),
	"s_lshl_b64":     logic(func(a, b uint64) uint64 { return a << (b & 63) }),
	"s_lshr_b32":     logic(func(a, b uint64) uint64 { return uint64(uint32(a) >> (b & 31)) }),
	"s_bfe_i32": logic(func(a, b uint64) uint64 {
		return uint64(signedField(uint32(a), uint32(b),
			uint32(b>>16&0x7f)))
	}),
	"s_bfe_u32": logic(func(a,
		b uint64) uint64 {
		return uint64(uint32(a)) >> (b & 31) & (1<<(b>>16&0x7f) - 1)
	}),
	"s_bitset0_b32": reading(scalar1(nil), func(w *wave, d,
		a uint64) uint64 {
		return d &^ (1 << (a & 31))
	}),

	"s_and_saveexec_b32":      saveExec(func(a, exec uint64) uint64 { return a & exec }),
	"s_and_saveexec_b64":      saveExec(func(a, exec uint64) uint64 { return a & exec }),
	"s_or_saveexec_b32":       saveExec(func(a, exec uint64) uint64 { return a | exec }),
	"s_or_saveexec_b64":       saveExec(func(a, exec uint64) uint64 { return a | exec }),
	"s_andn2_saveexec_b32":    saveExec(func(a, exec uint64) uint64 { return a &^ exec }),
	"s_andn2_saveexec_b64":    saveExec(func(a, exec uint64) uint64 { return a &^ exec }),
	"s_and_not1_saveexec_b32": saveExec(func(a, exec uint64) uint64 { return a &^ exec }),

	"s_add_u32": scalar2(func(w *wave, a, b uint64) uint64 { return w.carry(low(a) + low(b)) }),
	"s_addc_u32": scalar2(func(w *wave, a, b uint64) uint64 {
		return w.carry(low(a) + low(b) +
			bit(w.scc))
	}),
	"s_add_i32": scalar2(func(w *wave, a, b uint64) uint64 {
		return w.overflow(int64(int32(a)) +
			int64(int32(b)))
	}),
	"s_sub_i32": scalar2(func(w *wave, a,
		b uint64) uint64 {
		return w.overflow(int64(int32(a)) - int64(int32(b)))
	}),
	"s_addk_i32": reading(scalar1(nil), func(w *wave, d,
		a uint64) uint64 {
		return w.overflow(int64(int32(d)) + int64(int16(a)))
	}),
	"s_mulk_i32": reading(scalar1(nil), func(w *wave, d,
		a uint64) uint64 {
		return uint64(int32(d) * int32(int16(a)))
	}),
	"s_min_u32": scalar2(func(w *wave, a, b uint64) uint64 {
		w.scc = low(a) < low(b)
		return min(low(a), low(b))
	}),
	"s_mul_i32":    scalar2(func(w *wave, a, b uint64) uint64 { return a * b }),
	"s_mul_hi_u32": scalar2(func(w *wave, a, b uint64) uint64 { return low(a) * low(b) >> 32 }),
	"s_cselect_b32": scalar2(func(w *wave, a, b uint64) uint64 {
		if w.scc {
			return a
		}
		return b
	}),
	"s_cselect_b64": scalar2(func(w *wave, a, b uint64) uint64 {
		if w.scc {
			return a
		}
		return b
	}),

	"s_cmp_eq_u32":   compare(func(a, b uint64) bool { return low(a) == low(b) }),
	"s_cmp_lg_u32":   compare(func(a, b uint64) bool { return low(a) != low(b) }),
	"s_cmp_lt_u32":   compare(func(a, b uint64) bool { return low(a) < low(b) }),
	"s_cmp_lt_i32":   compare(func(a, b uint64) bool { return int32(a) < int32(b) }),
	"s_cmp_gt_u32":   compare(func(a, b uint64) bool { return low(a) > low(b) }),
	"s_cmp_ge_u32":   compare(func(a, b uint64) bool { return low(a) >= low(b) }),
	"s_cmp_eq_u64":   compare(func(a, b uint64) bool { return a == b }),
	"s_cmp_lg_u64":   compare(func(a, b uint64) bool { return a != b }),
	"s_cmpk_eq_i32":  compare(func(a, b uint64) bool { return int32(a) == int32(int16(b)) }),
	"s_cmpk_lg_i32":  compare(func(a, b uint64) bool { return int32(a) != int32(int16(b)) }),
	"s_cmpk_lt_u32":  compare(func(a, b uint64) bool { return low(a) < uint64(uint16(b)) }),
	"s_cmpk_gt_u32":  compare(func(a, b uint64) bool { return low(a) > uint64(uint16(b)) }),
	"s_bitcmp0_b32":  compare(func(a, b uint64) bool { return a>>(b&31)&1 == 0 }),
	"s_bitcmp1_b32":  compare(func(a, b uint64) bool { return a>>(b&31)&1 != 0 }),
	"s_branch":       jump(nil, func(w *wave) bool { return true }),
	"s_cbranch_scc0": jump(nil, func(w *wave) bool { return !w.scc }),
	"s_cbranch_scc1": jump(nil, func(w *wave) bool { return w.scc }),
	"s_cbranch_vccz": jump([]span{vccSpan}, func(w *wave) bool { return w.mask(vccReg) == 0 }),
	"s_cbranch_vccnz": jump([]span{vccSpan}, func(w *wave) bool {
		return w.mask(vccReg) != 0
	}),
	"s_cbranch_execz":  jump(nil, func(w *wave) bool { return w.exec() == 0 }),
	"s_cbranch_execnz": jump(nil, func(w *wave) bool { return w.exec() != 0 }),

	"s_endpgm":        {unit: salu, run: func(w *wave, in *instruction) { w.done = true }},
	"s_barrier":       {unit: salu, run: func(w *wave, in *instruction) { w.atBarrier = true }},
	"s_nop":           {unit: salu, srcs: 1, run: nothing},
	"s_waitcnt":       {unit: salu, parse: parseWaits, run: wait},
	"s_waitcnt_vscnt": {unit: salu, parse: parseStores, run: wait},
	// It waits for operations that end at once here; see hazards.go.
	"s_waitcnt_depctr": {unit: salu, srcs: 1, run: nothing},

	// Hints, and operations that only concern other waves.
	"s_clause":                     {unit: salu, srcs: 1, run: nothing},
	"s_delay_alu":                  {unit: salu, parse: parseHint, run: nothing},
	"s_inst_prefetch":              {unit: salu, srcs: 1, run: nothing},
	"s_set_inst_prefetch_distance": {unit: salu, srcs: 1, run: nothing},
	"s_sendmsg":                    {unit: salu, parse: parseMessage, run: nothing},
	"s_code_end":                   {unit: salu, run: nothing}, // padding
}

func nothing(*wave, *instruction) {}

func wait(w *wave, in *instruction) { w.pending.wait(&in.waits) }

func (w *wave) ones(a uint64) uint64 {
	w.scc = a != 0
	return uint64(bits.OnesCount64(a))
}

func low(a uint64) uint64 { return uint64(uint32(a)) }

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// signedField returns n bits of a, from one on. The last is the sign.
func signedField(a, from, n uint32) uint32 {
	n = min(n, 32-from&31)
	if n == 0 {
		return 0
	}
	return uint32(int32(a>>(from&31)<<(32-n)) >> (32 - n))
}

func lowest(a uint64) uint64 {
	if a == 0 {
		return ^uint64(0)
	}
	return uint64(bits.TrailingZeros64(a))
}

func (w *wave) carry(sum uint64) uint64 {
	w.scc = sum>>32 != 0
	return sum
}

func (w *wave) overflow(sum int64) uint64 {
	w.scc = int64(int32(sum)) != sum
	return uint64(sum)
}

// scalar1 and scalar2 are operations with one and two sources. The result has as many words as
// the destination.
func scalar1(f func(w *wave, a uint64) uint64) operation {
	return operation{unit: salu, dsts: 1, srcs: 1, run: func(w *wave, in *instruction) {
		w.setScalar(&in.dst[0], f(w, w.scalar(&in.src[0])))
	}}
}

func scalar2(f func(w *wave, a, b uint64) uint64) operation {
	return operation{unit: salu, dsts: 1, srcs: 2, run: func(w *wave, in *instruction) {
		w.setScalar(&in.dst[0], f(w, w.scalar(&in.src[0]), w.scalar(&in.src[1])))
	}}
}

// reading makes op read its destination too.
func reading(op operation, f func(w *wave, d, a uint64) uint64) operation {
	op.readsDst = true
	op.run = func(w *wave, in *instruction) {
		w.setScalar(&in.dst[0], f(w, w.scalar(&in.dst[0]), w.scalar(&in.src[0])))
	}
	return op
}

// logic is an operation whose scc is set if the result is not 0.
func logic(f func(a, b uint64) uint64) operation {
	return operation{unit: salu, dsts: 1, srcs: 2, run: func(w *wave, in *instruction) {
		value := f(w.scalar(&in.src[0]), w.scalar(&in.src[1]))
		if in.dst[0].count == 1 {
			value = low(value)
		}
		w.scc = value != 0
		w.setScalar(&in.dst[0], value)
	}}
}

// saveExec saves exec and changes it.
func saveExec(f func(a, exec uint64) uint64) operation {
	return operation{unit: salu, dsts: 1, srcs: 1, alsoReads: []span{execSpan}, alsoWrites: []span{execSpan},
		run: func(w *wave, in *instruction) {
			before, a := w.exec(), w.scalar(&in.src[0])
			w.setScalar(&in.dst[0], before)
			exec := f(a, before) & w.all()
			w.setMask(execReg, exec)
			w.scc = exec != 0
		}}
}

func compare(f func(a, b uint64) bool) operation {
	return operation{unit: salu, srcs: 2, run: func(w *wave, in *instruction) {
		w.scc = f(w.scalar(&in.src[0]), w.scalar(&in.src[1]))
	}}
}

func jump(reads []span, taken func(w *wave) bool) operation {
	return operation{unit: branch, srcs: 1, alsoReads: reads, run: func(w *wave, in *instruction) {
		if taken(w) {
			w.next = in.target
		}
	}}
}

// parseWaits decodes text such as "vmcnt(0) lgkmcnt(1)".
func parseWaits(in *instruction, text string) error {
	in.waits = noWait
	for field := range strings.FieldsSeq(strings.ReplaceAll(text, "&", " ")) {
		name, value, _ := strings.Cut(strings.TrimSuffix(field, ")"), "(")
		n, err := strconv.Atoi(value)
		if err != nil {
			return err
		}
		switch name {
		case "vmcnt":
			in.waits[loads] = n
		case "lgkmcnt":
			in.waits[shared] = n
			if in.waits[scalarLoads] = n; n > 0 { // they return in any order
				in.waits[scalarLoads] = noWait[scalarLoads]
			}
		case "expcnt": // for exports, which do not occur
		default:
			return fmt.Errorf("counter %q", name)
		}
	}
	return nil
}

func parseStores(in *instruction, text string) error {
	value, ok := strings.CutPrefix(text, "null, ")
	n, err := number(value)
	if !ok || err != nil {
		return fmt.Errorf("waits for %q", text)
	}
	in.waits = noWait
	in.waits[stores] = int(n)
	return nil
}

func parseHint(*instruction, string) error { return nil }

func parseMessage(_ *instruction, text string) error {
	if text != "sendmsg(MSG_DEALLOC_VGPRS)" { // before the end: releases registers
		return fmt.Errorf("message %q", text)
	}
	return nil
}
