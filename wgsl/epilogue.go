package wgsl

import (
	"fmt"
	"math"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Epilogues work in registers, between the sums of a tile and C. In a gated tile, a thread keeps the first
// product in registers until it has the same elements of the second product. The two items follow each other
// in one iteration of its worker.

// activations are the texts of activate. They detect NaN by its bits, because WGSL lets a compiler assume
// that there is none. Numbers below -88 have bits from those of -88 to those of -Inf.
var activations = map[encoding.Activation]string{
	encoding.ReLU: `
fn activate(v: f32) -> f32 {
	return select(v, 0.0, bitcast<u32>(v) - 0x80000000u <= 0x7f800000u);
}
`,
	encoding.SiLU: gatedText("v"),
	encoding.GELU: gatedText(fmt.Sprintf("v * (%v + %v * v * v)", encoding.GELULinear, encoding.GELUCubic)),
}

// gatedText returns the text of v*sigmoid(z).
func gatedText(z string) string {
	least := math.Float32bits(encoding.SigmoidLeast)
	return fmt.Sprintf(`
fn activate(v: f32) -> f32 {
	let z = %s;
	return select(v / (1.0 + exp(-z)), 0.0, bitcast<u32>(z) - %#xu <= %#xu);
}
`, z, least, math.Float32bits(float32(math.Inf(-1)))-least)
}

// bindEpilogue declares the buffers of an epilogue.
func (r *renderer) bindEpilogue() {
	e := &r.kernel.Epilogue
	if e.Gated && !r.kernel.Fixup {
		r.bind(encoding.BindB2, "B2", r.b.global())
	}
	if e.Bias {
		of := "f32"
		if r.kernel.TypeC != element.F32 {
			of = "u32"
		}
		r.bind(encoding.BindBias, "Bias", of)
	}
	if e.Gather || e.Scatter || e.Weights || e.Scaled() {
		r.bind(encoding.BindRows, "indices", "u32")
	}
}

// epilogueFunctions writes the functions that an epilogue calls.
func (r *renderer) epilogueFunctions() {
	r.text.WriteString(activations[r.kernel.Epilogue.Activation])
}

// epilogueWords unpacks the words of an item, or of a fix-up item, for an epilogue.
func (r *renderer) epilogueWords() {
	e := &r.kernel.Epilogue
	scatterAt, scatterRows, weightsAt, biasAt := word(encoding.ScatterAt), word(encoding.ScatterRows),
		word(encoding.WeightsAt), word(encoding.BiasAt)
	gatherAt, gatherRows, scaleAAt, scaleBAt := word(encoding.GatherAt), word(encoding.GatherRows),
		word(encoding.ScaleAAt), word(encoding.ScaleBAt)
	if r.kernel.Fixup {
		scatterAt, scatterRows, weightsAt, biasAt = word(encoding.FixupScatterAt),
			word(encoding.FixupScatterRows), word(encoding.FixupWeightsAt), word(encoding.FixupBiasAt)
		gatherAt, gatherRows, scaleAAt, scaleBAt = word(encoding.FixupGatherAt),
			word(encoding.FixupGatherRows), word(encoding.FixupScaleAAt), word(encoding.FixupScaleBAt)
	}
	for _, v := range []struct {
		used       bool
		name, word string
	}{
		{e.Gather, "gatherAt", gatherAt}, {e.Gather, "gatherRows", gatherRows},
		{e.Scatter, "scatterAt", scatterAt}, {e.Scatter, "scatterRows", scatterRows},
		{e.Weights, "weightsAt", weightsAt}, {e.Bias, "biasAt", biasAt},
		{e.ScaleA != "", "scaleAAt", scaleAAt}, {e.ScaleB != "", "scaleBAt", scaleBAt},
	} {
		if v.used {
			r.line("let %s = %s;", v.name, v.word)
		}
	}
	if e.Gated {
		r.line("let second = (%s & %du) != 0u;", word(encoding.Flags), encoding.ItemSecond)
	}
}

// declareGates declares a register for each output of a thread.
func (r *renderer) declareGates() {
	n := r.Accumulators
	if r.Groups > 1 {
		n = r.Accumulators / r.Chunk * max(1, r.Chunk/r.Groups)
	}
	if r.rolled() {
		r.line("var gates: array<%s, %d>;", vec(r.B.Element), n)
		return
	}
	for i := range n {
		r.line("var %s: %s;", r.gate(i), vec(r.B.Element))
	}
}

// gate returns the register that keeps output i of a gated tile's first product.
func (r *renderer) gate(i int) string {
	if !r.rolled() {
		return fmt.Sprintf("gate%d", i)
	}
	each := r.atOnce() / max(1, r.atOnce()/r.Groups) // accumulators of an output
	return "gates[" + plus(over("done", each), i) + "]"
}

// dress applies the epilogue to outputs, which are alpha*A*B + beta*C.
func (r *renderer) dress(width int, outputs []output) {
	e := &r.kernel.Epilogue
	if e.Bias {
		for i, o := range outputs {
			bias := r.ofColumns("bias", i, func(i int) string { return r.bias(width, i) })
			r.line("%s = %s + %s;", o.Value, o.Value, bias)
		}
	}
	activate := func() {
		for _, o := range outputs {
			r.line("%s = %s;", o.Value, r.activated(width, o.Value))
		}
	}
	switch {
	case e.Gated:
		r.ifElse("second", func() {
			for i, o := range outputs {
				r.line("%s = %s * %s;", o.Value, r.gate(i), o.Value)
			}
		}, func() {
			activate()
			for i, o := range outputs {
				r.line("%s = %s;", r.gate(i), o.Value)
			}
		})
	case e.Activation != "":
		activate()
	}
	if e.Weights {
		for i, o := range outputs {
			weight := r.ofRow("weight", i, func(i int) string {
				return fmt.Sprintf("bitcast<f32>(indices[weightsAt + row%d])", i)
			})
			r.line("%s = %s * %s;", o.Value, weight, o.Value)
		}
	}
}

// bias returns the bias of the columns of an output.
func (r *renderer) bias(width, i int) string {
	if r.kernel.TypeC != element.F32 {
		return "loadBias(biasAt + " + r.column(width, i, 0) + ")"
	}
	return pack(each(width, func(j int) string { return "Bias[biasAt + " + r.column(width, i, j) + "]" }))
}

// activated returns the activation of each element of a vector.
func (r *renderer) activated(width int, value string) string {
	if r.kernel.Epilogue.Activation == "" {
		return value
	}
	return pack(each(width, func(j int) string { return "activate(" + component(width, value, j) + ")" }))
}

// placeC writes where an output goes in C.
func (r *renderer) placeC(width, i int) {
	row := fmt.Sprintf("row%d", i)
	if r.kernel.Epilogue.Scatter {
		r.line("let to%d = indices[scatterAt + row%d];", i, i)
		r.line("let kept%d = row%d < rows && to%d < scatterRows;", i, i, i)
		row = fmt.Sprintf("to%d", i)
	}
	r.line("let atC%d = offC + %s * ldC + %s;", i, row, r.column(width, i, 0))
}

// stored returns whether the row of an output is stored.
func (r *renderer) stored(i int) string {
	if r.kernel.Epilogue.Scatter {
		return fmt.Sprintf("kept%d", i)
	}
	return fmt.Sprintf("row%d < rows", i)
}

// gathered returns the variables of a row of A that a thread loads: its position at the first K, and whether
// the row exists.
func gathered(row int) (at, is string) {
	return fmt.Sprintf("atRow%d", row), fmt.Sprintf("isRow%d", row)
}

// gatheredRows returns the rows of A that a thread loads, counted from its first one.
func (o *operand) gatheredRows() (all []int) {
	seen := map[int]bool{}
	for _, b := range o.Blocks {
		for _, p := range o.places(b) {
			if !seen[p.row] {
				seen[p.row] = true
				all = append(all, p.row)
			}
		}
	}
	return all
}

// find sets where the rows of an item are. Rows that do not exist are read as the first row, and taken as 0.
func (o *operand) find(w *writer) {
	w.line("at%s = %s;", o.name, o.startAlong())
	if o.loads == 0 {
		o.findRows(w)
	}
}

func (o *operand) findRows(w *writer) {
	for _, row := range o.gatheredRows() {
		at, is := gathered(row)
		w.block("", func() {
			w.line("let index = indices[%s];", plus("gatherAt + "+times(o.rows(), "across"+o.name), row))
			w.line("%s = index < gatherRows;", is)
			w.line("%s = off%s + select(0u, index, %s) * ld%s;", at, o.name, is, o.name)
			if o.blocks {
				w.line("%s = scaleAAt + select(0u, index, %s) * blocks;", scalesOfGathered(row), is)
			}
		})
	}
}
