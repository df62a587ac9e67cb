package wgsl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/batchgemm/batchgemm/planner/element"
)

// C of 16 bits is stored in words. Words of pairs of outputs go through workgroup memory, as many
// rows of the tile at a time as fit in that of B, of which nobody needs the rest any more. From
// there neighbouring threads store neighbouring words, each made of two where rows begin at odd
// positions. Halves of words are left where rows of the tile begin and end. Other workgroups may
// store the other half of such a word at the same time, which atomic operations on 16 of its bits
// leave as it is.

// storesC has storeEdges for the halves with which a row from at to before end begins and ends:
// the low ones of first and last.
const storesC = `
fn storeHalf(at: u32, mask: u32, word: u32) {
	atomicAnd(&C[at], ~mask);
	atomicOr(&C[at], word & mask);
}

fn storeEdges(at: u32, end: u32, first: u32, last: u32) {
	if (at % 2u != 0u) { storeHalf(at / 2u, 0xffff0000u, first << 16u); }
	if (end % 2u != 0u) { storeHalf(end / 2u, 0xffffu, last); }
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

// lines is how the words of C go through workgroup memory.
type lines struct {
	Words, Rows int // words of a row, and rows that are there at a time
	Times       int

	// The threads that store: Lanes side by side along a row, Step rows at a time.
	Lanes, Step int
}

func (r *renderer) lines() lines {
	l := lines{Words: r.Tile.TN / 2, Times: 1}
	if r.kernel.Fixup { // those of a piece
		l.Rows = 2 * fixupVectors(&r.Tile) / l.Words
	} else {
		l.Rows = min(r.Tile.TM, 2*r.Tile.TK)
		l.Times = (r.Tile.TM + l.Rows - 1) / l.Rows
	}
	l.Lanes = gcd(l.Words, r.threads)
	l.Step = r.threads / l.Lanes
	return l
}

// storeNarrow writes what exists of the outputs to C of 16 bits. All threads of the workgroup
// come here, since they meet.
func (r *renderer) storeNarrow(width int, outputs []output) {
	words := r.words(width, outputs)
	l := r.lines()
	r.startLines(l, width)
	for time := range l.Times {
		r.line("workgroupBarrier();")
		r.owners(func() { r.tellWords(l, time, words) })
		r.line("workgroupBarrier();")
		r.within(l.Step*l.Lanes, l.Rows*l.Lanes, func() { r.storeWords(l, time) })
		r.storeEdges(l, time)
	}
}

// within encloses what only the first of some threads do.
func (r *renderer) within(threads, first int, body func()) {
	if first >= threads {
		body()
		return
	}
	r.block(fmt.Sprintf("if (t < %du)", first), body)
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

// tellWords writes to workgroup memory the words of the rows whose time it is.
func (r *renderer) tellWords(l lines, time int, words [][]string) {
	join := 1 // vectors of a row that a thread has, one after the other
	if r.Groups == 1 && !r.kernel.Fixup {
		join = r.vectorsB()
	}
	for i := 0; i < len(words); i += join {
		row, head := fmt.Sprintf("row%d", i), ""
		if l.Times > 1 {
			head = fmt.Sprintf("if (%s == %du)", over(row, l.Rows), time)
		}
		if l.Times > 1 || r.kernel.Fixup {
			row = rest(row, l.Rows)
		}
		r.block(head, func() {
			r.line("let at = %s + %s;", times(l.Words, row), r.wordAt(fmt.Sprintf("vector%d", i), len(words[i])))
			run := slices.Concat(words[i : i+join]...)
			if !r.kernel.Fixup && len(run) == r.B.Element {
				r.line("%s = %s;", r.heldVector("at"), packOf("u32", run))
				return
			}
			for j, word := range run {
				r.line("%s = %s;", r.held("at", j), word)
			}
		})
	}
}

// wordAt is where so many words of a vector begin in their row of workgroup memory: those of a
// thread lie side by side, so that it stores them together.
func (r *renderer) wordAt(vector string, words int) string {
	if r.kernel.Fixup || r.vectorsB() == 1 {
		return times(words, vector)
	}
	return times(words*r.vectorsB(), rest(vector, r.ThreadCols)) + " + " + times(words, over(vector, r.ThreadCols))
}

// held is the word so many behind a place of workgroup memory.
func (r *renderer) held(at string, behind int) string {
	if r.kernel.Fixup {
		return "words[" + plus(at, behind) + "]"
	}
	row := r.Groups * r.Tile.TN // without what fills it up to its pitch
	first := over(plus(at, behind), row)
	if behind%row == 0 {
		first, behind = plus(over(at, row), behind/row), 0
	}
	at = plus(at, behind)
	return fmt.Sprintf("sharedB[%s][%s][%s]", first, over(rest(at, row), r.B.Element), rest(at, r.B.Element))
}

// heldVector is the vector of words at a place of workgroup memory.
func (r *renderer) heldVector(at string) string {
	row := r.Groups * r.Tile.TN
	return fmt.Sprintf("sharedB[%s][%s]", over(at, row), over(rest(at, row), r.B.Element))
}

// startLines sets where a thread finds words in workgroup memory, and where they go in C. Rows an
// even number apart begin at positions of the same parity.
func (r *renderer) startLines(l lines, width int) {
	place := func(word string) string {
		return r.wordAt(over(word, width/2), width/2) + " + " + rest(word, width/2)
	}
	r.line("let line = %s;", over("t", l.Lanes))
	for x := range l.Words / l.Lanes {
		r.line("let along%d = %s;", x, plus(rest("t", l.Lanes), x*l.Lanes))
		r.line("let behind%d = min(%s, %du);", x, plus(fmt.Sprintf("along%d", x), 1), l.Words-1)
		for _, name := range []string{"along", "behind"} {
			r.line("let %sAt%d = %s + %s;", name, x, times(l.Words, "line"), place(fmt.Sprintf("%s%d", name, x)))
		}
	}
	r.line("let last = cols - 1u;")
	r.line("let lastAt = %s;", place("last / 2u"))
	if !r.kernel.Epilogue.Scatter {
		for parity := range 1 + l.Step%2 {
			r.startLine(l, parity)
		}
	}
}

// lineRow is the row of the tile so many behind a line.
func (r *renderer) lineRow(line string, behind int) string {
	if r.kernel.Fixup {
		line = times(r.lines().Rows, "worker.y") + " + " + line
	}
	return plus(line, behind)
}

// startRow writes where a row of C begins, and whether there is one.
func (r *renderer) startRow(row string) (exists string) {
	exists = row + " < rows"
	if r.kernel.Epilogue.Scatter {
		r.line("let to = indices[scatterAt + %s];", row)
		row, exists = "to", exists+" && to < scatterRows"
	}
	r.line("let start = offC + %s * ldC;", paren(row))
	return exists
}

// startLine sets where a thread's words of a row go, and how many rows from there on have them.
func (r *renderer) startLine(l lines, parity int) {
	row := r.lineRow("line", parity)
	r.line("let start%d = offC + %s * ldC;", parity, paren(row))
	for x := range l.Words / l.Lanes {
		name, start := fmt.Sprintf("%d%d", parity, x), fmt.Sprintf("start%d", parity)
		r.line("let atWord%s = %s;", name, wordIn(start, x))
		r.line("let left%s = select(0u, max(rows, %s) - %s, %s);", name, row, paren(row), whole(start, x))
	}
}

// wordIn is where a thread's word of a row goes that begins at start, and whole whether both its
// halves are in the row.
func wordIn(start string, x int) string { return fmt.Sprintf("(%s + 1u) / 2u + along%d", start, x) }
func whole(start string, x int) string {
	return fmt.Sprintf("2u * along%d + %s %% 2u + 1u < cols", x, start)
}

// storeWords stores the words that are in workgroup memory, of which both halves are the tile's.
func (r *renderer) storeWords(l lines, time int) {
	store := func(exists, at, start string, x, y int) {
		here, next := r.held(fmt.Sprintf("alongAt%d", x), y*l.Words), r.held(fmt.Sprintf("behindAt%d", x), y*l.Words)
		r.line("let word = %s;", here)
		r.line("let moved = select(word, (word >> 16u) | (%s << 16u), %s %% 2u != 0u);", next, start)
		r.line("if (%s) { atomicStore(&C[%s], moved); }", exists, at)
	}
	for y := 0; y < l.Rows; y += l.Step {
		row := time*l.Rows + y
		for x := range l.Words / l.Lanes {
			r.block("", func() {
				if r.kernel.Epilogue.Scatter {
					exists := r.startRow(r.lineRow("line", row))
					store(exists+" && "+whole("start", x), wordIn("start", x), "start", x, y)
					return
				}
				parity := row % 2
				name, at := fmt.Sprintf("%d%d", parity, x), ""
				if row > 1 {
					at = " + " + times(row/2, "ldC")
				}
				store(fmt.Sprintf("%du < left%s", row-parity, name), "atWord"+name+at, fmt.Sprintf("start%d", parity), x, y)
			})
		}
	}
}

// storeEdges stores the halves of words with which rows begin and end.
func (r *renderer) storeEdges(l lines, time int) {
	for y := 0; y < l.Rows; y += r.threads {
		r.within(r.threads, l.Rows-y, func() {
			line := plus("t", y)
			exists := r.startRow(r.lineRow(line, time*l.Rows))
			r.block("if ("+exists+")", func() {
				at := times(l.Words, line)
				r.line("storeEdges(start, start + cols, %s, %s >> (16u * (last %% 2u)));", r.held(at, 0), r.held(at+" + lastAt", 0))
			})
		})
	}
}
