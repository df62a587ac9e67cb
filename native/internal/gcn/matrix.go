package gcn

import (
	"math"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/planner/element"
)

func init() {
	for name, m := range matrices {
		register(map[string]operation{name: multiplyMatrices(m)})
	}
	register(map[string]operation{"v_accvgpr_read_b32": accMove(), "v_accvgpr_write_b32": accMove()})
}

// matrices are the operations of matrix cores on one block, with sums in fp32, or in int32 for integers.
var matrices = map[string]matrix{
	"v_mfma_f32_16x16x4f32":  {side: 16, passes: 8},
	"v_mfma_f32_16x16x4_f32": {side: 16, passes: 8},

	"v_mfma_f32_16x16x16f16":     {side: 16, of: element.F16, depth: 4, passes: 8},
	"v_mfma_f32_32x32x8f16":      {side: 32, of: element.F16, depth: 4, passes: 16},
	"v_mfma_f32_16x16x8bf16":     {side: 16, of: element.BF16, depth: 2, passes: 8},
	"v_mfma_f32_32x32x4bf16":     {side: 32, of: element.BF16, depth: 2, passes: 16},
	"v_mfma_f32_16x16x16bf16_1k": {side: 16, of: element.BF16, depth: 4, passes: 8},
	"v_mfma_f32_32x32x8bf16_1k":  {side: 32, of: element.BF16, depth: 4, passes: 16},
	"v_mfma_f32_16x16x16_f16":    {side: 16, of: element.F16, depth: 4, passes: 4, xdl: true},
	"v_mfma_f32_32x32x8_f16":     {side: 32, of: element.F16, depth: 4, passes: 8, xdl: true},
	"v_mfma_f32_16x16x16_bf16":   {side: 16, of: element.BF16, depth: 4, passes: 4, xdl: true},
	"v_mfma_f32_32x32x8_bf16":    {side: 32, of: element.BF16, depth: 4, passes: 8, xdl: true},

	"v_mfma_i32_16x16x16i8":  {side: 16, of: element.Int8, depth: 4, passes: 8},
	"v_mfma_i32_32x32x8i8":   {side: 32, of: element.Int8, depth: 4, passes: 16},
	"v_mfma_i32_16x16x32_i8": {side: 16, of: element.Int8, depth: 8, passes: 4, xdl: true},
	"v_mfma_i32_32x32x16_i8": {side: 32, of: element.Int8, depth: 8, passes: 8, xdl: true},

	"v_mfma_f32_16x16x32_fp8_fp8": {side: 16, of: element.E4M3, depth: 8, passes: 4, xdl: true},
	"v_mfma_f32_32x32x16_fp8_fp8": {side: 32, of: element.E4M3, depth: 8, passes: 8, xdl: true},
}

// matrix is D = A*B + C.
type matrix struct {
	side    int          // rows of A and columns of B
	of      element.Type // of A and B; E4M3 is that of fp8.go
	depth   int          // with fewer than 32 bits: k of a lane
	passes  int          // duration in units of 4 cycles (LLVM, SISchedule.td)
	xdl     bool         // of gfx942: for narrower types, with one pass more before they can be read
	doubles bool         // of fp64 (double.go), with wait states of its own
}

// multiplyMatrices is the operation (AMD matrix instruction calculator). A lane has row l % side of A, and
// that column of B, at `depth` k from l / side * depth on. It has column l % side of C, and 4 rows of every
// 4 * 64/side, group of lanes by group.
func multiplyMatrices(m matrix) operation {
	return operation{unit: valu, dsts: 1, srcs: 3, matrix: &m, run: func(w *wave, in *instruction) {
		a, b := m.factor(w, &in.src[0]), m.factor(w, &in.src[1])
		groups, count := w.width/m.side, in.dst[0].count
		var sums [16]lanesOf // D may overlap A and B
		for r := range count {
			sum := &sums[r]
			*sum = *w.lanes(&in.src[2], r*min(in.src[2].count, 1), 2)
			for l := range w.width {
				row, col := r/4*4*groups+l/m.side*4+r%4, l%m.side
				if m.of == element.F32 {
					x := float(sum[l])
					for g := range groups {
						x = fma32(float(a[0][g*m.side+row]), float(b[0][g*m.side+col]), x)
					}
					sum[l] = math.Float32bits(x)
					continue
				}
				if m.of == element.Int8 {
					for j := range a {
						for g := range groups {
							sum[l] += a[j][g*m.side+row] * b[j][g*m.side+col]
						}
					}
					continue
				}
				if m.of == element.E4M3 {
					var x, y [32]uint8 // in order of k
					for k := range m.depth * groups {
						x[k], y[k] = uint8(a[k%m.depth][k/m.depth*m.side+row]),
							uint8(b[k%m.depth][k/m.depth*m.side+col])
					}
					sum[l] = math.Float32bits(sumFP8(x[:m.depth*groups], y[:m.depth*groups], float(sum[l])))
					continue
				}
				// Products are exact. The rounding of sums is not documented; here they are rounded once.
				x := float64(float(sum[l]))
				for j := range a {
					for g := range groups {
						x += float64(float(a[j][g*m.side+row])) * float64(float(b[j][g*m.side+col]))
					}
				}
				if sum[l] = math.Float32bits(float32(x)); w.arch.flushes {
					sum[l] = flush(sum[l])
				}
			}
		}
		for r := range count {
			*w.dst(in, r) = sums[r]
		}
	}}
}

// factor returns the k of each lane, in fp32, integers in int32, and E4M3 as bits.
func (m *matrix) factor(w *wave, o *operand) []lanesOf {
	if m.of == element.F32 {
		return []lanesOf{*w.lanes(o, 0, 0)}
	}
	all := make([]lanesOf, m.depth)
	per := 4 / m.of.Bytes()
	for j := range all {
		from := w.lanes(o, j/per, 0)
		for l, x := range from {
			switch m.of {
			case element.Int8:
				all[j][l] = uint32(int8(x >> (8 * (j % per))))
				continue
			case element.E4M3:
				all[j][l] = x >> (8 * (j % per)) & 0xff
				continue
			}
			x = math.Float32bits(elemtype.Float(m.of, uint16(x>>(16*(j%per)))))
			if w.arch.flushes && math.Abs(float64(float(x))) < elemtype.Tiny(m.of)/elemtype.Unit(m.of)/2 {
				x = 0
			}
			all[j][l] = x
		}
	}
	return all
}

func accMove() operation {
	op := vector1(func(a uint32) uint32 { return a })
	op.accMove = true
	return op
}
