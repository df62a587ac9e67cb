package cpu

import (
	"math"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/planner/element"
)

// panel is the work of widenPanel: columns of a B of 4 bits, 64 k each, become numbers. The assembly reads
// its fields by their offsets.
type panel struct {
	to      *float32 // the first column
	words   *uint32
	numbers *[16]float32 // of elements
	row     int          // bytes from the numbers of a column to the next
	cols    int
	groups  *byte         // the first scale of the first column, or the word of Int4
	columns *int32        // scales of columns of NVFP4
	scales  *[256]float32 // numbers of a byte as a scale, or of zero points
}

// widenPanel does that for a type; nil: Go does.
var widenPanel [element.NVFP4 + 1]func(*panel)

// widen4 converts columns of B of 4 bits, from a k at the start of a panel on, to numbers. The result is
// transposed.
func (o *operand) widen4(to []float32, from, cols, depth int) {
	const k = element.Int4Panel
	for at := 0; at < depth; at += k {
		words := o.from((from + at) * o.ld).words()[:k/8*cols]
		groups, half := o.groups[(from+at)/o.group*o.ld:], (from+at)%o.group/k
		if o.of == element.NVFP4 {
			groups = groups[o.ld:] // after the scales of columns
		}
		groups = groups[:cols]
		if widen := widenPanel[o.of]; widen != nil {
			_ = to[(cols-1)*depth+at+k-1]
			w := panel{&to[at], &words[0], elemtype.Numbers4(o.of), 4 * depth, cols,
				(*byte)(unsafe.Pointer(&groups[0])), &o.groups[0], elemtype.Scales4(o.of)}
			if o.of == element.MXFP4 { // two scales of a word are for a panel
				w.groups = (*byte)(unsafe.Add(unsafe.Pointer(w.groups), 2*half))
			}
			widen(&w)
			continue
		}
		for j, word := range groups {
			g := elemtype.GroupsOf(o.of, uint32(word), half, math.Float32frombits(uint32(o.groups[j])))
			elemtype.Widen4(o.of, to[j*depth+at:], words[k/8*j:][:k/8], &g)
		}
	}
	o.data, o.ld, o.trans = to[:cols*depth], depth, true
}

// words returns elements of 4 bits as words.
func (n narrow) words() []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(n.bytes))), len(n.bytes)/4)
}
