package gcn

import (
	"math"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/planner/element"
)

func init() { register(halfOperations) }

// halfOperations are those on 16-bit numbers, and on pairs of them.
var halfOperations = map[string]operation{
	"v_cvt_f32_f16": vector1(func(a uint32) uint32 {
		return math.Float32bits(elemtype.Float(element.F16, uint16(a)))
	}),
	"v_cvt_f16_f32": lowHalf(1, func(a, _ uint32) uint32 {
		return uint32(elemtype.Bits(element.F16, float(a)))
	}),
	"v_lshlrev_b16":  lowHalf(2, func(a, b uint32) uint32 { return b << (a & 15) & 0xffff }),
	"v_pack_b32_f16": vector2(func(a, b uint32) uint32 { return a&0xffff | b<<16 }),
	"v_perm_b32":     vector3(permute),
	"v_pk_add_f16":   packedBits16(func(a, b float32) float32 { return a + b }),
	"v_pk_mul_f16":   packedBits16(func(a, b float32) float32 { return a * b }),
	"v_fma_mix_f32": {unit: valu, dsts: 1, srcs: 3, packed: true, usualLow: 7,
		run: func(w *wave, in *instruction) {
			mixedFMA(w, in, func(_, x uint32) uint32 { return x })
		}},
	"v_fma_mixlo_f16": {unit: valu, dsts: 1, srcs: 3, packed: true, usualLow: 7, readsDst: true,
		run: func(w *wave, in *instruction) {
			mixedFMA(w, in, func(before,
				x uint32) uint32 {
				return before&^0xffff | uint32(elemtype.Bits(element.F16, float(x)))
			})
		}},
}

// lowHalf is an operation on one or two sources that preserves the high half of a register, or clears it.
func lowHalf(srcs int, f func(a, b uint32) uint32) operation {
	return operation{unit: valu, dsts: 1, srcs: srcs, run: func(w *wave, in *instruction) {
		a, b, d := w.lanes(&in.src[0], 0, 0), w.lanes(&in.src[srcs-1], 0, 1), w.dst(in, 0)
		kept := uint32(0)
		if w.arch.keepsHigh {
			kept = 0xffff0000
		}
		w.each(func(l int) { d[l] = d[l]&kept | f(a[l], b[l]) })
	}}
}

// packedBits16 does two operations on 16-bit numbers, each with the halves that op_sel and op_sel_hi select.
// fp32 has more than twice the bits of fp16, so rounding to it first changes nothing.
func packedBits16(f func(a, b float32) float32) operation {
	return operation{unit: valu, dsts: 1, srcs: 2, packed: true, run: func(w *wave, in *instruction) {
		a, b, d := w.lanes(&in.src[0], 0, 0), w.lanes(&in.src[1], 0, 1), w.dst(in, 0)
		half := func(x, high uint32) float32 { return elemtype.Float(element.F16, uint16(x>>(16*(high&1)))) }
		w.each(func(l int) {
			low := f(half(a[l], in.opSel), half(b[l], in.opSel>>1))
			high := f(half(a[l], ^in.opLow), half(b[l], ^in.opLow>>1))
			d[l] = uint32(elemtype.Bits(element.F16, low)) | uint32(elemtype.Bits(element.F16, high))<<16
		})
	}}
}

// permute selects bytes of b, 0 to 3, and of a, 4 to 7.
func permute(a, b, selector uint32) (to uint32) {
	both := uint64(a)<<32 | uint64(b)
	for i := range 4 {
		x := uint32(0)
		switch s := selector >> (8 * i) & 0xff; {
		case s < 8:
			x = uint32(both >> (8 * s) & 0xff)
		case s < 12: // the sign of the word
			x = uint32(int64(both<<(48-16*(s-8)))>>63) & 0xff
		case s > 12:
			x = 0xff
		}
		to |= x << (8 * i)
	}
	return to
}

// mixedFMA takes fp16 if op_sel_hi is 1, in the half that op_sel selects. The register becomes f of its old
// value and the result.
func mixedFMA(w *wave, in *instruction, f func(before, x uint32) uint32) {
	var s [3]*lanesOf
	for i := range s {
		s[i] = w.lanes(&in.src[i], 0, i)
		if in.opLow>>i&1 != 0 {
			continue
		}
		to := &w.scratch[i]
		for l, x := range s[i] {
			to[l] = math.Float32bits(elemtype.Float(element.F16, uint16(x>>(16*(in.opSel>>i&1)))))
		}
		s[i] = to
	}
	d := w.dst(in, 0)
	w.each(func(l int) {
		d[l] = f(d[l], math.Float32bits(fma32(float(s[0][l]), float(s[1][l]),
			float(s[2][l]))))
	})
}
