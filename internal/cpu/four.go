package cpu

import (
	"math"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/planner/element"
)

// panel is the work of widenPanel: columns of a B of 4 bits, 64 k each, become numbers. The assembly reads its
// fields by their offsets.
type panel struct {
	to      *float32 // the first column
	words   *uint32
	numbers *[16]float32 // of elements
	row     int          // bytes from the numbers of a column to the next
	cols    int
	scales  [4 * maxSide]float32 // of each column one, two or four
	zeros   [maxSide]float32     // zero points of Int4
}

// widenPanel does that for a type; nil: Go does.
var widenPanel [element.NVFP4 + 1]func(*panel)

// widen4 converts columns of B of 4 bits, from a k at the start of a panel on, to numbers. The result is
// transposed.
func (o *operand) widen4(to []float32, from, cols, depth int, w *panel) {
	const k = element.Int4Panel
	for at := 0; at < depth; at += k {
		words := o.from((from + at) * o.ld).words()[:k/8*cols]
		o.scales4(w, from+at, cols)
		if widen := widenPanel[o.of]; widen != nil {
			w.to, w.words, w.numbers = &to[at], &words[0], elemtype.Numbers4(o.of)
			w.row, w.cols = 4*depth, cols
			_ = to[(cols-1)*depth+at+k-1]
			widen(w)
			continue
		}
		each := k / 8 / elemtype.Words4(o.of) // scales of a column
		for j := range cols {
			g := elemtype.Groups4{Zero: w.zeros[j]}
			copy(g.Scales[:], w.scales[each*j:][:each])
			elemtype.Widen4(o.of, to[j*depth+at:], words[k/8*j:][:k/8], &g)
		}
	}
	o.data, o.ld, o.trans = to[:cols*depth], depth, true
}

// scales4 sets the scales and zero points of a panel.
func (o *operand) scales4(w *panel, k, cols int) {
	const panels = element.Int4Panel
	words, columns := o.groups[k/o.group*o.ld:], o.groups
	half := k % o.group / panels
	switch o.of {
	case element.MXFP4:
		for j, word := range words[:cols] {
			g := elemtype.GroupsOf(o.of, uint32(word), half, 1)
			w.scales[2*j], w.scales[2*j+1] = g.Scales[0], g.Scales[1]
		}
	case element.NVFP4:
		for j, word := range words[o.ld:][:cols] {
			g := elemtype.GroupsOf(o.of, uint32(word), half, math.Float32frombits(uint32(columns[j])))
			copy(w.scales[4*j:], g.Scales[:])
		}
	default:
		for j, word := range words[:cols] {
			g := elemtype.GroupsOf(o.of, uint32(word), half, 1)
			w.scales[j], w.zeros[j] = g.Scales[0], g.Zero
		}
	}
}

// words returns elements of 4 bits as words.
func (n narrow) words() []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(n.bytes))), len(n.bytes)/4)
}
