package wgsl

import (
	"fmt"

	"github.com/batchgemm/batchgemm/planner/encoding"
)

// scale multiplies outputs, which are alpha*A*B, by the scales of their rows and columns. Without products there
// are none.
func (r *renderer) scale(width int, outputs []output) {
	if !r.kernel.Epilogue.ScaledSums() {
		return
	}
	head := "if (depth != 0u)"
	if r.kernel.Fixup { // of tiles with products alone
		head = ""
	}
	r.block(head, func() {
		for i, o := range outputs {
			r.scaleRow(width, i, o.Value)
			r.scaleColumns(width, i, o.Value)
		}
	})
}

// scaleRow multiplies an output by the scale of its row of A. A row of zeros has 1.
func (r *renderer) scaleRow(width, i int, value string) {
	switch e := &r.kernel.Epilogue; {
	case e.ScaleA == "":
		return
	case e.ScaleA == encoding.PerTensor:
		r.line("let scale%d = bitcast<f32>(indices[scaleAAt]);", i)
	case e.Gather:
		r.line("let from%d = indices[gatherAt + row%d];", i, i)
		r.line("let is%d = from%d < gatherRows;", i, i)
		r.line("let scale%d = select(1.0, bitcast<f32>(indices[scaleAAt + select(0u, from%d, is%d)]), is%d);", i, i, i, i)
	default:
		r.line("let scale%d = bitcast<f32>(indices[scaleAAt + row%d]);", i, i)
	}
	r.line("%s = %s * %s;", value, value, splat(width, fmt.Sprintf("scale%d", i)))
}

// scaleColumns multiplies it by those of its columns of B.
func (r *renderer) scaleColumns(width, i int, value string) {
	scales := splat(width, "bitcast<f32>(indices[scaleBAt])")
	switch r.kernel.Epilogue.ScaleB {
	case "":
		return
	case encoding.PerRow:
		all := make([]string, width)
		for j := range all {
			all[j] = "bitcast<f32>(indices[" + plus("scaleBAt + "+times(width, fmt.Sprintf("vector%d", i)), j) + "])"
		}
		scales = pack(all)
	}
	r.line("%s = %s * %s;", value, value, scales)
}
