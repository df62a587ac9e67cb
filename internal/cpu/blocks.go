package cpu

import (
	"math"

	"github.com/batchgemm/batchgemm/internal/encoding"
)

// blockScales are scales of blocks: words of A from the first row of a tile on, or of all rows if rows are
// gathered, with `words` for each row, and words of B for the block of the tile's columns.
type blockScales struct {
	a, b []int32
	each int
}

// scaleBlocks multiplies numbers of A, from a k at the start of a block on, by the products of the scales of
// A and B.
func (p *product) scaleBlocks(from, depth int) {
	for k := 0; k < depth; k += encoding.Block {
		p.a.scaleBlock(p.rows, k, min(depth-k, encoding.Block), (from+k)/encoding.Block)
	}
}

// scaleBlock does this for one block, of depth k from k on.
func (o *operand) scaleBlock(rows, k, depth, block int) {
	float := func(word int32) float32 { return math.Float32frombits(uint32(word)) }
	b := float(o.blocks.b[block])
	var scales [maxSide]float32
	for i := range rows {
		row := i
		if o.gather != nil {
			row = int(o.gather[i])
		}
		if o.gather == nil || uint(row) < uint(o.stored) { // otherwise numbers are 0, whatever the scales are
			scales[i] = float(o.blocks.a[row*o.blocks.each+block]) * b
		}
	}
	if o.trans {
		for at := k; at < k+depth; at++ {
			for i, scale := range scales[:rows] {
				o.data[at*o.ld+i] *= scale
			}
		}
		return
	}
	for i, scale := range scales[:rows] {
		numbers := o.data[i*o.ld+k:][:depth]
		for at := range numbers {
			numbers[at] *= scale
		}
	}
}
