package wgsl

import (
	"fmt"

	"github.com/batchgemm/batchgemm/planner/element"
)

// C of 16 bits is stored in words. The thread that has the element at an even position stores the
// word, with the element behind it. Where rows begin at odd positions, another thread may have
// that one: threads tell each other the first element of each of their vectors. Halves of words
// are left where rows of the tile begin and end. Other workgroups may store the other half of
// such a word at the same time, which atomic operations on 16 of its bits leave as it is.

// storesC has storeWord for a word of a vector and what comes behind it, and startRow for the
// half of a word with which a row begins. Position end is behind the row's last element.
const storesC = `
fn storeHalf(at: u32, mask: u32, word: u32) {
	atomicAnd(&C[at / 2u], ~mask);
	atomicOr(&C[at / 2u], word & mask);
}

fn storeWord(at: u32, end: u32, word: u32, behind: u32) {
	let odd = at % 2u;
	let even = at + odd;
	let moved = select(word, (word >> 16u) | (behind << 16u), odd != 0u);
	if (even + 1u < end) {
		atomicStore(&C[even / 2u], moved);
	} else {
		if (even < end) { storeHalf(even, 0xffffu, moved); }
	}
}

fn startRow(at: u32, end: u32, word: u32) {
	if (at % 2u != 0u && at < end) { storeHalf(at, 0xffff0000u, word << 16u); }
}
`

// bindC declares C.
func (r *renderer) bindC() {
	of := "f32"
	if r.kernel.TypeC != element.F32 {
		of = "atomic<u32>"
	}
	r.bind(BindC, "read_write", "C", of)
}

// storeNarrow writes what exists of the outputs to C of 16 bits. All threads of the workgroup
// come here, since they meet where rows are odd.
func (r *renderer) storeNarrow(width int, outputs []output) {
	words := make([][]string, len(outputs)) // of each vector
	for i, o := range outputs {
		for j := range width / 2 {
			word := fmt.Sprintf("word%d%c", i, 'a'+j)
			words[i] = append(words[i], word)
			r.line("let %s = pair(%s, %s);", word, component(width, o.Value, 2*j), component(width, o.Value, 2*j+1))
		}
		if !r.kernel.Fixup {
			r.line("let edge%d = %s + vector%d;", i, times(r.Tile.TN/width, fmt.Sprintf("row%d", i)), i)
		}
	}
	r.line("let odd = (offC | ldC) %% 2u != 0u;")
	r.block("if (odd)", func() { r.tellEdges(words) })
	r.owners(func() {
		some := func() { r.storeWords(width, words) }
		if r.kernel.Epilogue.Scatter {
			some()
			return
		}
		r.ifElse(fmt.Sprintf("rows == %du && cols == %du && !odd", r.Tile.TM, r.Tile.TN), func() {
			for i, of := range words {
				for j, word := range of {
					r.line("atomicStore(&C[%s], %s);", plus(fmt.Sprintf("atC%d / 2u", i), j), word)
				}
			}
		}, some)
	})
}

// tellEdges writes the first element of each vector to workgroup memory, of which nobody needs
// the rest any more. Its bits are part of a number from 1 to 2: others, which are not normal, might
// not stay what they are.
func (r *renderer) tellEdges(words [][]string) {
	r.line("workgroupBarrier();")
	r.owners(func() {
		for i, of := range words {
			r.line("%s = bitcast<f32>(0x3f800000u | (%s & 0xffffu));", r.edge(i, 0), of[0])
		}
	})
	r.line("workgroupBarrier();")
}

// edge is where an output's vector, or one so many behind it, has its first element.
func (r *renderer) edge(i, behind int) string {
	if r.kernel.Fixup {
		return fmt.Sprintf("sums[%s].x", plus("t", behind))
	}
	at := plus(fmt.Sprintf("edge%d", i), behind)
	row := r.Groups * r.Tile.TN // of workgroup memory, without what fills it up to its pitch
	return fmt.Sprintf("sharedB[%s][%s][%s]", over(at, row), over(rest(at, row), r.B.Element), rest(at, r.B.Element))
}

// storeWords stores the words and halves of words that exist.
func (r *renderer) storeWords(width int, words [][]string) {
	for i, of := range words {
		at, vector, end := fmt.Sprintf("atC%d", i), fmt.Sprintf("vector%d", i), fmt.Sprintf("end%d", i)
		r.line("let %s = select(0u, %s - %s + cols, %s);", end, at, times(width, vector), r.stored(i))
		r.line("if (%s == 0u) { startRow(%s, %s, %s); }", vector, at, end, of[0])
		behind := append(of[1:len(of):len(of)], "bitcast<u32>("+r.edge(i, 1)+")")
		for j, word := range of {
			r.line("storeWord(%s, %s, %s, %s);", plus(at, 2*j), end, word, behind[j])
		}
	}
}
