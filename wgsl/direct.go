package wgsl

import (
	"fmt"

	"github.com/batchgemm/batchgemm/planner/tile"
)

// Tiles of few rows wait for B, and as Int4 for what is done to each number of it, of which workgroup memory is a large part.
// Where no two threads of a K group multiply the same columns, each loads words of its own columns and makes numbers of them
// in registers. It multiplies no more rows than may exist, and all K groups of a column load words side by side.

// directSteps is the k's that a thread takes of a K step: two words of a column, 8 bytes. A step of 4 K groups then is the
// smallest group with a scale, and no step is cut.
const directSteps = 2 * perPacked

// isDirect reports whether B goes to registers.
func isDirect(t *tile.Shape) bool {
	return t.RM == t.TM && t.RM%4 == 0 && t.RN == 4 && 64%(directSteps*t.Groups()) == 0
}

// directStage has the columns of a thread as blocks. Workgroup memory is for sums and words of C alone.
func directStage(t tile.Shape) stage {
	s := stage{Extent: t.TN, AlongK: true, Element: t.RN, Pitch: t.TN/t.RN | 1, Rows: max(1, t.TM/2/t.Groups()), Span: 1, Lanes: 1, Words: directSteps / perPacked}
	for column := range t.RN {
		s.Blocks = append(s.Blocks, block{Across: column})
	}
	return s
}

// directPlace is which k's of a step, and which column, a thread's first words are of.
func (o *operand) directPlace() (along, across string) {
	along = "group"
	if o.groups == 1 {
		along = "0u"
	}
	return along, times(o.Element, "tx")
}

// hand takes a block out of the registers that the next K step is loaded to.
func (o *operand) hand(b int, w *writer) {
	w.line("let words%d = %s;", b, o.register(b))
	w.line("let scale%d = bitcast<f32>(%s & 0xfffffff0u);", b, o.groupWord(b))
	w.line("let zeros%d = zerosOf(%s);", b, o.groupWord(b))
}

// directStep multiplies a K step in one row, in as many as a vector has, or in all.
func (r *renderer) directStep() {
	few := r.A.Element
	r.ifElse(fmt.Sprintf("rows > %du", few), func() { r.directRows(r.Tile.RM) }, func() {
		r.ifElse("rows > 1u", func() { r.directRows(few) }, func() { r.directRows(1) })
	})
}

// directRows multiplies it in the first rows.
func (r *renderer) directRows(rows int) {
	columns := r.Tile.RN
	for i := range r.B.Words {
		r.block("", func() {
			for c := range columns {
				word := component(r.B.Words, fmt.Sprintf("words%d", c), i)
				r.line("let even%d = scale%d * weights(%s, zeros%d);", c, c, word, c)
				r.line("let odd%d = scale%d * weights(%s >> 16u, zeros%d);", c, c, word, c)
			}
			for j := range perPacked {
				numbers := make([]string, columns)
				for c := range numbers {
					numbers[c] = component(perPacked/2, fmt.Sprintf("%s%d", [...]string{"even", "odd"}[j%2], c), j/2)
				}
				r.block("", func() { r.directProducts(perPacked*i+j, rows, pack(numbers)) })
			}
		})
	}
}

// directProducts are those of one k.
func (r *renderer) directProducts(k, rows int, b string) {
	r.line("let b0 = %s;", b)
	for i := range rows {
		if i%r.A.Element == 0 {
			r.line("let a%d = sharedA[%du][readA%d];", i/r.A.Element, k, i/r.A.Element)
		}
		a := component(r.A.Element, fmt.Sprintf("a%d", i/r.A.Element), i%r.A.Element)
		r.line("%s = fma(%s, b0, %s);", accumulator(i), splat(r.Tile.RN, a), accumulator(i))
	}
}
