package wgsl

import (
	"fmt"

	"github.com/batchgemm/batchgemm/internal/encoding"
)

// centre subtracts from outputs, which are A*B, the zero points of rows times the sums of their columns.
// Without products it subtracts nothing.
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

// wholeAt returns the integer after a scale.
func wholeAt(at, scale string) string { return "f32(bitcast<i32>(indices[" + at + scale + " + 1u]))" }

// zeroOfRow returns the zero point of an output's row of A. A zero row has none.
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

// findRow finds an output's row of A, and whether it exists.
func (r *renderer) findRow(i int) {
	r.line("let from%d = indices[gatherAt + row%d];", i, i)
	r.line("let is%d = from%d < gatherRows;", i, i)
}

// scaleOfColumn returns the distance of an output's column scale from the first one.
func (r *renderer) scaleOfColumn(width, i, j int) string {
	words := r.kernel.Epilogue.ScaleWords()
	return " + " + times(words, r.column(width, i, j))
}

// hasProducts returns the condition that there are products.
func (r *renderer) hasProducts() string {
	if r.kernel.Fixup { // only for tiles with products
		return ""
	}
	return "if (depth != 0u)"
}

// scale multiplies outputs, which are alpha*A*B, by the scales of their rows and columns, if there are
// products.
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

// scaleOfRow returns the scale of an output's row of A. A zero row has 1.
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

// scalesOfColumns returns the scales of an output's columns of B.
func (r *renderer) scalesOfColumns(width, i int) string {
	if r.kernel.Epilogue.ScaleB != encoding.PerRow {
		return splat(width, "bitcast<f32>(indices[scaleBAt])")
	}
	return pack(each(width, func(j int) string {
		return "bitcast<f32>(indices[scaleBAt" + r.scaleOfColumn(width, i, j) + "])"
	}))
}
