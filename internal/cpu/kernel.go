package cpu

import (
	"math"

	"github.com/batchgemm/batchgemm/planner/element"
	"github.com/batchgemm/batchgemm/planner/encoding"
)

// segment computes an item: op(A)*op(B) over its K range, stored to C or to the
// workspace.
func (j *job) segment(t *scratch, item []uint32) {
	item = item[:encoding.ItemWords]
	var p product
	p.rows, p.cols, p.depth = encoding.Rows(item[encoding.Extent]), encoding.Cols(item[encoding.Extent]), int(item[encoding.Depth])
	p.a.ld, p.a.trans = int(item[encoding.LDA]), j.launch.TransA
	p.b.ld, p.b.trans = int(item[encoding.LDB]), j.launch.TransB
	of := j.launch.Type
	switch p.a.of, p.b.of = of, of; {
	case p.depth == 0:
	case of == element.F32:
		p.a.data, p.b.data = j.a[item[encoding.OffA]:], j.b[item[encoding.OffB]:]
	default:
		p.a.bits, p.b.bits = j.bitsA[item[encoding.OffA]:], j.bitsB[item[encoding.OffB]:]
	}
	p.ldc, p.alpha, p.beta = int(item[encoding.LDC]), math.Float32frombits(item[encoding.Alpha]), math.Float32frombits(item[encoding.Beta])
	switch slot := item[encoding.Slot]; {
	case slot == encoding.Final && j.launch.TypeC == element.F32:
		p.c = j.c[item[encoding.OffC]:]
	case slot == encoding.Final:
		p.of, p.bits = j.launch.TypeC, j.bitsC[item[encoding.OffC]:]
	default:
		shape := j.launch.Tile
		p.c, p.ldc, p.alpha, p.beta = j.workspace[int(slot)*shape.TM*shape.TN:], shape.TN, 1, 0
	}
	t.multiply(&p)
}

// fixup finishes a tile from its partial tiles, in the order of their slots.
func (j *job) fixup(item []uint32) {
	item = item[:encoding.FixupWords]
	rows, cols := encoding.Rows(item[encoding.FixupExtent]), encoding.Cols(item[encoding.FixupExtent])
	shape := j.launch.Tile
	slots := j.workspace[int(item[encoding.FixupSlot])*shape.TM*shape.TN:][:int(item[encoding.FixupCount])*shape.TM*shape.TN]
	alpha, beta := math.Float32frombits(item[encoding.FixupAlpha]), math.Float32frombits(item[encoding.FixupBeta])
	for i := range rows {
		sum := slots[i*shape.TN:][:cols]
		for at := (i + shape.TM) * shape.TN; at < len(slots); at += shape.TM * shape.TN {
			for k, v := range slots[at:][:len(sum)] {
				sum[k] += v
			}
		}
		at := int(item[encoding.FixupOffC]) + i*int(item[encoding.FixupLDC])
		if of := j.launch.TypeC; of == element.F32 {
			scale(j.c[at:][:cols], sum, alpha, beta)
		} else {
			scaleBits(of, j.bitsC[at:][:cols], sum, alpha, beta)
		}
	}
}

// scale is C = alpha*sum + beta*C. With beta = 0 C is not read.
func scale(c, sum []float32, alpha, beta float32) {
	c = c[:len(sum)]
	if beta == 0 {
		for i, v := range sum {
			c[i] = alpha * v
		}
		return
	}
	for i, v := range sum {
		c[i] = alpha*v + beta*c[i]
	}
}
