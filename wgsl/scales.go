package wgsl

import (
	"fmt"

	"github.com/batchgemm/batchgemm/planner/encoding"
)

// centre takes off from outputs, which are A*B, what zero points of rows are worth, times the sums of their columns. Without products there
// are none.
func (r *renderer) centre(width int, outputs []output) {
	if !r.kernel.Epilogue.Zeros {
		return
	}
	r.block(r.hasProducts(), func() {
		for i, o := range outputs {
			sums := make([]string, width)
			for j := range sums {
				sums[j] = wholeAt("scaleBAt", r.scaleOfColumn(width, i, j))
			}
			r.line("%s = fma(%s, %s, %s);", o.Value, splat(width, "-"+r.zeroOfRow(i)), pack(sums), o.Value)
		}
	})
}

// wholeAt is the whole number behind a scale.
func wholeAt(at, scale string) string { return "f32(bitcast<i32>(indices[" + at + scale + " + 1u]))" }

// zeroOfRow is the zero point of the row of A of an output. A row of zeros has none.
func (r *renderer) zeroOfRow(i int) string {
	e, row := &r.kernel.Epilogue, fmt.Sprintf("row%d", i)
	if e.Gather {
		r.findRow(i)
		row = fmt.Sprintf("select(0u, from%d, is%d)", i, i)
	}
	at := ""
	if e.ScaleA == encoding.PerRow {
		at = " + " + times(e.ScaleWords(), row)
	}
	if e.Gather {
		r.line("let zero%d = select(0.0, %s, is%d);", i, wholeAt("scaleAAt", at), i)
	} else {
		r.line("let zero%d = %s;", i, wholeAt("scaleAAt", at))
	}
	return fmt.Sprintf("zero%d", i)
}

// findRow sets which row of A an output has, and whether that is one.
func (r *renderer) findRow(i int) {
	r.line("let from%d = indices[gatherAt + row%d];", i, i)
	r.line("let is%d = from%d < gatherRows;", i, i)
}

// scaleOfColumn is how far behind the first the scale of a column of an output is.
func (r *renderer) scaleOfColumn(width, i, j int) string {
	words := r.kernel.Epilogue.ScaleWords()
	return " + " + times(words, r.column(width, i, j))
}

// hasProducts begins what is done where there are any.
func (r *renderer) hasProducts() string {
	if r.kernel.Fixup { // of tiles with products alone
		return ""
	}
	return "if (depth != 0u)"
}

// scale multiplies outputs, which are alpha*A*B, by the scales of their rows and columns. Without products there
// are none.
func (r *renderer) scale(width int, outputs []output) {
	if !r.kernel.Epilogue.ScaledSums() {
		return
	}
	r.block(r.hasProducts(), func() {
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
		r.findRow(i)
		r.line("let scale%d = select(1.0, bitcast<f32>(indices[scaleAAt + %s]), is%d);", i, times(e.ScaleWords(), fmt.Sprintf("select(0u, from%d, is%d)", i, i)), i)
	default:
		r.line("let scale%d = bitcast<f32>(indices[scaleAAt + %s]);", i, times(e.ScaleWords(), fmt.Sprintf("row%d", i)))
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
			all[j] = "bitcast<f32>(indices[scaleBAt" + r.scaleOfColumn(width, i, j) + "])"
		}
		scales = pack(all)
	}
	r.line("%s = %s * %s;", value, value, scales)
}
