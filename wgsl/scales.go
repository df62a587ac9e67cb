package wgsl

import (
	"fmt"

	"github.com/batchgemm/batchgemm/internal/encoding"
)

// centre takes off from outputs, which are A*B, what zero points of rows are worth, times the sums of their
// columns. Without products there are none.
func (r *renderer) centre(width int, outputs []output) {
	if !r.kernel.Epilogue.Zeros {
		return
	}
	r.block(r.hasProducts(), func() {
		for i, o := range outputs {
			zero := r.ofRow("zero", i, r.zeroOfRow)
			sums := r.ofColumns("sums", i, func(i int) string {
				return pack(each(width, func(j int) string {
					return wholeAt("scaleBAt", r.scaleOfColumn(width, i, j))
				}))
			})
			r.line("%s = fma(%s, %s, %s);", o.Value, splat(width, "-"+zero), sums, o.Value)
		}
	})
}

// wholeAt is the whole number after a scale.
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
	zero := wholeAt("scaleAAt", at)
	if e.Gather {
		zero = fmt.Sprintf("select(0.0, %s, is%d)", zero, i)
	}
	return zero
}

// findRow sets which row of A an output has, and whether that is one.
func (r *renderer) findRow(i int) {
	r.line("let from%d = indices[gatherAt + row%d];", i, i)
	r.line("let is%d = from%d < gatherRows;", i, i)
}

// scaleOfColumn is how far after the first the scale of a column of an output is.
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

// scale multiplies outputs, which are alpha*A*B, by the scales of their rows and columns. Without products
// there are none.
func (r *renderer) scale(width int, outputs []output) {
	if !r.kernel.Epilogue.ScaledSums() {
		return
	}
	e := &r.kernel.Epilogue
	r.block(r.hasProducts(), func() {
		for i, o := range outputs {
			if e.ScaleA != "" {
				r.line("%s = %s * %s;", o.Value, o.Value, splat(width, r.ofRow("scale", i, r.scaleOfRow)))
			}
			if e.ScaleB != "" {
				scales := r.ofColumns("scales", i, func(i int) string { return r.scalesOfColumns(width, i) })
				r.line("%s = %s * %s;", o.Value, o.Value, scales)
			}
		}
	})
}

// scaleOfRow is the scale of the row of A of an output. A row of zeros has 1.
func (r *renderer) scaleOfRow(i int) string {
	e, row := &r.kernel.Epilogue, fmt.Sprintf("row%d", i)
	switch {
	case e.ScaleA == encoding.PerTensor:
		return "bitcast<f32>(indices[scaleAAt])"
	case e.Gather:
		r.findRow(i)
		row = fmt.Sprintf("select(0u, from%d, is%d)", i, i)
	}
	scale := fmt.Sprintf("bitcast<f32>(indices[scaleAAt + %s])", times(e.ScaleWords(), row))
	if e.Gather {
		scale = fmt.Sprintf("select(1.0, %s, is%d)", scale, i)
	}
	return scale
}

// scalesOfColumns are those of the columns of B of an output.
func (r *renderer) scalesOfColumns(width, i int) string {
	if r.kernel.Epilogue.ScaleB != encoding.PerRow {
		return splat(width, "bitcast<f32>(indices[scaleBAt])")
	}
	return pack(each(width, func(j int) string {
		return "bitcast<f32>(indices[scaleBAt" + r.scaleOfColumn(width, i, j) + "])"
	}))
}
