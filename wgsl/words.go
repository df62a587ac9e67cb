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

// storesC has the functions that store words. Of a word of a row the tile may have both halves, the low one alone, or, with no number, none.
const storesC = `
fn storeHalf(at: u32, mask: u32, word: u32) {
	atomicAnd(&C[at], ~mask);
	atomicOr(&C[at], word & mask);
}

fn storeWord(at: u32, numbers: u32, word: u32) {
	if (numbers > 1u) {
		atomicStore(&C[at], word);
	} else if (numbers == 1u) {
		storeHalf(at, 0xffffu, word);
	}
}
`

// storesOfVectors has, by the width of vectors, the functions that store so many numbers of one as there are up to the end of the row: what
// begins at an even position, and what may begin at an odd one. The latter takes its first column and the last pair of the vector in front.
var storesOfVectors = map[int]string{
	2: `
fn storeVector(at: u32, numbers: u32, a: u32) {
	storeWord(at / 2u, numbers, a);
}

fn storeShifted(at: u32, col: u32, numbers: u32, before: u32, a: u32) {
	let odd = at % 2u;
	let first = select(a, (before >> 16u) | (a << 16u), odd != 0u);
	if (odd != 0u && col == 0u) {
		storeHalf(at / 2u, 0xffff0000u, first);
	} else {
		storeWord(at / 2u, numbers + odd, first);
	}
	if (odd != 0u && numbers == 2u) { storeHalf(at / 2u + 1u, 0xffffu, a >> 16u); }
}
`,
	4: `
fn storeVector(at: u32, numbers: u32, a: u32, b: u32) {
	storeWord(at / 2u, numbers, a);
	storeWord(at / 2u + 1u, max(numbers, 2u) - 2u, b);
}

fn storeShifted(at: u32, col: u32, numbers: u32, before: u32, a: u32, b: u32) {
	let odd = at % 2u;
	let first = select(a, (before >> 16u) | (a << 16u), odd != 0u);
	let second = select(b, (a >> 16u) | (b << 16u), odd != 0u);
	if (odd != 0u && col == 0u) {
		storeHalf(at / 2u, 0xffff0000u, first);
	} else {
		storeWord(at / 2u, numbers + odd, first);
	}
	storeWord(at / 2u + 1u, max(numbers + odd, 2u) - 2u, second);
	if (odd != 0u && numbers == 4u) { storeHalf(at / 2u + 2u, 0xffffu, b >> 16u); }
}
`,
}

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
	r.ifElse("((offC | ldC) & 1u) == 0u", func() {
		r.owners(func() {
			for i, of := range words {
				r.block(r.begins(width, i), func() {
					r.line("storeVector(atC%d, cols - %s, %s);", i, paren(r.column(width, i, 0)), strings.Join(of, ", "))
				})
			}
		})
	}, func() { r.storeShifted(width, words) })
}

// begins is whether the first number of a vector is in the tile.
func (r *renderer) begins(width, i int) string {
	return fmt.Sprintf("if (%s && %s < cols)", r.stored(i), r.column(width, i, 0))
}

// storeShifted does so where rows may begin at odd positions. Threads tell each other the last pair of each vector, of as many rows of the
// tile at a time as fit in the workgroup memory of B. In front of the first vector of a row there is none, and its thread is told
// what has no meaning.
func (r *renderer) storeShifted(width int, words [][]string) {
	all := r.told(width, len(words))
	for pass := range all[0].passes {
		each := func(body func(told)) {
			r.owners(func() {
				for _, x := range all {
					head := ""
					if x.passes > 1 {
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
			for j, i := range x.outputs {
				before := component(len(x.outputs), r.heldPairs("at"), j)
				if !r.kernel.Fixup && len(x.outputs) == 1 {
					before += ".x"
				}
				column := r.column(width, i, 0)
				r.block(r.begins(width, i), func() {
					r.line("storeShifted(atC%d, %s, cols - %s, %s, %s);", i, column, paren(column), before, strings.Join(words[i], ", "))
				})
			}
		})
	}
}

// told is outputs whose last pairs are told together: an element of workgroup memory, where it is in the pass that it has.
type told struct {
	outputs []int
	at      string
	pass    string
	passes  int
}

// told are all. Rows of a thread whose number is known in the text fill an element of B together, others, and those of fix-ups, have one each.
func (r *renderer) told(width, outputs int) (all []told) {
	if r.kernel.Fixup { // threads with outputs have a vector each
		return []told{{outputs: []int{0}, at: "t", passes: 1}}
	}
	together, rows := 1, r.B.Rows*r.Groups
	if r.Groups == 1 && r.Tile.RM%width == 0 {
		together = width
	}
	add := func(row string, first int, of []int) {
		all = append(all, told{
			outputs: of, at: times(r.Tile.TN/width, rest(row, rows)) + fmt.Sprintf(" + vector%d", first),
			pass: over(row, rows), passes: (r.Tile.TM/together + rows - 1) / rows,
		})
	}
	if together == 1 {
		for i := range outputs {
			add(fmt.Sprintf("row%d", i), i, []int{i})
		}
		return all
	}
	for i := range outputs {
		if row, vector := i/r.vectorsB(), i%r.vectorsB(); row%width == 0 {
			of := make([]int, width)
			for j := range of {
				of[j] = (row+j)*r.vectorsB() + vector
			}
			add(plus("ty", row/width*r.ThreadRows), i, of)
		}
	}
	return all
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
