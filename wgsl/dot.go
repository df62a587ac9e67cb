package wgsl

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner/element"
)

// With Limits.Dot, kernels of Int8 count k in words of four: workgroup memory holds words, and a product is a
// dot product of two words. K-major words are loaded where they start, from two words if need be. Others
// have four columns, or rows: a thread turns four words of four k around before it stores them. Beyond K the
// words of A are zero, so those of B may be anything. planner.MaxWholeK keeps sums within 32
// bits.

// dots: only browsers have such a WGSL. Other programs carry nothing of it.
const dots = runtime.GOOS == "js"

// perDot is the number of k in a word.
const perDot = 4

// isDot reports whether a kernel's products are dot products.
func isDot(k encoding.Kernel, g *geometry) bool {
	return dots && k.TypeA == element.Int8 && k.TypeB() == element.Int8 && !g.B.Direct &&
		(k.Vector || k.TransB && !k.TransA)
}

func (r *renderer) useDots() {
	for _, o := range []*operand{&r.a, &r.b} {
		o.fours, o.bits, o.step = true, true, perDot*o.step
	}
	r.b.whole = r.kernel.Vector
}

func (r *renderer) dot() bool { return r.a.dot() }

func (o *operand) dot() bool { return dots && o.fours }

// turned reports whether words have four columns, or rows, when they are loaded.
func (o *operand) turned() bool { return o.dot() && !o.AlongK }

// dotText writes the functions that words need.
func (r *renderer) dotText() {
	if r.a.turned() || r.b.turned() {
		r.text.WriteString(turnText)
	}
	for _, of := range []struct {
		buffer string
		used   bool
	}{{"A", r.a.loose()}, {"B", r.b.loose()}, {"B2", r.b.loose() && r.b.gated}} {
		if of.used {
			r.text.WriteString(strings.ReplaceAll(wordText, "X", of.buffer))
		}
	}
}

// loose reports whether K-major words may start anywhere.
func (o *operand) loose() bool { return o.dot() && o.AlongK && !o.whole }

// declareEven declares whether words start where the buffer's do.
func (r *renderer) declareEven() {
	for _, o := range []*operand{&r.a, &r.b} {
		if o.loose() {
			r.line("let even%s = ((off%s | ld%s) & 3u) == 0u;", o.name, o.name, o.name)
		}
	}
}

// wordText is the function that returns the four k from a position on, of which the first word is loaded.
const wordText = `
fn wordX(first: u32, at: u32) -> u32 {
	let shift = 8u * (at % 4u);
	return (first >> shift) | ((X[at / 4u + 1u] << 1u) << (31u - shift));
}
`

// turnText makes the words of four columns with four k of words of four k with four columns.
const turnText = `
fn turn(words: vec4<u32>) -> vec4<u32> {
	let low = (words.xz & vec2<u32>(0xff00ffu)) | ((words.yw & vec2<u32>(0xff00ffu)) << vec2<u32>(8u));
	let high = ((words.xz >> vec2<u32>(8u)) & vec2<u32>(0xff00ffu)) | (words.yw & vec2<u32>(0xff00ff00u));
	return vec4<u32>((low.x & 0xffffu) | (low.y << 16u), (high.x & 0xffffu) | (high.y << 16u),
		(low.x >> 16u) | (low.y & 0xffff0000u), (high.x >> 16u) | (high.y & 0xffff0000u));
}
`

// finishDots makes words of four k of those that were loaded, and cuts the last word of A if the step has it.
// Conditions are those of the item: with one for each word, loads would wait for each other.
func (o *operand) finishDots(w *writer) {
	switch {
	case o.turned():
		o.eachBlock(w, func(b int, _ block) { w.line("%s = turn(%s);", o.register(b), o.register(b)) })
	case o.loose():
		w.block("if (!even"+o.name+")", func() { o.fromBuffer(w, o.complete) })
	}
	if o.name != "A" {
		return
	}
	w.block(fmt.Sprintf("if (left <= %du && depth %% 4u != 0u)", o.step/perDot), func() {
		o.eachBlock(w, func(b int, block block) {
			at := plus("alongA", block.Along)
			if o.turned() {
				at = plus("acrossA", block.Across)
			}
			mask := fmt.Sprintf("select(0xffffffffu, cut, %s == left - 1u)", at)
			w.line("%s = %s & %s;", o.register(b), o.register(b), splatOf("u32", o.Span, mask))
		})
	})
}

// complete adds the next word to words that start within one.
func (o *operand) complete(buffer string, w *writer) {
	o.eachBlock(w, func(b int, block block) {
		words := components(o.Span, o.register(b))
		for i, p := range o.places(block) {
			word := fmt.Sprintf("word%s(%s, %s)", buffer, words[i], o.at(p.along, p.row))
			words[i] = o.existing(word, p.row)
		}
		w.line("%s = %s;", o.register(b), packOf("u32", words))
	})
}

// multiplyDots writes the K loop of an item, and makes floats of the sums.
func (r *renderer) multiplyDots() {
	r.line("let cut = 0xffffffffu >> (8u * ((0u - depth) %% 4u));")
	r.multiplySteps("(depth + 3u) / 4u")
	for i := range r.Accumulators {
		r.line("%s = %s(%s);", accumulator(i), vec(r.B.Element), r.sum(i))
	}
}

// addDots adds the products of a word of a row and a vector of words of columns.
func (r *renderer) addDots(i int, a, b string) {
	products := each(r.B.Element, func(j int) string {
		return fmt.Sprintf("dot4I8Packed(%s, %s)", a, component(r.B.Element, b, j))
	})
	r.line("%s = %s + %s;", r.sum(i), r.sum(i), packOf("i32", products))
}

// sum returns the variable of a sum of dot products.
func (r *renderer) sum(i int) string { return fmt.Sprintf("dots%d", i) }
