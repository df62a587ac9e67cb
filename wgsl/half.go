package wgsl

import (
	"fmt"
	"slices"

	"github.com/batchgemm/batchgemm/planner/element"
)

// Elements of 16 bits lie two in a word of 32, the first in the low half: WGSL has none of
// its own without an extension. Shaders compute with the numbers that they stand for.

// narrow is how WGSL reads and writes a type of 16 bits: numbers of the two elements of a
// word, and the word of a pair of float32s, given by their bits, with the bits that
// element.Type.Bits has. The latter is of integers alone, since WGSL leaves open how floats are
// rounded, and lets compilers assume that they are neither NaN nor infinite. Of rare numbers it is
// of what tame makes of them. Function rare is told the sum of the sizes of all numbers of a
// thread, and, if small ones are rare, the least of twice their bits, less 1 so that 0 is large.
type narrow struct {
	numbers, pair, rare, tame string
	small                     bool
}

var narrows = map[element.Type]narrow{
	element.BF16: {
		numbers: `
fn numbers(word: u32) -> vec2<f32> {
	return bitcast<vec2<f32>>(vec2<u32>(word << 16u, word & 0xffff0000u));
}
`,
		pair: `
fn rounded(x: u32) -> u32 {
	return x + 0x7fffu + ((x >> 16u) & 1u);
}

fn pair(first: u32, second: u32) -> u32 {
	return (rounded(first) >> 16u) | (rounded(second) & 0xffff0000u);
}
`,
		rare: `
fn rare(sum: f32) -> bool {
	return (bitcast<u32>(sum) & 0x7fffffffu) > 0x7f800000u;
}
`,
		tame: `
fn tame(x: u32) -> u32 {
	return select(x, (x | 0x400000u) & 0xffff0000u, (x & 0x7fffffffu) > 0x7f800000u);
}
`,
	},
	// Bits of 2^-14 and more have 112 less in the exponent. What is smaller is a multiple of
	// 2^-24, and 0 below 2^-25. Few numbers but 0 are so small, or too large.
	element.F16: {
		numbers: `
fn numbers(word: u32) -> vec2<f32> {
	return unpack2x16float(word);
}
`,
		pair: `
fn nearest(x: u32, shift: u32) -> u32 {
	return (x + (1u << (shift - 1u)) - 1u + ((x >> shift) & 1u)) >> shift;
}

fn rounded(x: u32) -> u32 {
	return nearest(max(x & 0x7fffffffu, 0x38000000u) - 0x38000000u, 13u);
}

fn pair(first: u32, second: u32) -> u32 {
	return rounded(first) | (rounded(second) << 16u) | ((first >> 16u) & 0x8000u) | (second & 0x80000000u);
}
`,
		rare: `
fn rare(sum: f32, least: u32) -> bool {
	return (bitcast<u32>(sum) & 0x7fffffffu) >= 0x47800000u || least < 0x70ffffffu;
}
`,
		// What is the same as a float32, so that nothing is left to round.
		tame: `
fn extreme(size: u32) -> u32 {
	if (size >= 0x38800000u) {
		return select(0x7c00u, 0x7e00u, size > 0x7f800000u);
	}
	return nearest((size & 0x7fffffu) | 0x800000u, min(126u - (size >> 23u), 25u));
}

fn tame(x: u32) -> u32 {
	let size = x & 0x7fffffffu;
	if (size >= 0x47800000u || (size < 0x38800000u && size != 0u)) {
		return (x & 0x80000000u) | (0x38000000u + (extreme(size) << 13u));
	}
	return x;
}
`,
		small: true,
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
	r.text.WriteString(narrows[of].pair + narrows[of].rare + narrows[of].tame + storesC)
}

// one writes the load of one element.
func (w *writer) one(name, word string) {
	w.line("")
	w.block("fn load"+name+"(at: u32) -> f32", func() {
		w.line("return number(%s, %s);", word, halfAt("at"))
	})
}

// class is what positions an even number of elements and rows apart have in common: the half of
// a word, at all K steps. Each has a variable for the word and one for the shift.
type class struct{ along, row int }

func classOf(along, row int) class { return class{along % 2, row % 2} }

func (o *operand) variable(what string, c class) string {
	return fmt.Sprintf("%s%s%d%d", what, o.name, c.along, c.row)
}

// classes are those of a thread's positions. Gathered rows have none.
func (o *operand) classes() (all []class) {
	if !o.narrow() || o.Wide || o.gather {
		return nil
	}
	for _, b := range o.Blocks {
		for i := range o.rows() {
			if c := classOf(b.Along, b.Across*o.rows()+i); !slices.Contains(all, c) {
				all = append(all, c)
			}
		}
	}
	return all
}

// startWords sets an item's first words and shifts.
func (o *operand) startWords(w *writer) {
	for _, c := range o.classes() {
		at := o.at(c.along, c.row)
		w.line("%s = %s;", o.variable("word", c), over(at, 2))
		w.line("let %s = %s;", o.variable("half", c), halfAt(at))
	}
}

// word is where the word of an element lies, so far from the thread's first one.
func (o *operand) word(along, row int) string {
	if o.gather {
		return over(o.at(along, row), 2)
	}
	at := plus(o.variable("word", classOf(along, row)), along/2)
	if row > 1 {
		at += " + " + times(row/2, "ld"+o.name)
	}
	return at
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
		half := o.variable("half", classOf(block.Along, row))
		if o.gather { // a register for each row would be too many
			half = halfAt(o.at(block.Along, row))
		}
		all[i] = fmt.Sprintf("number(%s, %s)", component(o.Span, register, i), half)
	}
	return pack(all)
}
