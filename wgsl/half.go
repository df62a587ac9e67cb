package wgsl

import (
	"fmt"

	"github.com/batchgemm/batchgemm/planner/element"
)

// Elements of 16 bits lie two in a word of 32, the first in the low half: WGSL has none of
// its own without an extension. Shaders compute with the numbers that they stand for.

// narrow is how WGSL reads and writes a type of 16 bits: numbers of the two elements of a
// word, and bits of an element, as element.Type.Bits has them. The latter is of integers
// alone, since WGSL leaves open how floats are rounded, and lets compilers assume that they
// are neither NaN nor infinite.
type narrow struct{ numbers, bits string }

var narrows = map[element.Type]narrow{
	element.BF16: {
		numbers: `
fn numbers(word: u32) -> vec2<f32> {
	return bitcast<vec2<f32>>(vec2<u32>(word << 16u, word & 0xffff0000u));
}
`,
		bits: `
fn bits(number: f32) -> u32 {
	let x = bitcast<u32>(number);
	let quiet = (x >> 16u) | 0x40u;
	return select(nearest(x, 16u), quiet, (x & 0x7fffffffu) > 0x7f800000u);
}
`,
	},
	// Bits of 2^-14 and more have 112 less in the exponent. What is smaller is a multiple of
	// 2^-24, and 0 below 2^-25.
	element.F16: {
		numbers: `
fn numbers(word: u32) -> vec2<f32> {
	return unpack2x16float(word);
}
`,
		bits: `
fn bits(number: f32) -> u32 {
	let x = bitcast<u32>(number);
	let size = x & 0x7fffffffu;
	let small = size < 0x38800000u;
	let shift = clamp(126u - min(size >> 23u, 126u), 13u, 25u);
	let whole = select(size - 0x38000000u, (size & 0x7fffffu) | 0x800000u, small);
	let rounded = min(nearest(whole, shift), 0x7c00u);
	return ((x >> 16u) & 0x8000u) | select(rounded, 0x7e00u, size > 0x7f800000u);
}
`,
	},
}

// oneNumber is the element of a word that a shift brings to its low half, fourNumbers are the
// elements of two words.
const oneNumber = `
fn number(word: u32, half: u32) -> f32 {
	return numbers(word >> half).x;
}
`

const fourNumbers = `
fn four(words: vec2<u32>) -> vec4<f32> {
	return vec4<f32>(numbers(words.x), numbers(words.y));
}
`

// nearest is without the lowest bits, rounded, of two numbers as near to the even one.
const nearest = `
fn nearest(x: u32, shift: u32) -> u32 {
	return (x + (1u << (shift - 1u)) - 1u + ((x >> shift) & 1u)) >> shift;
}
`

// storesC writes the first n of up to 4 elements, which lie in two words or three. Other
// workgroups may write the other half of a word at the same time, which the exclusive or
// leaves as it is. Nobody else writes the half in the mask: it is what was loaded.
const storesC = `
fn pair(first: f32, second: f32) -> u32 {
	return bits(first) | (bits(second) << 16u);
}

fn maskOf(n: u32) -> u32 {
	return select(0u, 0xffffu, n > 0u) | select(0u, 0xffff0000u, n > 1u);
}

fn aligned(before: u32, word: u32, odd: bool) -> u32 {
	return select(word, (before >> 16u) | (word << 16u), odd);
}

fn storeWord(at: u32, mask: u32, word: u32) {
	if (mask == 0xffffffffu) {
		atomicStore(&C[at], word);
	} else {
		if (mask != 0u) {
			atomicXor(&C[at], (atomicLoad(&C[at]) ^ word) & mask);
		}
	}
}

fn storeC(at: u32, n: u32, low: u32, high: u32) {
	let odd = at % 2u == 1u;
	let lowMask = maskOf(n);
	let highMask = maskOf(max(n, 2u) - 2u);
	storeWord(at / 2u, aligned(0u, lowMask, odd), aligned(0u, low, odd));
	storeWord(at / 2u + 1u, aligned(lowMask, highMask, odd), aligned(low, high, odd));
	storeWord(at / 2u + 2u, aligned(highMask, 0u, odd), aligned(high, 0u, odd));
}
`

// accessors writes the functions by which elements of 16 bits are read and written.
func (r *renderer) accessors() {
	if of := r.kernel.Type; of != element.F32 {
		r.text.WriteString(narrows[of].numbers + oneNumber)
		if r.a.Wide || r.b.Wide {
			r.text.WriteString(fourNumbers)
		}
	}
	of := r.kernel.TypeC
	if of == element.F32 {
		return
	}
	if r.kernel.Fixup {
		r.text.WriteString(narrows[of].numbers + oneNumber)
	}
	r.one("C", "atomicLoad(&C[at / 2u])")
	r.text.WriteString(nearest + narrows[of].bits + storesC)
}

// one writes the load of one element.
func (w *writer) one(name, word string) {
	w.line("")
	w.block("fn load"+name+"(at: u32) -> f32", func() {
		w.line("return number(%s, %s);", word, halfAt("at"))
	})
}

// half names the shift to an element's half of its word. Positions that lie an even number of
// elements apart have it in common, and so have all K steps.
func (o *operand) half(along, row int) string {
	return fmt.Sprintf("half%s%d%d", o.name, along%2, row%2)
}

// startHalves sets an item's shifts.
func (o *operand) startHalves(w *writer) {
	if !o.narrow() || o.Wide || o.gather {
		return
	}
	seen := map[string]bool{}
	for _, b := range o.Blocks {
		for i := range o.rows() {
			row := b.Across*o.rows() + i
			if name := o.half(b.Along, row); !seen[name] {
				seen[name] = true
				w.line("let %s = %s;", name, halfAt(o.at(b.Along%2, row%2)))
			}
		}
	}
}

func halfAt(at string) string { return "16u * (" + rest(at, 2) + ")" }

// number is what register b holds, as numbers. Made of it at the loads, they would wait for
// these before the K step that runs beside them.
func (o *operand) number(b int, block block) string {
	register := o.register(b)
	switch {
	case !o.narrow():
		return register
	case o.Wide:
		return "four(" + register + ")"
	}
	all := make([]string, o.Span)
	for i := range all {
		row := block.Across*o.rows() + i
		half := o.half(block.Along, row)
		if o.gather { // a register for each row would be too many
			half = halfAt(o.at(block.Along, row))
		}
		all[i] = fmt.Sprintf("number(%s, %s)", component(o.Span, register, i), half)
	}
	return pack(all)
}

// bindC declares C.
func (r *renderer) bindC() {
	of := "f32"
	if r.kernel.TypeC != element.F32 {
		of = "atomic<u32>"
	}
	r.bind(BindC, "read_write", "C", of)
}

// storeNarrow writes what exists of the outputs to C of 16 bits.
func (r *renderer) storeNarrow(width int, outputs []output) {
	for i, o := range outputs {
		words := []string{"0u", "0u"}
		for j := 0; j < width; j += 2 {
			if width == 1 {
				words[0] = "bits(" + o.Value + ")"
			} else {
				words[j/2] = fmt.Sprintf("pair(%s, %s)", component(width, o.Value, j), component(width, o.Value, j+1))
			}
		}
		r.block(fmt.Sprintf("if (%s)", r.stored(i)), func() {
			left := fmt.Sprintf("cols - min(%s, cols)", times(width, fmt.Sprintf("vector%d", i)))
			r.line("storeC(atC%d, min(%s, %du), %s, %s);", i, left, width, words[0], words[1])
		})
	}
}
