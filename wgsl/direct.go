package wgsl

import (
	"fmt"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Tiles of few rows wait for B, and with narrow B for the conversion of each number, much of which is the
// way through workgroup memory. If no two threads of a K group multiply the same columns, each thread loads
// its own columns to registers and converts them there. It multiplies only as many rows as may exist. If B
// is K-major, all K groups of a column load side by side.

// directSteps returns how many k of a K step a thread takes for 4 columns: 128 bytes, which are loaded while
// as many are multiplied. With elements of fewer than 16 bits it is two words of a column, or four with
// groups of 128.
func directSteps(k encoding.Kernel) int {
	switch of := k.TypeB(); {
	case of == element.F32:
		return 8
	case of == element.Int4 && k.Epilogue.ScaleB.Group() == 128:
		return 32
	}
	return 16
}

// isDirect reports whether B goes to registers. A step is then neither longer than a group with a scale, nor
// cut by one.
func isDirect(k encoding.Kernel, t *tile.Shape) bool {
	group := 64
	if elemtype.Bits4(k.TypeB()) {
		group = k.Epilogue.ScaleB.UnitK()
	} else if !k.Vector {
		return false
	}
	return t.RM == t.TM && t.RM%4 == 0 && t.RN == 4 && group%(directSteps(k)*t.Groups()) == 0
}

// directStage returns a stage whose blocks are the columns of a thread. Workgroup memory is then only for
// sums and words of C.
func directStage(k encoding.Kernel, t tile.Shape) stage {
	of := k.TypeB()
	steps := directSteps(k)
	s := stage{Extent: t.TN, AlongK: true, Vector: true, Direct: true, Together: steps, Element: t.RN,
		Apart: 1, Pitch: t.TN/t.RN | 1, Rows: max(1, t.TM/2/t.Groups()), Span: 1, Lanes: 1}
	switch {
	case elemtype.Bits4(of):
		s.Vector, s.Words = false, steps/perPacked
	case k.TransB:
		s.Together = 16 / of.Bytes()
	default:
		s.AlongK, s.Span = false, t.RN
		for i := range steps {
			s.Blocks = append(s.Blocks, block{Across: i})
		}
		return s
	}
	for column := range t.RN {
		for i := range steps / s.Together { // neighbours load the ones between
			s.Blocks = append(s.Blocks, block{Along: i * t.Groups(), Across: column})
		}
	}
	return s
}

// interleaved reports whether neighbouring threads belong to different K groups, because they load
// neighbouring k.
func (g *geometry) interleaved() bool { return g.B.Direct && g.B.AlongK }

// directPlace returns where a thread's first block lies.
func (o *operand) directPlace() (along, across string) {
	group := "group"
	if o.groups == 1 {
		group = "0u"
	}
	if o.AlongK {
		return group, times(o.Element, "tx")
	}
	return "tx", times(o.Together, group)
}

// hand takes a block out of the registers into which the next K step is loaded.
func (o *operand) hand(b int, w *writer) {
	w.line("let words%d = %s;", b, o.register(b))
	if o.packed() {
		o.takeGroup(b, b, w)
	}
}

// handed returns four numbers of a block that is not packed.
func (o *operand) handed(b, i int) string {
	words := fmt.Sprintf("words%d", b)
	switch n := 4 / o.per(); {
	case !o.narrow():
		return words
	case o.Together > 4 && o.AlongK:
		words += "." + "xyzw"[i*n:(i+1)*n]
	}
	return "four(" + words + ")"
}

// directStep multiplies a K step in as many rows as a vector has, or in all rows. With elements of fewer
// than 16 bits, whose products take longer than memory, it also has a case for one row. If there is a
// branch, compilers load the next step before the products; without it they load after them: 4096 x 4096 in
// bf16 and 8 rows take 184 and 216 us on an H100, but 254 and 209 with K-major B.
func (r *renderer) directStep() {
	few, bytes := r.A.Element, r.kernel.TypeB().Bytes()
	if bytes > 1 && r.B.AlongK {
		r.directRows(r.Tile.RM, false)
		return
	}
	r.ifElse(fmt.Sprintf("rows > %du", few), func() { r.directRows(r.Tile.RM, false) }, func() {
		if bytes > 1 {
			r.directRows(few, false)
			return
		}
		r.ifElse("rows > 1u", func() { r.directRows(few, false) }, func() { r.directRows(1, false) })
	})
}

// directRows multiplies the step in the first rows. last: it may have fewer k.
func (r *renderer) directRows(rows int, last bool) {
	switch {
	case r.b.packed():
		r.block("", func() { r.directGroup(rows) })
	case r.B.AlongK:
		loads := r.GroupSteps / r.B.Together // of a column
		for i := range r.GroupSteps / 4 {
			r.block("", func() {
				numbers := make([]string, r.Tile.RN)
				for c := range numbers {
					numbers[c] = fmt.Sprintf("column%d", c)
					r.line("let %s = %s;", numbers[c],
						r.b.handed(loads*c+4*i/r.B.Together, i%(r.B.Together/4)))
				}
				for j := range 4 {
					r.directProducts(4*i+j, rows, last, across(numbers, j), accumulator)
				}
			})
		}
	default:
		for i := range r.GroupSteps {
			r.directProducts(i, rows, last, r.b.handed(i, 0), accumulator)
		}
	}
}

// directGroup multiplies the words of each column. The products of a step are in one group. They are summed
// before the scale is applied, which takes one multiplication for each sum instead of one for each weight.
func (r *renderer) directGroup(rows int) {
	part := func(i int) string { return fmt.Sprintf("part%d", i) }
	scales := make([]string, r.Tile.RN)
	for c := range scales {
		scales[c] = fmt.Sprintf("scale%d", c)
	}
	for i := range rows {
		r.line("var %s = vec4<f32>();", part(i))
	}
	for i := range r.B.Words {
		r.block("", func() { r.directWords(i, rows, part) })
	}
	r.line("let scales = %s;", pack(scales))
	for i := range rows {
		r.line("%s = fma(scales, %s, %s);", accumulator(i), part(i), accumulator(i))
	}
}

// directWords multiplies the weights of a word of each column.
func (r *renderer) directWords(i, rows int, sum func(int) string) {
	columns := r.Tile.RN
	for c := range columns {
		word := component(r.B.Words, fmt.Sprintf("words%d", c), i)
		r.line("let even%d = %s;", c, r.b.weights(word, c))
		r.line("let odd%d = %s;", c, r.b.weights(word+" >> 16u", c))
	}
	for j := range perPacked {
		numbers := make([]string, columns)
		for c := range numbers {
			numbers[c] = fmt.Sprintf("%s%d", [...]string{"even", "odd"}[j%2], c)
		}
		r.directProducts(perPacked*i+j, rows, false, across(numbers, j/2), sum)
	}
}

// across returns one component of each of several vectors of 4.
func across(vectors []string, i int) string {
	all := make([]string, len(vectors))
	for c, v := range vectors {
		all[c] = component(4, v, i)
	}
	return pack(all)
}

// directProducts adds the products of one k to a sum for each row. last: only if that k exists.
func (r *renderer) directProducts(k, rows int, last bool, b string, sum func(row int) string) {
	exists := ""
	if last {
		near := r.B.Together
		at := k/near*near*r.Groups + k%near
		exists = fmt.Sprintf("if (%du < left)", at)
		if r.Groups > 1 {
			exists = fmt.Sprintf("if (%s < left)", plus(times(near, "group"), at))
		}
	}
	r.block(exists, func() {
		r.line("let b0 = %s;", b)
		for i := range rows {
			if i%r.A.Element == 0 {
				r.line("let a%d = sharedA[%du][readA%d];", i/r.A.Element, k, i/r.A.Element)
			}
			a := component(r.A.Element, fmt.Sprintf("a%d", i/r.A.Element), i%r.A.Element)
			r.line("%s = fma(%s, b0, %s);", sum(i), splat(r.Tile.RN, a), sum(i))
		}
	})
}
