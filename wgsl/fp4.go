package wgsl

import (
	"fmt"
	"slices"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/planner/element"
)

// B of MXFP4 and NVFP4 goes the way of Int4 (int4.go). A word has four scales, and a load shifts that of its
// weights to the lowest byte.

// signedWeights returns four weights of a word, like weights of Int4. Exponent and fraction are put in those
// bits of a float32 from 0.5 on. There 0 and 0.5 are 0.5 and 0.75, as no number is subnormal: devices may
// take such as 0.
const signedWeights = `
fn weights(word: u32) -> vec4<f32> {
	let bits = (vec4<u32>(word) << vec4<u32>(22u, 18u, 14u, 10u)) & vec4<u32>(0x01c00000u);
	let signs = (vec4<u32>(word) << vec4<u32>(28u, 24u, 20u, 16u)) & vec4<u32>(0x80000000u);
	let sizes = bitcast<vec4<f32>>(bits + vec4<u32>(0x3f000000u));
	let right = min(sizes, 2.0 * sizes - vec4<f32>(1.0));
	return bitcast<vec4<f32>>(bitcast<vec4<u32>>(right) | signs);
}
`

// scalesFP4 are the functions that return the scale in the lowest byte of a word. WGSL knows no constant NaN.
var scalesFP4 = map[element.Type]string{element.MXFP4: `
fn scaleOf(word: u32) -> f32 {
	let exponent = word & 255u;
	return bitcast<f32>(select(max(exponent << 23u, 0x00400000u), 0x7fc00000u, exponent == 255u));
}
`, element.NVFP4: `
fn scaleOf(word: u32) -> f32 {
	let size = word & 127u;
	let small = bitcast<u32>(f32(size) * 0.001953125);
	let bits = select((size << 20u) + 0x3c000000u, small, size < 8u);
	return bitcast<f32>(select(bits, 0x7fc00000u, size == 127u) | ((word & 128u) << 24u));
}
`}

// weights returns the expression for four weights of a column's word.
func (o *operand) weights(word string, column int) string {
	if o.signed() {
		return fmt.Sprintf("weights(%s)", word)
	}
	return fmt.Sprintf("weights(%s, zeros%d)", word, column)
}

// scaleInWord returns which scale of its word is that of a block.
func (o *operand) scaleInWord(block block) string {
	return rest(over(plus("at"+o.name, block.Along), 8*elemtype.Words4(o.of)/o.unit()), 4)
}

// columnScale returns the variable with the scale of a column.
func (o *operand) columnScale(across int) string { return fmt.Sprintf("column%s%d", o.name, across) }

// startColumns loads the scales of the thread's columns.
func (o *operand) startColumns(w *writer) {
	var done []int
	for _, b := range o.Blocks {
		if !slices.Contains(done, b.Across) {
			done = append(done, b.Across)
			w.line("let %s = bitcast<f32>(indices[%s]);", o.columnScale(b.Across),
				plus(fmt.Sprintf("scale%sAt + across%s", o.name, o.name), b.Across))
		}
	}
}
