package cpu

import (
	"math"

	"github.com/batchgemm/batchgemm/planner/encoding"
)

// segment computes an item: op(A)*op(B) over its K range, stored to C or to the
// workspace. package encoding lists its words.
func (j *job) segment(t *scratch, item []uint32) {
	item = item[:encoding.ItemWords]
	var p product
	p.rows, p.cols, p.depth = int(item[7]&0xffff), int(item[7]>>16), int(item[3])
	p.a.ld, p.a.trans = int(item[4]), j.launch.TransA
	p.b.ld, p.b.trans = int(item[5]), j.launch.TransB
	if p.depth > 0 {
		p.a.data, p.b.data = j.a[item[0]:], j.b[item[1]:]
	}
	p.ldc, p.alpha, p.beta = int(item[6]), math.Float32frombits(item[8]), math.Float32frombits(item[9])
	if slot := item[10]; slot == encoding.Final {
		p.c = j.c[item[2]:]
	} else {
		shape := j.launch.Tile
		p.c, p.ldc, p.alpha, p.beta = j.workspace[int(slot)*shape.TM*shape.TN:], shape.TN, 1, 0
	}
	t.multiply(&p)
}

// fixup finishes a tile from its partial tiles, in the order of their slots.
func (j *job) fixup(item []uint32) {
	item = item[:encoding.FixupWords]
	rows, cols := int(item[2]&0xffff), int(item[2]>>16)
	shape := j.launch.Tile
	slots := j.workspace[int(item[3])*shape.TM*shape.TN:][:int(item[6])*shape.TM*shape.TN]
	alpha, beta := math.Float32frombits(item[4]), math.Float32frombits(item[5])
	for i := range rows {
		sum := slots[i*shape.TN:][:cols]
		for at := (i + shape.TM) * shape.TN; at < len(slots); at += shape.TM * shape.TN {
			for k, v := range slots[at:][:len(sum)] {
				sum[k] += v
			}
		}
		scale(j.c[int(item[0])+i*int(item[1]):][:cols], sum, alpha, beta)
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
