package wgsl

import (
	"fmt"
	"strings"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner/element"
)

// output is a vector for a thread to store: columns of one row of the tile. Row and Vector are expressions;
// Vector counts vectors, not columns.
type output struct{ Value, Row, Vector string }

// column returns the column of number j of output i in the tile.
func (r *renderer) column(width, i, j int) string {
	stride := r.B.stride()
	if r.kernel.Fixup {
		stride = width
	}
	return plus(times(stride, fmt.Sprintf("vector%d", i)), j*r.apart())
}

// apart returns the distance in columns from one number of an output to the next: see stage.Apart. Those of
// fix-ups are adjacent, as in the workspace.
func (r *renderer) apart() int {
	if r.kernel.Fixup {
		return 1
	}
	return r.B.Apart
}

// outputs returns a thread's outputs if its accumulators are complete sums.
func (r *renderer) outputs() []output {
	all := make([]output, r.Accumulators)
	for i := range all {
		row, vector := i/r.vectorsB(), i%r.vectorsB()
		e := r.A.Element
		all[i] = output{
			Value:  accumulator(i),
			Row:    plus(times(r.A.stride(), "ty"), r.A.stride()*(row/e*r.ThreadRows)+row%e*r.A.Apart),
			Vector: plus("tx", vector*r.ThreadCols),
		}
	}
	return all
}

// output does so for an accumulator whose number is known only in the shader.
func (r *renderer) output(value, number string) output {
	vector := "tx"
	if r.vectorsB() > 1 {
		vector += " + " + times(r.ThreadCols, rest(number, r.vectorsB()))
	}
	return output{Value: value, Row: r.tileRow("ty", over(number, r.vectorsB())), Vector: vector}
}

// tileRow returns the tile's row for a row of a thread's accumulators. The thread is in row ty of the grid.
func (r *renderer) tileRow(ty, row string) string {
	e := r.A.Element
	return fmt.Sprintf("%s + %s + %s", times(r.A.stride(), ty),
		times(r.A.stride()*r.ThreadRows, over(row, e)), times(r.A.Apart, rest(row, e)))
}

// mostFinished is how many accumulators of a thread are finished one by one in the text with Limits.Short.
const mostFinished = 2

// atOnce returns how many accumulators each iteration of the loop of rolled finishes: a row of a thread, or
// as many as K groups sum at a time.
func (r *renderer) atOnce() int {
	if r.Groups > 1 {
		return r.Chunk
	}
	return r.vectorsB()
}

// rowsAtOnce returns how many rows of the tile these are.
func (r *renderer) rowsAtOnce() int { return r.ThreadRows * r.atOnce() / r.vectorsB() }

// rolled reports whether a loop finishes the accumulators of a thread: large-8x8 then compiles in a third of
// the time on lavapipe.
func (r *renderer) rolled() bool {
	n := r.atOnce()
	return r.short && !r.kernel.Fixup && r.Accumulators > max(n, mostFinished) && n%r.vectorsB() == 0 &&
		r.rowsAtOnce() <= r.B.Rows*r.Groups
}

// finishRolled is finish in a loop, for some accumulators at a time.
func (r *renderer) finishRolled() {
	all, n := make([]string, r.Accumulators), r.atOnce()
	for i := range all {
		all[i] = accumulator(i)
	}
	r.line("var sums = array<%s, %d>(%s);", vec(r.B.Element), len(all), strings.Join(all, ", "))
	r.block(fmt.Sprintf("for (var done = 0u; done < %du; done = done + %du)", len(all), n), func() {
		if r.Groups > 1 {
			r.reduceChunk(func(i int) string { return "sums[" + plus("done", i) + "]" })
		}
		outputs := make([]output, max(1, n/r.Groups))
		for i := range outputs {
			sum := fmt.Sprintf("sum%d", i)
			r.line("var %s = sums[%s];", sum, plus("done", i))
			outputs[i] = r.output(sum, plus("done", i))
			if r.Groups > 1 {
				outputs[i] = r.output(sum, plus("done + group", i*r.Groups))
			}
		}
		r.finish(r.B.Element, outputs)
	})
}

// ofRow returns the name of a value that the outputs of a row share, ofColumns that of a value of the same
// columns. The first output declares it, if the text can tell which outputs share.
func (r *renderer) ofRow(name string, i int, value func(i int) string) string {
	return r.common(name, i, i-i%r.vectorsB(), value)
}

func (r *renderer) ofColumns(name string, i int, value func(i int) string) string {
	return r.common(name, i, i%r.vectorsB(), value)
}

func (r *renderer) common(name string, i, first int, value func(i int) string) string {
	if r.Groups > 1 || r.kernel.Fixup {
		first = i
	}
	name = fmt.Sprintf("%s%d", name, first)
	if i == first {
		r.line("let %s = %s;", name, value(i))
	}
	return name
}

// finish writes the outputs of an item to C, or to the workspace if the item is a partial. All threads come
// here, also those without outputs.
func (r *renderer) finish(width int, outputs []output) {
	for i, o := range outputs {
		r.line("let row%d = %s;", i, o.Row)
		r.line("let vector%d = %s;", i, o.Vector)
	}
	toC := func() { r.storeC(width, outputs) }
	if !r.kernel.Split {
		toC()
		return
	}
	r.ifElse("slot != 0xffffffffu", func() {
		r.owners(func() { r.storePartial(width, outputs) })
	}, toC)
}

// bindWorkspace declares the workspace. It has the rows of partials one after the other, so threads store
// adjacent elements.
func (r *renderer) bindWorkspace() {
	of := vec(r.B.Element)
	if r.B.Apart > 1 {
		of = "f32"
	}
	r.bindWritten(encoding.BindWorkspace, "workspace", of)
}

// storePartial writes outputs to the workspace.
func (r *renderer) storePartial(width int, outputs []output) {
	size := r.Tile.TM * r.Tile.TN
	for i, o := range outputs {
		if r.B.Apart == 1 {
			r.line("workspace[slot * %du + row%d * %du + vector%d] = %s;", size/width, i,
				r.Tile.TN/width, i, o.Value)
			continue
		}
		for j := range width {
			r.line("workspace[slot * %du + row%d * %du + %s] = %s;", size, i, r.Tile.TN,
				r.column(width, i, j), component(width, o.Value, j))
		}
	}
}

// storeC writes C = alpha*value + beta*C, with the epilogue. Reads of C beyond the tile are as harmless as
// those of A and B. Stores are not, and are guarded one by one unless the tile is whole.
func (r *renderer) storeC(width int, outputs []output) {
	r.centre(width, outputs)
	for i, o := range outputs {
		r.placeC(width, i)
		r.line("%s = alpha * %s;", o.Value, o.Value)
	}
	store := func(body func()) { body() }
	if r.kernel.Epilogue.Gated {
		store = func(body func()) { r.block("if (second)", body) }
	}
	narrow := r.kernel.TypeC != element.F32
	r.owners(func() {
		r.scale(width, outputs)
		if !r.kernel.Epilogue.Gated {
			r.addC(width, outputs)
		}
		r.dress(width, outputs)
		if !narrow {
			store(func() { r.storeOutputs(width, outputs) })
		}
	})
	if narrow {
		store(func() { r.storeNarrow(width, outputs) })
	}
}

// addC adds beta*C to outputs.
func (r *renderer) addC(width int, outputs []output) {
	// This clears the sign bit. WGSL lets a compiler assume that there is no NaN, and then beta != 0.0 is an
	// ordered comparison, which is false for NaN.
	r.block("if ((bitcast<u32>(beta) & 0x7fffffffu) != 0u)", func() {
		for i, o := range outputs {
			old := fmt.Sprintf("loadC(atC%d)", i)
			if r.kernel.TypeC == element.F32 {
				old = pack(each(width, func(j int) string { return r.elementC(i, j) }))
			}
			r.line("%s = fma(%s, %s, %s);", o.Value, splat(width, "beta"), old, o.Value)
		}
	})
}

// storeOutputs stores the outputs that exist.
func (r *renderer) storeOutputs(width int, outputs []output) {
	if r.kernel.Epilogue.Scatter {
		r.storeSome(width, outputs)
		return
	}
	r.ifElse(fmt.Sprintf("rows == %du && cols == %du", r.Tile.TM, r.Tile.TN), func() {
		for i, o := range outputs {
			for j := range width {
				r.line("%s = %s;", r.elementC(i, j), component(width, o.Value, j))
			}
		}
	}, func() { r.storeSome(width, outputs) })
}

// storeSome stores the outputs that exist, one by one.
func (r *renderer) storeSome(width int, outputs []output) {
	for i, o := range outputs {
		r.block(fmt.Sprintf("if (%s)", r.stored(i)), func() {
			for j := range width {
				r.line("if (%s < cols) { %s = %s; }", r.column(width, i, j), r.elementC(i, j),
					component(width, o.Value, j))
			}
		})
	}
}

// elementC returns element j of output i in C of fp32.
func (r *renderer) elementC(i, j int) string {
	return "C[" + plus(fmt.Sprintf("atC%d", i), j*r.apart()) + "]"
}
