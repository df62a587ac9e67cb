package gcn

import "math"

func init() {
	register(map[string]operation{
		"v_mfma_f32_16x16x4f32":  multiplyMatrices(matrix{side: 16, passes: 8}),
		"v_mfma_f32_16x16x4_f32": multiplyMatrices(matrix{side: 16, passes: 8}),
		"v_accvgpr_read_b32":     accMove(),
		"v_accvgpr_write_b32":    accMove(),
	})
}

// matrix is an operation of matrix cores on one block of fp32: D = A*B + C, where a lane holds a row
// of A and a column of B at one k.
type matrix struct {
	side   int  // rows of A and columns of B
	passes int  // how long it takes, in units of 4 cycles (LLVM, SISchedule.td)
	xdl    bool // of gfx942: those on narrower types, which take one pass more to be read
}

// multiplyMatrices is the operation (AMD matrix instruction calculator): of A a lane has row l % side,
// and of B that column, at k = l / side. Of C it has column l % side, and of every 4 rows in
// turn of the lanes' groups.
func multiplyMatrices(m matrix) operation {
	return operation{unit: valu, dsts: 1, srcs: 3, matrix: &m, run: func(w *wave, in *instruction) {
		a, b := w.lanes(&in.src[0], 0, 0), w.lanes(&in.src[1], 0, 1)
		depth, count := w.width/m.side, in.dst[0].count
		var sums [16]lanesOf // D may be part of A and B
		for r := range count {
			sum := &sums[r]
			*sum = *w.lanes(&in.src[2], r*min(in.src[2].count, 1), 2)
			for l := range w.width {
				row, col := r/4*4*depth+l/m.side*4+r%4, l%m.side
				for k := range depth {
					sum[l] = math.Float32bits(fma32(float(a[k*m.side+row]), float(b[k*m.side+col]), float(sum[l])))
				}
			}
		}
		for r := range count {
			*w.dst(in, r) = sums[r]
		}
	}}
}

func accMove() operation {
	op := vector1(func(a uint32) uint32 { return a })
	op.accMove = true
	return op
}
