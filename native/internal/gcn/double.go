package gcn

import "math"

func init() { register(doubleOperations) }

// doubleOperations are those of fp64. An FMA of gfx90a may add to its destination (v_fmac_f64).
var doubleOperations = map[string]operation{
	"v_add_f64":     doubles(2, func(a, b, _ float64) float64 { return a + b }),
	"v_mul_f64":     doubles(2, func(a, b, _ float64) float64 { return a * b }),
	"v_fma_f64":     doubles(3, math.FMA),
	"v_fmac_f64":    accumulateDoubles(),
	"v_rcp_f64":     {unit: valu, dsts: 1, srcs: 1, trans: true, run: reciprocal64},
	"v_cvt_f64_f32": {unit: valu, dsts: 1, srcs: 1, run: widen},

	"v_cmp_lt_f64":  compareDoubles(func(a, b float64) bool { return a < b }),
	"v_cmp_gt_f64":  compareDoubles(func(a, b float64) bool { return a > b }),
	"v_cmp_eq_f64":  compareDoubles(func(a, b float64) bool { return a == b }),
	"v_cmp_neq_f64": compareDoubles(func(a, b float64) bool { return !(a == b) }),
	"v_cmp_nlt_f64": compareDoubles(func(a, b float64) bool { return !(a < b) }),
	"v_cmp_ngt_f64": compareDoubles(func(a, b float64) bool { return !(a > b) }),

	"v_mfma_f64_16x16x4f64":  multiplyDoubles(),
	"v_mfma_f64_16x16x4_f64": multiplyDoubles(),
}

// double returns a lane's number of a source. A number with a point is written as it is, a whole number is a
// word with sign, and others are the upper word (AMD, "CDNA 2 ISA", "Literal Constants").
func (w *wave) double(o *operand, l int) float64 {
	value := o.value
	switch {
	case o.kind == vector:
		value = uint64(w.vector[o.first-vectors][l]) | uint64(w.vector[o.first-vectors+1][l])<<32
	case o.kind == scalar:
		value = w.scalar(o)
	case o.point:
		value = math.Float64bits(float64(float(uint32(value))))
	case int64(value) > 64:
		value <<= 32
	}
	if o.abs {
		value &^= 1 << 63
	}
	if o.neg {
		value ^= 1 << 63
	}
	return math.Float64frombits(value)
}

// setDouble writes a lane's number of a destination, from a word of it on.
func (w *wave) setDouble(in *instruction, word, l int, x float64) {
	value := math.Float64bits(x)
	w.dst(in, word)[l], w.dst(in, word+1)[l] = uint32(value), uint32(value>>32)
}

func doubles(srcs int, f func(a, b, c float64) float64) operation {
	return operation{unit: valu, dsts: 1, srcs: srcs, run: func(w *wave, in *instruction) {
		w.each(func(l int) {
			w.setDouble(in, 0, l, f(w.double(&in.src[0], l), w.double(&in.src[1], l),
				w.double(&in.src[srcs-1], l)))
		})
	}}
}

func accumulateDoubles() operation {
	return operation{unit: valu, dsts: 1, srcs: 2, readsDst: true, run: func(w *wave, in *instruction) {
		w.each(func(l int) {
			w.setDouble(in, 0, l, math.FMA(w.double(&in.src[0], l), w.double(&in.src[1], l),
				w.double(&in.dst[0], l)))
		})
	}}
}

func compareDoubles(test func(a, b float64) bool) operation {
	return operation{unit: valu, dsts: 1, srcs: 2, run: func(w *wave, in *instruction) {
		mask := uint64(0)
		w.each(func(l int) { mask |= bit(test(w.double(&in.src[0], l), w.double(&in.src[1], l))) << l })
		w.setScalar(&in.dst[0], mask)
	}}
}

// reciprocal64 errs by nearly 2^29 units in the last place (AMD, "Sea Islands ISA", V_RCP_F64), downwards or
// upwards.
func reciprocal64(w *wave, in *instruction) {
	off := 1 - 0x1.fp-24
	if w.group.launch.Contrary {
		off = 1 + 0x1.fp-24
	}
	w.each(func(l int) { w.setDouble(in, 0, l, 1/w.double(&in.src[0], l)*off) })
}

func widen(w *wave, in *instruction) {
	from := w.lanes(&in.src[0], 0, 0)
	w.each(func(l int) { w.setDouble(in, 0, l, float64(float(from[l]))) })
}

// multiplyDoubles is D = A*B + C on a block of 16x16 and 4 k's (AMD matrix instruction calculator). A lane
// has row l % 16 of A, and that column of B, at k = l / 16. Of column l % 16 of C and D it has the rows
// l / 16 and so on by 4.
func multiplyDoubles() operation {
	const side, depth, rows = 16, 4, 4
	m := &matrix{side: side, passes: 8, doubles: true}
	return operation{unit: valu, dsts: 1, srcs: 3, matrix: m, run: func(w *wave, in *instruction) {
		var sums [rows][64]float64 // D may overlap A and B
		for r := range rows {
			c := in.src[2]
			if c.kind == vector {
				c.first += 2 * r
			}
			for l := range w.width {
				sum := w.double(&c, l)
				for k := range depth {
					sum = math.FMA(w.double(&in.src[0], k*side+rows*r+l/side),
						w.double(&in.src[1], k*side+l%side), sum)
				}
				sums[r][l] = sum
			}
		}
		for r := range rows {
			for l := range w.width {
				w.setDouble(in, 2*r, l, sums[r][l])
			}
		}
	}}
}
