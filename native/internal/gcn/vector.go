package gcn

import (
	"math"
	"math/bits"
)

func init() {
	register(vectorOperations)
	for name, test := range comparisons {
		register(map[string]operation{
			"v_cmp_" + name:  compareLanes(test),
			"v_cmpx_" + name: compareExec(test),
		})
	}
}

// vectorOperations are those on a register of each lane.
var vectorOperations = map[string]operation{
	"v_mov_b32":       vector1(func(a uint32) uint32 { return a }),
	"v_not_b32":       vector1(func(a uint32) uint32 { return ^a }),
	"v_cvt_f32_u32":   vector1(func(a uint32) uint32 { return math.Float32bits(float32(a)) }),
	"v_cvt_f32_i32":   vector1(func(a uint32) uint32 { return math.Float32bits(float32(int32(a))) }),
	"v_cvt_u32_f32":   vector1(func(a uint32) uint32 { return toUint(float(a)) }),
	"v_rcp_iflag_f32": transcendental(func(a float32) float64 { return 1 / float64(a) }),
	"v_rcp_f32":       transcendental(func(a float32) float64 { return 1 / float64(a) }),
	"v_exp_f32":       transcendental(func(a float32) float64 { return math.Exp2(float64(a)) }),

	"v_add_u32":          vector2(func(a, b uint32) uint32 { return a + b }),
	"v_add_nc_u32":       vector2(func(a, b uint32) uint32 { return a + b }),
	"v_sub_u32":          vector2(func(a, b uint32) uint32 { return a - b }),
	"v_sub_nc_u32":       vector2(func(a, b uint32) uint32 { return a - b }),
	"v_sub_u32 clamp":    vector2(func(a, b uint32) uint32 { return a - min(a, b) }),
	"v_sub_nc_u32 clamp": vector2(func(a, b uint32) uint32 { return a - min(a, b) }),
	"v_subrev_u32":       vector2(func(a, b uint32) uint32 { return b - a }),
	"v_subrev_nc_u32":    vector2(func(a, b uint32) uint32 { return b - a }),
	"v_mul_lo_u32":       vector2(func(a, b uint32) uint32 { return a * b }),
	"v_mul_hi_u32":       vector2(func(a, b uint32) uint32 { return uint32(uint64(a) * uint64(b) >> 32) }),
	"v_mul_u32_u24":      vector2(func(a, b uint32) uint32 { return a & 0xffffff * (b & 0xffffff) }),
	"v_mul_i32_i24": vector2(func(a,
		b uint32) uint32 {
		return uint32(int32(a<<8) >> 8 * (int32(b<<8) >> 8))
	}),
	"v_min_u32":     vector2(func(a, b uint32) uint32 { return min(a, b) }),
	"v_max_u32":     vector2(func(a, b uint32) uint32 { return max(a, b) }),
	"v_and_b32":     vector2(func(a, b uint32) uint32 { return a & b }),
	"v_xor_b32":     vector2(func(a, b uint32) uint32 { return a ^ b }),
	"v_or_b32":      vector2(func(a, b uint32) uint32 { return a | b }),
	"v_lshlrev_b32": vector2(func(a, b uint32) uint32 { return b << (a & 31) }),
	"v_lshrrev_b32": vector2(func(a, b uint32) uint32 { return b >> (a & 31) }),
	"v_add_f32":     vector2(func(a, b uint32) uint32 { return math.Float32bits(float(a) + float(b)) }),
	"v_sub_f32":     vector2(func(a, b uint32) uint32 { return math.Float32bits(float(a) - float(b)) }),
	"v_mul_f32":     vector2(func(a, b uint32) uint32 { return math.Float32bits(float(a) * float(b)) }),

	"v_add3_u32":     vector3(func(a, b, c uint32) uint32 { return a + b + c }),
	"v_or3_b32":      vector3(func(a, b, c uint32) uint32 { return a | b | c }),
	"v_and_or_b32":   vector3(func(a, b, c uint32) uint32 { return a&b | c }),
	"v_med3_u32":     vector3(func(a, b, c uint32) uint32 { return max(min(a, b), min(max(a, b), c)) }),
	"v_bfi_b32":      vector3(func(a, b, c uint32) uint32 { return a&b | c&^a }),
	"v_xad_u32":      vector3(func(a, b, c uint32) uint32 { return a ^ b + c }),
	"v_lshl_add_u32": vector3(func(a, b, c uint32) uint32 { return a<<(b&31) + c }),
	"v_lshl_or_b32":  vector3(func(a, b, c uint32) uint32 { return a<<(b&31) | c }),
	"v_add_lshl_u32": vector3(func(a, b, c uint32) uint32 { return (a + b) << (c & 31) }),
	"v_lerp_u8":      vector3(averages),
	"v_bfe_u32":      vector3(func(a, b, c uint32) uint32 { return a >> (b & 31) & (1<<(c&31) - 1) }),
	"v_bfe_i32":      vector3(func(a, b, c uint32) uint32 { return signedField(a, b, c&31) }),
	"v_mad_u32_u24":  vector3(func(a, b, c uint32) uint32 { return a&0xffffff*(b&0xffffff) + c }),
	"v_mad_i32_i24": vector3(func(a, b, c uint32) uint32 {
		return uint32(int32(a<<8)>>8*(int32(b<<8)>>8)) +
			c
	}),
	"v_fmaak_f32": vector3(fusedMultiplyAdd),
	"v_fmamk_f32": vector3(fusedMultiplyAdd),
	"v_fma_f32":   vector3(fusedMultiplyAdd),
	"v_fmac_f32":  accumulate(fusedMultiplyAdd),

	"v_mov_b64":      wide(1, func(a, _, _ uint64) uint64 { return a }),
	"v_lshlrev_b64":  wide(2, func(a, b, _ uint64) uint64 { return b << (a & 63) }),
	"v_lshl_add_u64": wide(3, func(a, b, c uint64) uint64 { return a<<(b&7) + c }),

	"v_mad_u64_u32":   {unit: valu, dsts: 2, srcs: 3, run: multiplyAdd64},
	"v_add_co_u32":    {unit: valu, dsts: 2, srcs: 2, run: addCarry},
	"v_addc_co_u32":   {unit: valu, dsts: 2, srcs: 3, run: addCarry},
	"v_add_co_ci_u32": {unit: valu, dsts: 2, srcs: 3, run: addCarry},
	"v_cndmask_b32":   {unit: valu, dsts: 1, srcs: 3, run: choose},

	"v_readfirstlane_b32": {unit: valu, dsts: 1, srcs: 1, run: readFirstLane},
	"v_readlane_b32":      {unit: valu, dsts: 1, srcs: 2, run: readLane},
	"v_writelane_b32":     {unit: valu, dsts: 1, srcs: 2, readsDst: true, run: writeLane},
	"v_mbcnt_lo_u32_b32":  {unit: valu, dsts: 1, srcs: 2, run: countBelow(0)},
	"v_mbcnt_hi_u32_b32":  {unit: valu, dsts: 1, srcs: 2, run: countBelow(32)},

	"v_pk_add_f32": packed(2, func(a, b, _ uint32) uint32 { return math.Float32bits(float(a) + float(b)) }),
	"v_pk_mul_f32": packed(2, func(a, b, _ uint32) uint32 { return math.Float32bits(float(a) * float(b)) }),
	"v_pk_fma_f32": packed(3, func(a, b, c uint32) uint32 {
		return math.Float32bits(fma32(float(a), float(b),
			float(c)))
	}),
	"v_pk_mov_b32": {unit: valu, dsts: 1, srcs: 2, packed: true, run: packedMove},
}

// averages returns half of the sum of each byte, rounded up if c is odd.
func averages(a, b, c uint32) (d uint32) {
	for at := 0; at < 32; at += 8 {
		d |= (a>>at&0xff + b>>at&0xff + c>>at&1) >> 1 << at
	}
	return d
}

func fusedMultiplyAdd(a, b, c uint32) uint32 {
	return math.Float32bits(fma32(float(a), float(b), float(c)))
}

// comparisons are those of v_cmp and v_cmpx, on 64 bits. A type uses its own bits.
var comparisons = map[string]func(a, b uint64) bool{
	"eq_u32":  func(a, b uint64) bool { return low(a) == low(b) },
	"ne_u32":  func(a, b uint64) bool { return low(a) != low(b) },
	"lt_u32":  func(a, b uint64) bool { return low(a) < low(b) },
	"le_u32":  func(a, b uint64) bool { return low(a) <= low(b) },
	"gt_u32":  func(a, b uint64) bool { return low(a) > low(b) },
	"ge_u32":  func(a, b uint64) bool { return low(a) >= low(b) },
	"lt_i32":  func(a, b uint64) bool { return int32(a) < int32(b) },
	"le_u64":  func(a, b uint64) bool { return a <= b },
	"gt_u64":  func(a, b uint64) bool { return a > b },
	"ge_u64":  func(a, b uint64) bool { return a >= b },
	"lt_u64":  func(a, b uint64) bool { return a < b },
	"lt_f32":  func(a, b uint64) bool { return float(uint32(a)) < float(uint32(b)) },
	"gt_f32":  func(a, b uint64) bool { return float(uint32(a)) > float(uint32(b)) },
	"o_f32":   func(a, b uint64) bool { return ordered2(a, b) },
	"u_f32":   func(a, b uint64) bool { return !ordered2(a, b) },
	"nge_f32": func(a, b uint64) bool { return !(float(uint32(a)) >= float(uint32(b))) },
	"ngt_f32": func(a, b uint64) bool { return !(float(uint32(a)) > float(uint32(b))) },
	"neq_f32": func(a, b uint64) bool { return !(float(uint32(a)) == float(uint32(b))) },
}

// ordered2 reports that neither number is NaN.
func ordered2(a, b uint64) bool {
	x, y := float(uint32(a)), float(uint32(b))
	return x == x && y == y
}

// vector1, vector2 and vector3 are operations with that many sources of 32 bits.
func vector1(f func(a uint32) uint32) operation {
	return operation{unit: valu, dsts: 1, srcs: 1, run: func(w *wave, in *instruction) {
		a, d := w.lanes(&in.src[0], 0, 0), w.dst(in, 0)
		w.each(func(l int) { d[l] = f(a[l]) })
	}}
}

func vector2(f func(a, b uint32) uint32) operation {
	return operation{unit: valu, dsts: 1, srcs: 2, run: func(w *wave, in *instruction) {
		a, b, d := w.lanes(&in.src[0], 0, 0), w.lanes(&in.src[1], 0, 1), w.dst(in, 0)
		if mask := w.exec(); mask != w.all() {
			for ; mask != 0; mask &= mask - 1 {
				l := bits.TrailingZeros64(mask) & 63
				d[l] = f(a[l], b[l])
			}
			return
		}
		for l := range w.width & 127 {
			d[l&63] = f(a[l&63], b[l&63])
		}
	}}
}

func vector3(f func(a, b, c uint32) uint32) operation {
	return operation{unit: valu, dsts: 1, srcs: 3, run: func(w *wave, in *instruction) {
		w.lanes3(f, w.lanes(&in.src[0], 0, 0), w.lanes(&in.src[1], 0, 1), w.lanes(&in.src[2], 0, 2),
			w.dst(in, 0))
	}}
}

// accumulate is an operation whose third source is its destination.
func accumulate(f func(a, b, d uint32) uint32) operation {
	return operation{unit: valu, dsts: 1, srcs: 2, readsDst: true, run: func(w *wave, in *instruction) {
		d := w.dst(in, 0)
		w.lanes3(f, w.lanes(&in.src[0], 0, 0), w.lanes(&in.src[1], 0, 1), d, d)
	}}
}

func (w *wave) lanes3(f func(a, b, c uint32) uint32, a, b, c, d *lanesOf) {
	w.each(func(l int) { d[l] = f(a[l], b[l], c[l]) })
}

// transcendental is a function that the hardware computes to less than one unit in the last place, which
// leaves one or two possible numbers. Subnormal arguments and results are 0.
func transcendental(f func(a float32) float64) operation {
	return operation{unit: valu, dsts: 1, srcs: 1, trans: true, run: func(w *wave, in *instruction) {
		a, d := w.lanes(&in.src[0], 0, 0), w.dst(in, 0)
		up := w.group.launch.Contrary
		w.each(func(l int) { d[l] = flush(math.Float32bits(roundTo(f(float(flush(a[l]))), up))) })
	}}
}

// wide is a 64-bit operation.
func wide(srcs int, f func(a, b, c uint64) uint64) operation {
	return operation{unit: valu, dsts: 1, srcs: srcs, run: func(w *wave, in *instruction) {
		var s [3][2]*lanesOf
		for i := range 3 {
			o := &in.src[min(i, srcs-1)]
			s[i] = [2]*lanesOf{w.lanes(o, 0, 2*i), w.highLanes(o, 2*i+1)}
		}
		d0, d1 := w.dst(in, 0), w.dst(in, 1)
		at := func(i, l int) uint64 { return uint64(s[i][0][l]) | uint64(s[i][1][l])<<32 }
		w.each(func(l int) {
			value := f(at(0, l), at(1, l), at(2, l))
			d0[l], d1[l] = uint32(value), uint32(value>>32)
		})
	}}
}

// highLanes returns the high word of a source, or 0 if it has none.
func (w *wave) highLanes(o *operand, place int) *lanesOf {
	if (o.kind == vector || o.kind == scalar) && o.count == 1 {
		w.scratch[place] = lanesOf{}
		return &w.scratch[place]
	}
	return w.lanes(o, 1, place)
}

func multiplyAdd64(w *wave, in *instruction) {
	a, b := w.lanes(&in.src[0], 0, 0), w.lanes(&in.src[1], 0, 1)
	c0, c1 := w.lanes(&in.src[2], 0, 2), w.highLanes(&in.src[2], 3)
	d0, d1 := w.dst(in, 0), w.dst(in, 1)
	carries := uint64(0)
	w.each(func(l int) {
		value, carry := bits.Add64(uint64(a[l])*uint64(b[l]), uint64(c0[l])|uint64(c1[l])<<32, 0)
		d0[l], d1[l] = uint32(value), uint32(value>>32)
		carries |= carry << l
	})
	w.setScalar(&in.dst[1], carries)
}

// addCarry adds a carry, if it has a third source.
func addCarry(w *wave, in *instruction) {
	a, b, d := w.lanes(&in.src[0], 0, 0), w.lanes(&in.src[1], 0, 1), w.dst(in, 0)
	carries, result := uint64(0), uint64(0)
	if len(in.src) == 3 {
		carries = w.scalar(&in.src[2])
	}
	w.each(func(l int) {
		sum := uint64(a[l]) + uint64(b[l]) + carries>>l&1
		d[l] = uint32(sum)
		result |= sum >> 32 << l
	})
	w.setScalar(&in.dst[1], result)
}

func choose(w *wave, in *instruction) {
	a, b, d := w.lanes(&in.src[0], 0, 0), w.lanes(&in.src[1], 0, 1), w.dst(in, 0)
	mask := w.scalar(&in.src[2])
	w.each(func(l int) {
		if mask>>l&1 != 0 {
			d[l] = b[l]
		} else {
			d[l] = a[l]
		}
	})
}

// compareMask returns a bit for each lane that takes part and passes.
func compareMask(w *wave, in *instruction, test func(a, b uint64) bool) (mask uint64) {
	a, b := w.lanes(&in.src[0], 0, 0), w.lanes(&in.src[1], 0, 1)
	if in.src[0].count < 2 && in.src[1].count < 2 {
		w.each(func(l int) { mask |= bit(test(uint64(a[l]), uint64(b[l]))) << l })
		return mask
	}
	a1, b1 := w.highLanes(&in.src[0], 2), w.highLanes(&in.src[1], 3)
	w.each(func(l int) {
		mask |= bit(test(uint64(a[l])|uint64(a1[l])<<32, uint64(b[l])|uint64(b1[l])<<32)) << l
	})
	return mask
}

func compareLanes(test func(a, b uint64) bool) operation {
	return operation{unit: valu, dsts: 1, srcs: 2, run: func(w *wave, in *instruction) {
		w.setScalar(&in.dst[0], compareMask(w, in, test))
	}}
}

// compareExec is v_cmpx of RDNA, which has no other destination.
func compareExec(test func(a, b uint64) bool) operation {
	return operation{unit: valu, srcs: 2, alsoWrites: []span{execSpan}, run: func(w *wave, in *instruction) {
		w.setMask(execReg, compareMask(w, in, test))
	}}
}

func readFirstLane(w *wave, in *instruction) {
	lane := 0 // if no lane takes part
	if mask := w.exec(); mask != 0 {
		lane = bits.TrailingZeros64(mask)
	}
	w.setScalar(&in.dst[0], uint64(w.lanes(&in.src[0], 0, 0)[lane]))
}

func readLane(w *wave, in *instruction) {
	lane := int(w.scalar(&in.src[1])) & (w.width - 1)
	w.setScalar(&in.dst[0], uint64(w.lanes(&in.src[0], 0, 0)[lane]))
}

// writeLane preserves the other lanes, whether they take part or not.
func writeLane(w *wave, in *instruction) {
	lane := int(w.scalar(&in.src[1])) & (w.width - 1)
	w.dst(in, 0)[lane] = uint32(w.scalar(&in.src[0]))
}

// countBelow adds the number of bits of a mask for lower lanes, among 32 from the first on.
func countBelow(first int) func(*wave, *instruction) {
	return func(w *wave, in *instruction) {
		a, b, d := w.lanes(&in.src[0], 0, 0), w.lanes(&in.src[1], 0, 1), w.dst(in, 0)
		w.each(func(l int) {
			below := uint32(1)<<min(max(l-first, 0), 32) - 1
			d[l] = uint32(bits.OnesCount32(a[l]&below)) + b[l]
		})
	}
}

// packed does two 32-bit operations, each with the words that op_sel and op_sel_hi select.
func packed(srcs int, f func(a, b, c uint32) uint32) operation {
	return operation{unit: valu, dsts: 1, srcs: srcs, packed: true, run: func(w *wave, in *instruction) {
		var s [2][3]*lanesOf
		for i := range 3 {
			o, j := &in.src[min(i, srcs-1)], min(i, srcs-1)
			s[0][i] = w.lanes(o, int(in.opSel>>j&1), i)
			s[1][i] = w.lanes(o, int(^in.opLow>>j&1), 3+i)
		}
		d0, d1 := w.dst(in, 0), w.dst(in, 1)
		w.each(func(l int) {
			first := f(s[0][0][l], s[0][1][l], s[0][2][l])
			d0[l], d1[l] = first, f(s[1][0][l], s[1][1][l], s[1][2][l])
		})
	}}
}

func packedMove(w *wave, in *instruction) {
	a, b := w.lanes(&in.src[0], int(in.opSel&1), 0), w.lanes(&in.src[1], int(in.opSel>>1&1), 1)
	d0, d1 := w.dst(in, 0), w.dst(in, 1)
	w.each(func(l int) { d0[l], d1[l] = a[l], b[l] })
}
