package cpu

import (
	"math"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// segment computes an item: op(A)*op(B) over its K range, stored to C or to the
// workspace.
func (j *job) segment(t *scratch, item []uint32) {
	item = item[:j.launch.ItemWords()]
	var p product
	p.rows, p.cols, p.depth = encoding.Rows(item[encoding.Extent]), encoding.Cols(item[encoding.Extent]),
		int(item[encoding.Depth])
	p.few = j.launch.Tile.TM <= mostAlong
	p.a.ld, p.a.trans = int(item[encoding.LDA]), j.launch.TransA
	p.b.ld, p.b.trans = int(item[encoding.LDB]), j.launch.TransB
	of := j.launch.TypeA
	epilogue := &j.launch.Epilogue
	if epilogue.Gather && p.depth > 0 {
		p.a.gather, p.a.stored = j.rows[item[encoding.GatherAt]:][:p.rows], int(item[encoding.GatherRows])
	}
	b, bitsB := j.b, j.bitsB
	if item[encoding.Flags]&encoding.ItemSecond != 0 {
		b, bitsB = j.b2, j.bitsB2
	}
	if group := epilogue.ScaleB.Group(); group > 0 && p.depth > 0 {
		p.b.groups, p.b.group = j.rows[item[encoding.ScaleBAt]:], group
	}
	if epilogue.Blocks() && p.depth > 0 {
		p.a.blocks = blockScales{j.rows[item[encoding.ScaleAAt]:], j.rows[item[encoding.ScaleBAt]:],
			encoding.Blocks(p.depth)}
	}
	switch p.a.of, p.b.of = of, j.launch.TypeB(); {
	case p.depth == 0:
	case of == element.F32:
		p.a.data, p.b.data = j.a[item[encoding.OffA]:], b[item[encoding.OffB]:]
	default:
		p.a.narrow, p.b.narrow = j.bitsA.from(int(item[encoding.OffA])), bitsB.from(int(item[encoding.OffB]))
	}
	p.ldc = int(item[encoding.LDC])
	if of == element.F64 {
		p.alpha = encoding.Scalar64(item[encoding.Alpha], item[encoding.AlphaLow])
		p.beta = encoding.Scalar64(item[encoding.Beta], item[encoding.BetaLow])
	} else {
		p.alpha = float64(math.Float32frombits(item[encoding.Alpha]))
		p.beta = float64(math.Float32frombits(item[encoding.Beta]))
	}
	switch slot := item[encoding.Slot]; {
	case slot == encoding.Final && j.launch.TypeC == element.F32:
		p.c = j.c[item[encoding.OffC]:]
	case slot == encoding.Final:
		p.narrow = j.bitsC.from(int(item[encoding.OffC]))
	default:
		p.c, p.ldc, p.alpha, p.beta = j.workspace[int(slot)*j.launch.SlotWords():], j.launch.Tile.TN, 1, 0
		if of == element.F64 {
			p.c, p.narrow = nil, narrowOf(of, p.c)
		}
	}
	switch {
	case *epilogue == (encoding.Epilogue{}) || item[encoding.Slot] != encoding.Final:
	case of == element.F64:
		p.tail = t.own.tailOf(j, item, p.rows, p.cols)
	default:
		if p.tail = t.halves().tail.item(j, item, p.rows, p.cols); p.tail.scales.used {
			p.tail.scales.alpha, p.tail.scales.beta = float32(p.alpha), float32(p.beta)
			p.alpha, p.beta = 1, 0
		}
	}
	t.multiply(&p)
}

// fixup finishes a tile from its partials, in the order of their slots.
func (j *job) fixup(t *scratch, item []uint32) {
	item = item[:j.launch.ItemWords()]
	if j.launch.TypeC == element.F64 {
		j.fixupDouble(t, item)
		return
	}
	rows, cols := encoding.Rows(item[encoding.FixupExtent]), encoding.Cols(item[encoding.FixupExtent])
	shape := j.launch.Tile
	slots := j.workspace[int(item[encoding.FixupSlot])*shape.TM*shape.TN:][:int(
		item[encoding.FixupCount])*shape.TM*shape.TN]
	alpha, beta := math.Float32frombits(item[encoding.FixupAlpha]),
		math.Float32frombits(item[encoding.FixupBeta])
	p := product{ldc: int(item[encoding.FixupLDC])}
	if j.launch.TypeC == element.F32 {
		p.c = j.c[item[encoding.FixupOffC]:]
	} else {
		p.narrow = j.bitsC.from(int(item[encoding.FixupOffC]))
	}
	if j.launch.Epilogue != (encoding.Epilogue{}) {
		if p.tail = t.halves().tail.fixup(j, item, rows, cols); p.tail.scales.used {
			p.tail.scales.alpha, p.tail.scales.beta, alpha, beta = alpha, beta, 1, 0
		}
	}
	for i := range rows {
		p.finish(i, sumSlots(slots, shape, i, cols), alpha, beta)
	}
}

// sumSlots adds a row of all slots to that of the first one, which it returns.
func sumSlots[T sums](slots []T, shape *tile.Shape, row, cols int) []T {
	sum := slots[row*shape.TN:][:cols]
	for at := (row + shape.TM) * shape.TN; at < len(slots); at += shape.TM * shape.TN {
		for k, v := range slots[at:][:len(sum)] {
			sum[k] += v
		}
	}
	return sum
}

// finish stores a row of sums.
func (p *product) finish(row int, sum []float32, alpha, beta float32) {
	to := row
	if p.tail != nil {
		if to = p.tail.rowC(row); to < 0 {
			return
		}
	}
	if p.of == element.F32 && p.tail == nil {
		scale(p.c[to*p.ldc:][:len(sum)], sum, alpha, beta)
		return
	}
	var c [maxSide]float32
	if beta != 0 {
		p.readC(to, c[:len(sum)])
	}
	scale(c[:len(sum)], sum, alpha, beta)
	if p.tail != nil && p.tail.scales.used {
		p.scaleRow(row, to, c[:len(sum)])
	}
	if p.tail == nil || p.tail.finish(row, c[:len(sum)]) {
		p.writeC(to, c[:len(sum)])
	}
}

// scaleRows stores rows of C = alpha*sum + beta*C, from rows of maxSide. With less, sums are int32, and 128
// times a number of the row is subtracted from them. nil: only scale is there.
var scaleRows func(c, sum *float32, less *int32, rowC, rows, cols int, alpha, beta float32)

// scale computes C = alpha*sum + beta*C. With beta = 0, C is not read.
func scale(c, sum []float32, alpha, beta float32) {
	if scaleRows != nil && len(sum) > 0 {
		scaleRows(&c[0], &sum[0], nil, 0, 1, len(sum), alpha, beta)
		return
	}
	scaleEach(c, sum, alpha, beta)
}
