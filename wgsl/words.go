package wgsl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner/element"
)

// C of 16 bits is stored in words. If rows start and end at even positions, each word is a pair of one
// thread. Otherwise, words of rows that start at odd positions have numbers of two pairs, and the first may
// be the last number of another vector. Where rows of the tile start and end, half words remain. Threads
// learn the missing numbers through the workgroup memory of B, which is free by then. Other workgroups may
// store the other half of such a word at the same time. Atomic operations on 16 of its bits preserve it.

// storesC has the functions that store the half words of a row. The ends of the row are those of its first
// and its last vector.
const storesC = `
fn storeHalf(at: u32, mask: u32, word: u32) {
	atomicAnd(&C[at], ~mask);
	atomicOr(&C[at], word & mask);
}

fn storeEnds(at: u32, cols: u32, first: u32, last: u32) {
	if (at % 2u != 0u) { storeHalf(at / 2u, 0xffff0000u, first << 16u); }
	if ((at + cols) % 2u != 0u) { storeHalf((at + cols) / 2u, 0xffffu, last >> 16u); }
}
`

// vectorFunctions writes the functions for a vector in words, with that many numbers in the tile. ends
// returns its first number and, in the high half, its last. storeVector stores the whole words. Before is
// the ends of the previous vector, which does not exist at column 0.
func (r *renderer) vectorFunctions(width int) {
	words := []string{"worda", "wordb"}[:width/2]
	given, last := strings.Join(words, ": u32, ")+": u32", "worda"
	if width == 4 {
		last = "select(worda, wordb, numbers > 2u)"
	}
	r.line("")
	r.block("fn ends(numbers: u32, "+given+") -> u32", func() {
		r.line("let last = %s;", last)
		r.line("return (worda & 0xffffu) | select(last << 16u, last & 0xffff0000u, numbers %% 2u == 0u);")
	})
	r.line("")
	r.block("fn storeVector(at: u32, col: u32, numbers: u32, before: u32, "+given+")", func() {
		r.line("let odd = at %% 2u;")
		before, exists := "before", "numbers + odd > 1u && odd <= col"
		for k, word := range words {
			r.block("if ("+exists+")", func() {
				shifted := fmt.Sprintf("(%s >> 16u) | (%s << 16u)", before, word)
				r.line("atomicStore(&C[%s], select(%s, %s, odd != 0u));", plus("at / 2u", k), word, shifted)
			})
			before, exists = word, "numbers + odd > 3u"
		}
	})
}

// bindC declares C.
func (r *renderer) bindC() {
	of := "f32"
	if r.kernel.TypeC != element.F32 {
		of = "atomic<u32>"
	}
	r.bindWritten(encoding.BindC, "C", of)
}

// storeNarrow writes the outputs that exist to C of 16 bits. All threads of the workgroup come here, because
// they may meet.
func (r *renderer) storeNarrow(width int, outputs []output) {
	words := r.words(width, outputs)
	r.ifElse("((offC | ldC | cols) & 1u) == 0u",
		func() { r.owners(func() { r.storePairs(width, words) }) },
		func() { r.storeShifted(width, words) })
}

// storePairs stores the words of outputs if no half words remain: first those of whole vectors, without a
// condition for each word, then the first word of others. This order takes 0.975 of the time of conditions
// for each word (27 batches of the sweep), 0.96 for K up to 128 (H100 through Vulkan).
func (r *renderer) storePairs(width int, words [][]string) {
	store := func(i int, exist string, words []string) {
		r.block(fmt.Sprintf("if (%s && %s)", r.stored(i), exist), func() {
			for k, word := range words {
				r.line("atomicStore(&C[%s], %s);", plus(over(fmt.Sprintf("atC%d", i), 2), k), word)
			}
		})
	}
	for i, words := range words {
		store(i, r.column(width, i, width-1)+" < cols", words)
	}
	if width == 2 {
		return
	}
	for i, words := range words {
		store(i, r.column(width, i, 2)+" == cols", words[:1])
	}
}

// storeShifted stores outputs if rows start or end at odd positions. Threads exchange the ends of all
// vectors, for as many rows of the tile at a time as fit in the workgroup memory of B. What the first vector
// of a row receives is not used.
func (r *renderer) storeShifted(width int, words [][]string) {
	for i := range words {
		numbers := fmt.Sprintf("min(cols - min(%s, cols), %du)", r.column(width, i, 0), width)
		r.line("let numbers%d = select(0u, %s, %s);", i, numbers, r.stored(i))
	}
	t := r.telling(width)
	pass := func() {
		r.line("workgroupBarrier();")
		r.eachTold(&t, len(words), func(at string, outputs []int) {
			ends := make([]string, len(outputs))
			for j, i := range outputs {
				ends[j] = fmt.Sprintf("ends(numbers%d, %s)", i, strings.Join(words[i], ", "))
			}
			r.line("let at = %s;", at)
			r.line("%s = %s;", r.held("at"), r.element(ends))
		})
		r.line("workgroupBarrier();")
		r.eachTold(&t, len(words), func(at string, outputs []int) {
			r.line("let at = max(%s, 1u) - 1u;", at)
			for j, i := range outputs {
				before := r.held("at") + r.numbered(j)
				r.line("storeVector(atC%d, vector%d, numbers%d, %s, %s);", i, i, i, before,
					strings.Join(words[i], ", "))
			}
		})
		r.storeHalves(&t)
	}
	if t.passes == 1 {
		pass()
		return
	}
	r.block(fmt.Sprintf("for (var turn = 0u; turn < %du; turn = turn + 1u)", t.passes), pass)
}

// storeHalves stores the remaining half words of the rows of a pass, one row for each thread.
func (r *renderer) storeHalves(t *telling) {
	r.block(fmt.Sprintf("for (var own = t; own < %du; own = own + %du)", t.rows, r.threads), func() {
		row, exists, number := "row", "row < rows", r.numbered(0)
		r.line("let row = %s;", t.row("own"))
		if r.kernel.Epilogue.Scatter {
			row, exists = "to", exists+" && to < scatterRows"
			r.line("let to = indices[scatterAt + row];")
		}
		if t.together > 1 {
			number = "[" + rest("own", t.together) + "]"
		}
		r.block("if ("+exists+")", func() {
			r.line("let at = %s;", times(t.vectors, over("own", t.together)))
			last := "at + " + over("cols - 1u", t.width)
			r.line("storeEnds(offC + %s * ldC, cols, %s%s, %s%s);", row, r.held("at"), number,
				r.held(last), number)
		})
	})
}

// telling is where threads exchange the ends of vectors of that width. An element of workgroup memory has
// those of `together` rows. A pass has all vectors of some rows, from first on.
type telling struct {
	width, vectors         int // of a vector, and of a row
	together, rows, passes int
	first                  string
	row                    func(own string) string // of the tile
}

// telling returns a place for as many rows as fit. Rows of a thread whose number is known in the text are
// together. A workgroup of fix-ups has some rows.
func (r *renderer) telling(width int) telling {
	tm, tn := r.Tile.TM, r.Tile.TN
	t := telling{width: width, vectors: tn / width, together: 1, rows: r.B.Rows * r.Groups, passes: 1}
	t.row = func(own string) string { return t.first + own }
	switch {
	case r.kernel.Fixup:
		t.rows = fixupVectors(&r.Tile) / t.vectors
		t.first = times(t.rows, "worker.y") + " + "
		return t
	case r.rolled():
		t.rows = r.rowsAtOnce()
		t.row = func(own string) string {
			first := over("done", r.vectorsB())
			return r.tileRow(rest(own, r.ThreadRows), first+" + "+over(own, r.ThreadRows))
		}
		return t
	}
	if r.Groups == 1 && r.Tile.RM%width == 0 {
		t.together = width
	}
	t.rows = min(t.together*t.rows, tm)
	if t.passes = (tm + t.rows - 1) / t.rows; t.passes > 1 {
		t.first = times(t.rows, "turn") + " + "
	}
	return t
}

// eachTold encloses what threads do with the outputs whose ends share an element, and passes its place.
func (r *renderer) eachTold(t *telling, outputs int, body func(at string, outputs []int)) {
	r.owners(func() {
		for i := range outputs {
			if i/r.vectorsB()%t.together > 0 {
				continue // shares the element of another
			}
			var all []int
			for j := range t.together {
				all = append(all, i+j*r.vectorsB())
			}
			head, own := "", fmt.Sprintf("row%d", i)
			if t.passes > 1 {
				head = fmt.Sprintf("if (%s == turn)", over(own, t.rows))
			}
			switch {
			case r.rolled():
				own = r.toldRow(i)
			case t.first != "":
				own = rest(own, t.rows)
			}
			at := times(t.vectors, over(own, t.together)) + fmt.Sprintf(" + vector%d", i)
			r.block(head, func() { body(at, all) })
		}
	})
}

// toldRow returns the row of output i among those that an iteration of the loop finishes.
func (r *renderer) toldRow(i int) string {
	number := fmt.Sprintf("%du", i)
	if r.Groups > 1 {
		number = plus("group", i*r.Groups)
	}
	return "(ty + " + times(r.ThreadRows, over(number, r.vectorsB())) + ")"
}

// held returns an element of workgroup memory, numbered what it has of one row, and element one of its
// numbers.
func (r *renderer) held(at string) string {
	if r.kernel.Fixup {
		return "words[" + at + "]"
	}
	row := r.Groups * r.Tile.TN / r.B.Element // without the padding up to its pitch
	return fmt.Sprintf("sharedB[%s][%s]", over(at, row), rest(at, row))
}

func (r *renderer) numbered(i int) string {
	if r.kernel.Fixup {
		return ""
	}
	return fmt.Sprintf(".%c", "xyzw"[i])
}

func (r *renderer) element(numbers []string) string {
	if r.kernel.Fixup {
		return numbers[0]
	}
	return fmt.Sprintf("%s(%s)", vecOf("u32", r.B.Element), strings.Join(numbers, ", "))
}

// words converts outputs to words, and returns the names of the words of each. A thread checks once whether
// it has rare numbers.
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

// fold joins terms by a binary operation.
func fold(operation string, terms []string) string {
	all := terms[0]
	for _, term := range terms[1:] {
		all = fmt.Sprintf(operation, all, term)
	}
	return all
}
