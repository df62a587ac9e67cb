package wgsl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/batchgemm/batchgemm/planner/element"
)

// A 32-bit word holds two 16-bit elements, the first in the low half, or four 8-bit elements: without an
// extension, WGSL has no such types. Shaders compute with their values in fp32.

// narrow is how WGSL reads and writes a 16-bit type: the numbers of the two elements of a word, the four of
// two words, and the word of a pair of float32, given by their bits, which rounds like element.Narrow.
// pair uses only integers, because WGSL does not define how floats are rounded, and lets compilers assume
// that they are neither NaN nor infinite. Rare numbers are first replaced by tame. rare gets the sum of the
// magnitudes of all numbers of a thread and, if small numbers are rare, the least of twice their bits, less
// 1 so that 0 is large. For 8 bits, which C never has, numbers are the first and the third element of a
// word, and four has all.
type narrow struct {
	numbers, four, pair, rare, tame string
	small                           bool
}

var narrows = map[element.Type]narrow{
	element.BF16: {
		numbers: `
fn numbers(word: u32) -> vec2<f32> {
	return bitcast<vec2<f32>>(vec2<u32>(word << 16u, word & 0xffff0000u));
}
`,
		four: fourOfPairs,
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
	// The exponent of 2^-14 and more is 112 less. Smaller numbers are multiples of 2^-24, and 0 below 2^-25.
	// Few numbers except 0 are so small, or too large.
	element.F16: {
		numbers: `
fn numbers(word: u32) -> vec2<f32> {
	return unpack2x16float(word);
}
`,
		four: fourOfPairs,
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
		// The result as a float32 that needs no further rounding.
		tame: `
fn tame(x: u32) -> u32 {
	let size = x & 0x7fffffffu;
	let small = nearest((size & 0x7fffffu) | 0x800000u, 126u - min(max(size >> 23u, 101u), 125u));
	let extreme = select(small, select(0x7c00u, 0x7e00u, size > 0x7f800000u), size >= 0x38800000u);
	let tamed = (x & 0x80000000u) | (0x38000000u + (extreme << 13u));
	return select(x, tamed, size >= 0x47800000u || size < 0x38800000u);
}
`,
		small: true,
	},
	// Bits like those of an fp16 of 1/256 of the number: the same bits have exponents 8 larger. 480 would be
	// NaN: adding 1 to the largest magnitude carries into a bit that makes its exponent that of NaN.
	element.E4M3: {
		numbers: `
fn numbers(word: u32) -> vec2<f32> {
	let size = word & 0x7f007fu;
	let nan = (size + 0x10001u) & 0x800080u;
	return 256.0 * unpack2x16float((size << 7u) | ((word & 0x800080u) << 8u) | (nan << 7u));
}
`,
		four: `
fn four(word: u32) -> vec4<f32> {
	let even = numbers(word);
	let odd = numbers(word >> 8u);
	return vec4<f32>(even.x, odd.x, even.y, odd.y);
}
`,
	},
	// Shifts of signed integers preserve the sign.
	element.Int8: {
		numbers: `
fn numbers(word: u32) -> vec2<f32> {
	return vec2<f32>(bitcast<vec2<i32>>(vec2<u32>(word << 24u, word << 8u)) >> vec2<u32>(24u));
}
`,
		four: `
fn four(word: u32) -> vec4<f32> {
	return vec4<f32>(bitcast<vec4<i32>>(vec4<u32>(word << 24u, word << 16u, word << 8u, word)) >> ` +
			`vec4<u32>(24u));
}
`,
	},
}

const fourOfPairs = `
fn four(words: vec2<u32>) -> vec4<f32> {
	return vec4<f32>(numbers(words.x), numbers(words.y));
}
`

// numberText is the function that reads the element that a shift brings to the low bits of a word.
const numberText = `
fn number(word: u32, half: u32) -> f32 {
	return numbers(word >> half).x;
}
`

// suffixC returns the suffix of the functions that read C: that of A and B, unless their type differs.
func (r *renderer) suffixC() string {
	if r.kernel.Fixup || r.kernel.TypeA == r.kernel.TypeC {
		return ""
	}
	return "C"
}

// accessors writes the functions that read and write narrow elements. They write vectors of that width.
func (r *renderer) accessors(width int) {
	if r.dot() {
		r.dotText()
	}
	if of := r.kernel.TypeA; of != element.F32 && !r.dot() {
		r.text.WriteString(narrows[of].numbers + numberText)
		if runs := r.a.run() || r.b.run(); r.a.Vector || r.b.Vector || runs {
			r.text.WriteString(narrows[of].four)
			if runs {
				r.text.WriteString(shiftedWord(of))
			}
		}
	}
	if r.b.packed() {
		if r.b.signed() {
			r.text.WriteString(signedWeights + scalesFP4[r.b.of])
		} else {
			r.text.WriteString(packedWeights)
		}
	}
	of := r.kernel.TypeC
	if of == element.F32 {
		return
	}
	if suffix := r.suffixC(); r.kernel.Fixup || suffix != "" {
		r.text.WriteString(strings.Replace(narrows[of].numbers, "fn numbers", "fn numbers"+suffix, 1))
	}
	r.loadVector("C", "atomicLoad(&C[%s])", width)
	if r.kernel.Epilogue.Bias {
		r.loadVector("Bias", "Bias[%s]", width)
	}
	r.text.WriteString(narrows[of].pair + narrows[of].rare + narrows[of].tame + storesC)
	r.vectorFunctions(width)
}

// loadVector writes the load of adjacent elements of C's type, which may start in the middle of a word.
func (r *renderer) loadVector(name, load string, width int) {
	r.line("")
	r.block(fmt.Sprintf("fn load%s(at: u32) -> %s", name, vec(width)), func() {
		numbers := make([]string, width/2)
		for i := range width/2 + 1 {
			r.line("let word%d = %s;", i, fmt.Sprintf(load, plus("at / 2u", i)))
		}
		for i := range numbers {
			pair := fmt.Sprintf("select(word%d, (word%d >> 16u) | (word%d << 16u), at %% 2u != 0u)", i, i,
				i+1)
			numbers[i] = "numbers" + r.suffixC() + "(" + pair + ")"
		}
		r.line("return %s(%s);", vec(width), strings.Join(numbers, ", "))
	})
}

// class is what positions have in common that are whole words and the same number of rows apart: their place
// in a word, at all K steps. A class has a variable for the word and one for the shift.
type class struct{ along, row int }

func (o *operand) classOf(along, row int) class { return class{along % o.per(), row % o.per()} }

func (o *operand) variable(what string, c class) string {
	return fmt.Sprintf("%s%s%d%d", what, o.name, c.along, c.row)
}

// classes returns the classes of a thread's positions. Gathered rows have none, nor has Int4, which is
// loaded in whole words.
func (o *operand) classes() (all []class) {
	if !o.narrow() || o.Vector || o.gather || o.packed() {
		return nil
	}
	for _, b := range o.Blocks {
		for _, p := range o.places(b) {
			if c := o.classOf(p.along, p.row); !slices.Contains(all, c) {
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
		w.line("%s = %s;", o.variable("word", c), over(at, o.per()))
		w.line("let %s = %s;", o.variable("half", c), shiftAt(at, o.per()))
	}
}

// word returns where the word of an element lies, at that distance from the thread's first one.
func (o *operand) word(along, row int) string {
	if o.gather {
		return over(o.at(along, row), o.per())
	}
	at := plus(o.variable("word", o.classOf(along, row)), along/o.per())
	if rows := row / o.per(); rows > 0 {
		at += " + " + times(rows, "ld"+o.name)
	}
	return at
}

// shiftAt returns the shift that brings an element to the low bits of its word, which has `per` elements.
func shiftAt(at string, per int) string { return fmt.Sprintf("%du * (%s)", 32/per, rest(at, per)) }

// number returns the content of register b as numbers. Converting at the loads would make the K step that
// runs beside them wait.
func (o *operand) number(b int, block block) string {
	register := o.register(b)
	switch {
	case !o.narrow():
		return register
	case o.Vector:
		return "four(" + register + ")"
	}
	var all []string
	for i, p := range o.places(block) {
		half := o.variable("half", o.classOf(p.along, p.row))
		if o.gather { // a register for each row would be too many
			half = shiftAt(o.at(p.along, p.row), o.per())
		}
		if o.run() {
			return o.runNumbers(components(o.runWords(), register), half)
		}
		all = append(all, fmt.Sprintf("number(%s, %s)", component(o.Span, register, i), half))
	}
	return pack(all)
}

// runNumbers returns the numbers of a run from its words. If half is not 0, the first word starts with an
// element of others.
func (o *operand) runNumbers(words []string, half string) string {
	shifted := make([]string, len(words)-1)
	for i := range shifted {
		shifted[i] = fmt.Sprintf("shifted(%s, %s, %s)", words[i], words[i+1], half)
	}
	numbers := "numbers(" + shifted[0] + ")"
	if o.Span == 4 || o.per() == 4 {
		numbers = "four(" + packOf("u32", shifted) + ")"
	}
	if o.Span == 2 && o.per() == 4 {
		numbers += ".xy"
	}
	return numbers
}

// shiftedWord returns the function that makes a word from two words, for numbers that start within the
// first. 16-bit elements start in the middle, where constant shifts take one instruction.
func shiftedWord(of element.Type) string {
	parts := "(word >> half) | (next << (32u - half))"
	if of.PerWord() == 2 {
		parts = "(word >> 16u) | (next << 16u)"
	}
	return fmt.Sprintf(`
fn shifted(word: u32, next: u32, half: u32) -> u32 {
	return select(word, %s, half != 0u);
}
`, parts)
}
