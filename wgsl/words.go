package wgsl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/batchgemm/batchgemm/planner/element"
)

// C of 16 bits is stored in words, by the threads that have the numbers. Those of a row that begins at an odd position are made of two
// pairs each: of the last one of each vector the thread of the next vector learns through the workgroup memory of B, of which nobody
// needs the rest any more. Halves of words are left where rows of the tile begin and end. Other workgroups may
// store the other half of such a word at the same time, which atomic operations on 16 of its bits
// leave as it is.

// storesC has the functions that store words, of so many numbers from the word's first one up to the end of the row: storeWord a word that
// is a pair, and storeShifted, where rows may begin at odd positions, a pair that is in two words then, the first with a number of
// the pair before. In front of the first column there is none, and behind the last one half of a word is left.
const storesC = `
fn storeHalf(at: u32, mask: u32, word: u32) {
	atomicAnd(&C[at], ~mask);
	atomicOr(&C[at], word & mask);
}

fn storeWord(at: u32, numbers: u32, word: u32) {
	if (numbers > 1u) {
		atomicStore(&C[at], word);
	} else {
		storeHalf(at, 0xffffu, word);
	}
}

fn storeShifted(at: u32, col: u32, numbers: u32, before: u32, word: u32) {
	let odd = at % 2u;
	let first = select(word, (before >> 16u) | (word << 16u), odd != 0u);
	if (odd != 0u && col == 0u) {
		storeHalf(at / 2u, 0xffff0000u, first);
	} else {
		storeWord(at / 2u, numbers + odd, first);
	}
	if (odd != 0u && numbers == 2u) { storeHalf(at / 2u + 1u, 0xffffu, word >> 16u); }
}
`

// bindC declares C.
func (r *renderer) bindC() {
	of := "f32"
	if r.kernel.TypeC != element.F32 {
		of = "atomic<u32>"
	}
	r.bindWritten(BindC, "C", of)
}

// storeNarrow writes what exists of the outputs to C of 16 bits. All threads of the workgroup
// come here, since they may meet.
func (r *renderer) storeNarrow(width int, outputs []output) {
	words := r.words(width, outputs)
	all, passes := r.told(width, len(outputs))
	r.ifElse("((offC | ldC) & 1u) == 0u", func() {
		r.owners(func() {
			for _, x := range all {
				r.storeWords(width, x.outputs, words, func(int) string { return "" })
			}
		})
	}, func() { r.storeShifted(width, all, passes, words) })
}

// storeShifted does so where rows may begin at odd positions. Threads tell each other the last pair of each vector, of as many rows of the
// tile at a time as fit in the workgroup memory of B. In front of the first vector of a row there is none, and its thread is told
// what has no meaning.
func (r *renderer) storeShifted(width int, all []told, passes int, words [][]string) {
	for pass := range passes {
		each := func(body func(told)) {
			r.owners(func() {
				for _, x := range all {
					head := ""
					if passes > 1 {
						head = fmt.Sprintf("if (%s == %du)", x.pass, pass)
					}
					r.block(head, func() { body(x) })
				}
			})
		}
		r.line("workgroupBarrier();")
		each(func(x told) {
			last := make([]string, len(x.outputs))
			for j, i := range x.outputs {
				last[j] = words[i][len(words[i])-1]
			}
			r.line("let at = %s;", x.at)
			r.line("%s = %s;", r.heldPairs("at"), r.pairs(last))
		})
		r.line("workgroupBarrier();")
		each(func(x told) {
			r.line("let at = max(%s, 1u) - 1u;", x.at)
			r.storeWords(width, x.outputs, words, func(j int) string {
				if r.kernel.Fixup {
					return r.heldPairs("at")
				}
				return component(r.B.Element, r.heldPairs("at"), j)
			})
		})
	}
}

// storeWords stores outputs of one vector: first those of which all columns are in the tile, without asking for each word, then what
// there is of others. Before is the word in front of each where rows may begin at odd positions, else "". That order and shifts by a
// constant (shiftedWord) take 0.975 of the time of asking and any shift (27 batches of the sweep), 0.96 where K is up to 128 (H100 through Vulkan).
func (r *renderer) storeWords(width int, outputs []int, words [][]string, before func(j int) string) {
	first, last := r.column(width, outputs[0], 0), r.column(width, outputs[0], width-1)
	for j, i := range outputs {
		r.block(fmt.Sprintf("if (%s && %s < cols)", r.stored(i), last), func() { r.storeWhole(width, i, words[i], before(j)) })
	}
	r.block(fmt.Sprintf("if (%s < cols && %s >= cols)", first, last), func() {
		for j, i := range outputs {
			r.block(fmt.Sprintf("if (%s)", r.stored(i)), func() { r.storeSomeWords(width, i, words[i], before(j)) })
		}
	})
}

// storeWhole stores all words of an output.
func (r *renderer) storeWhole(width, i int, words []string, before string) {
	r.line("let to = %s;", over(fmt.Sprintf("atC%d", i), 2))
	store := func(k int, word string) string { return fmt.Sprintf("atomicStore(&C[%s], %s);", plus("to", k), word) }
	even := func() {
		for k, word := range words {
			r.line("%s", store(k, word))
		}
	}
	if before == "" {
		even()
		return
	}
	r.ifElse(fmt.Sprintf("atC%d %% 2u == 0u", i), even, func() {
		for k, word := range words {
			both := fmt.Sprintf("(%s >> 16u) | (%s << 16u)", before, word)
			if k == 0 {
				r.line("if (vector%d == 0u) { storeHalf(to, 0xffff0000u, %s); } else { %s }", i, both, store(k, both))
			} else {
				r.line("%s", store(k, both))
			}
			before = word
		}
		r.line("if (%s == cols) { storeHalf(%s, 0xffffu, %s >> 16u); }", r.column(width, i, width), plus("to", width/2), before)
	})
}

// storeSomeWords stores the words of an output that have a number in the tile; the first one has.
func (r *renderer) storeSomeWords(width, i int, words []string, before string) {
	for k, word := range words {
		at, col := plus(fmt.Sprintf("atC%d", i), 2*k), r.column(width, i, 2*k)
		store := fmt.Sprintf("storeWord(%s, cols - %s, %s);", over(at, 2), paren(col), word)
		if before != "" {
			store = fmt.Sprintf("storeShifted(%s, %s, cols - %s, %s, %s);", at, col, paren(col), before, word)
			before = word
		}
		if k > 0 {
			store = fmt.Sprintf("if (%s < cols) { %s }", col, store)
		}
		r.line("%s", store)
	}
}

// told is outputs of one vector whose last pairs are told together: an element of workgroup memory, where it is in its pass, and which one that is.
type told struct {
	outputs  []int
	at, pass string
}

// told are all, and how many passes they take. Rows of a thread whose number is known in the text fill an element of B together, others, and
// those of fix-ups, have one each.
func (r *renderer) told(width, outputs int) (all []told, passes int) {
	if r.kernel.Fixup { // threads with outputs have a vector each
		return []told{{outputs: []int{0}, at: "t"}}, 1
	}
	together, rows := 1, r.B.Rows*r.Groups
	if r.Groups == 1 && r.Tile.RM%width == 0 {
		together = width
	}
	for i := range outputs {
		row := i / r.vectorsB()
		if row%together > 0 {
			continue // told with another
		}
		x, id := told{}, fmt.Sprintf("row%d", i)
		if together > 1 {
			id = plus("ty", row/together*r.ThreadRows)
		}
		for j := range together {
			x.outputs = append(x.outputs, i+j*r.vectorsB())
		}
		x.at = times(r.Tile.TN/width, rest(id, rows)) + fmt.Sprintf(" + vector%d", i)
		x.pass = over(id, rows)
		all = append(all, x)
	}
	return all, (r.Tile.TM/together + rows - 1) / rows
}

// heldPairs is an element of workgroup memory, and pairs what it holds.
func (r *renderer) heldPairs(at string) string {
	if r.kernel.Fixup {
		return "words[" + at + "]"
	}
	row := r.Groups * r.Tile.TN / r.B.Element // without what fills it up to its pitch
	return fmt.Sprintf("sharedB[%s][%s]", over(at, row), rest(at, row))
}

func (r *renderer) pairs(words []string) string {
	if r.kernel.Fixup {
		return words[0]
	}
	return fmt.Sprintf("%s(%s)", vecOf("u32", r.B.Element), strings.Join(words, ", "))
}

// words makes words of outputs and returns the names of those of each. A thread looks once whether
// rare numbers are among its own.
func (r *renderer) words(width int, outputs []output) [][]string {
	sizes, bits := make([]string, len(outputs)), make([][]string, len(outputs))
	for i, o := range outputs {
		name := fmt.Sprintf("bits%d", i)
		r.line("var %s = bitcast<%s>(%s);", name, vecOf("u32", width), o.Value)
		sizes[i] = "abs(" + o.Value + ")"
		bits[i] = components(width, name)
	}
	r.line("let sizes = %s;", strings.Join(sizes, " + "))
	told := fold("%s + %s", components(width, "sizes"))
	if narrows[r.kernel.TypeC].small {
		least := make([]string, len(outputs))
		for i := range least {
			least[i] = fmt.Sprintf("2u * bits%d - %s", i, packOf("u32", slices.Repeat([]string{"1u"}, width)))
		}
		r.line("let least = %s;", fold("min(%s, %s)", least))
		told += ", " + fold("min(%s, %s)", components(width, "least"))
	}
	r.block("if (rare("+told+"))", func() {
		for i, of := range bits {
			r.line("bits%d = %s(tame(%s));", i, vecOf("u32", width), strings.Join(of, "), tame("))
		}
	})
	words := make([][]string, len(outputs))
	for i, of := range bits {
		for j := range width / 2 {
			word := fmt.Sprintf("word%d%c", i, 'a'+j)
			words[i] = append(words[i], word)
			r.line("let %s = pair(%s, %s);", word, of[2*j], of[2*j+1])
		}
	}
	return words
}

// fold joins terms by an operation of two.
func fold(operation string, terms []string) string {
	all := terms[0]
	for _, term := range terms[1:] {
		all = fmt.Sprintf(operation, all, term)
	}
	return all
}
