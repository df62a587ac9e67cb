package wgsl

import (
	"fmt"

	"github.com/batchgemm/batchgemm/planner/element"
)

// operand writes the loads of A or B.
type operand struct {
	*stage
	name   string // A or B: the suffix of its variables
	of     element.Type
	groups int
	step   int  // TK
	gather bool // rows of A are found by indices
	gated  bool // of the second item B2 is read in place of B
	turn   int  // which of the registers are loaded and stored: those of K steps in turn
	group  int  // of Int4: k's that share a scale
	near   int  // where B is Direct its Together, else 0
	blocks bool // numbers are multiplied by scales of blocks
	bits   bool // workgroup memory holds the bits of numbers, since it holds words of C too
}

// rows is the number of rows of global memory from one block to the next.
func (o *operand) rows() int {
	if o.AlongK && o.Apart == 1 {
		return o.Span
	}
	return 1
}

// place is where a number lies, as distances from the thread's first one along the contiguous axis and in
// rows.
type place struct{ along, row int }

// places are those of what a register of a block is loaded from: of each of its numbers, or of the first one,
// where one load takes all, or where they are a run.
func (o *operand) places(b block) (all []place) {
	switch {
	case o.AlongK:
		for i := range o.Span {
			all = append(all, place{b.Along, b.Across*o.rows() + i*o.Apart})
		}
	case o.Apart > 1:
		for i := range o.Span {
			all = append(all, place{b.Along + i*o.Apart, b.Across})
		}
	case o.run():
		all = []place{{b.Along * o.Span, b.Across}}
	default:
		all = []place{{b.Along, b.Across}}
	}
	return all
}

// run reports whether the numbers of a block are adjacent narrow ones, of which all words around them are
// loaded.
func (o *operand) run() bool {
	return o.narrow() && !o.AlongK && !o.Vector && o.Span > 1 && o.Apart == 1
}

// runWords is how many words may have numbers of a run.
func (o *operand) runWords() int { return (o.Span+o.per()-2)/o.per() + 1 }

// narrow reports whether elements have 16 bits or 8. Registers hold the words around these.
func (o *operand) narrow() bool { return o.of != element.F32 }

// per is how many elements a word has.
func (o *operand) per() int { return o.of.PerWord() }

// scalar is what the buffer and registers consist of.
func (o *operand) scalar() string {
	if o.narrow() {
		return "u32"
	}
	return "f32"
}

func (o *operand) zero() string {
	if o.narrow() {
		return "0u"
	}
	return "0.0"
}

// global is the type of an element of the buffer.
func (o *operand) global() string {
	switch {
	case o.packed():
		return vecOf("u32", o.Words)
	case !o.Vector:
		return o.scalar()
	case o.Direct && o.AlongK:
		return vecOf(o.scalar(), 4)
	case o.narrow():
		return vecOf("u32", 4/o.per())
	}
	return vec(4)
}

// local is the type of a register.
func (o *operand) local() string {
	switch {
	case o.Vector || o.packed():
		return o.global()
	case o.run():
		return vecOf(o.scalar(), o.runWords())
	}
	return vecOf(o.scalar(), o.Span)
}

// unit is how many elements one load takes, but where it takes one and the word around it.
func (o *operand) unit() int {
	switch {
	case o.packed():
		return perPacked * o.Words
	case o.Direct && o.AlongK:
		return o.Together
	case o.Vector:
		return 4
	}
	return 1
}

// fetch is what is at a position of a buffer, so far from the thread's first one: a unit of elements, or
// the word around one.
func (o *operand) fetch(buffer string, along, row int) string {
	at := o.at(along, row)
	if o.narrow() && !o.Vector && !o.packed() {
		at = o.word(along, row)
	}
	return buffer + "[" + at + "]"
}

// position turns a number of elements into one of what fetch takes at once.
func (o *operand) position(elements string) string {
	if unit := o.unit(); unit > 1 {
		return over(elements, unit)
	}
	return elements
}

// leading does that to a leading dimension, but for one of Int4, which is as many words of groups too.
func (o *operand) leading(elements string) string {
	if o.packed() {
		return elements
	}
	return o.position(elements)
}

// register names the variable that holds block b between load and store.
func (o *operand) register(b int) string { return o.registerOf("", b) }

func (o *operand) registerOf(what string, b int) string {
	return fmt.Sprintf("%s%s%s%d", [...]string{"next", "later"}[o.turn], what, o.name, b)
}

// declare writes what lasts for the whole shader: the thread's place among the
// loading threads and its registers, for so many K steps.
func (o *operand) declare(ahead int, w *writer) {
	along, across := rest("t", o.Lanes), over("t", o.Lanes)
	switch {
	case o.Direct:
		along, across = o.directPlace()
	case o.packed(): // columns
		across = times(o.Element, across)
	}
	w.line("let along%s = %s;", o.name, along)
	w.line("let across%s = %s;", o.name, across)
	for _, at := range o.positions() {
		w.line("var %s: u32;", at)
	}
	for o.turn = range ahead {
		for b := range o.Blocks {
			w.line("var %s: %s;", o.register(b), o.local())
			if o.packed() {
				w.line("var %s: u32;", o.groupWord(b))
			}
		}
	}
	o.turn = 0
	o.declareScales(w)
	if o.gather {
		for _, row := range o.gatheredRows() {
			at, is := gathered(row)
			w.line("var %s: u32;", at)
			w.line("var %s: bool;", is)
		}
	}
}

// positions are the variables that move with each K step: one of an element, or those of words.
func (o *operand) positions() (all []string) {
	for _, c := range o.classes() {
		all = append(all, o.variable("word", c))
	}
	if all == nil {
		return []string{"at" + o.name}
	}
	return all
}

// start sets the thread's position in global memory to the item's first K step.
func (o *operand) start(w *writer) {
	along := "along" + o.name
	if o.run() {
		along = times(o.Span, along)
	}
	first := fmt.Sprintf("at%s = off%s + %s + %s;", o.name, o.name,
		times(o.rows(), fmt.Sprintf("across%s * ld%s", o.name, o.name)), along)
	switch classes := o.classes(); {
	case o.gather:
		o.find(w)
	case o.packed():
		o.startPacked(w)
	case classes != nil:
		w.line("let %s", first)
		o.startWords(w)
	default:
		w.line("%s", first)
	}
}

// advance moves the positions by one K step.
func (o *operand) advance(w *writer) {
	step := o.step
	switch {
	case o.classes() != nil: // whole words
		step /= o.per()
	case o.AlongK:
		step /= o.unit()
	}
	for _, at := range o.positions() {
		if o.AlongK {
			w.line("%s = %s;", at, plus(at, step))
		} else {
			w.line("%s = %s + %s;", at, at, times(step, "ld"+o.name))
		}
	}
}

// load writes the loads from global memory into registers.
func (o *operand) load(w *writer) {
	if o.gated {
		w.ifElse("second", func() { o.loadFrom("B2", w) }, func() { o.loadFrom(o.name, w) })
		return
	}
	o.loadFrom(o.name, w)
}

func (o *operand) loadFrom(buffer string, w *writer) {
	o.eachBlock(w, func(b int, block block) {
		var values []string
		for _, p := range o.places(block) {
			value := o.fetch(buffer, p.along, p.row)
			if o.gather {
				_, is := gathered(p.row)
				value = fmt.Sprintf("select(%s, %s, %s)", o.zero(), value, is)
			}
			values = append(values, value)
			for i := 1; o.run() && i < o.runWords(); i++ {
				values = append(values, fmt.Sprintf("%s[%s]", buffer, plus(o.word(p.along, p.row), i)))
			}
		}
		w.line("%s = %s;", o.register(b), packOf(o.scalar(), values))
		if o.packed() {
			o.loadGroup(b, block, w)
		}
	})
}

// at is a position, so far from the thread's first one.
func (o *operand) at(along, row int) string {
	if o.packed() {
		return o.atPacked(along, row)
	}
	at := plus("at"+o.name, along)
	switch {
	case o.gather:
		first, _ := gathered(row)
		return first + " + " + at
	case row > 0:
		return at + " + " + times(row, "ld"+o.name)
	}
	return at
}

// store writes the registers to workgroup memory, with k as the slow index, or hands them to the threads that
// multiply.
func (o *operand) store(w *writer) {
	switch {
	case o.Direct:
		o.eachBlock(w, func(b int, _ block) { o.hand(b, w) })
		return
	case o.packed():
		o.eachBlock(w, func(b int, block block) {
			if b%o.Element == 0 {
				o.storePacked(b, block, w)
			}
		})
		return
	}
	o.scaleStep(w)
	o.eachBlock(w, func(b int, block block) {
		r := o.number(b, block)
		if o.blocks {
			r = fmt.Sprintf("%s * %s", scalesAt(o.scalePlace(block)), r)
		}
		along := plus("along"+o.name, block.Along)
		across := plus("across"+o.name, block.Across)
		switch {
		case o.AlongK:
			w.line("%s = %s;", o.element(along, across), o.hold(o.Span, r))
		case !o.Vector && o.Span < o.Element:
			element, number := over(along, o.Element), rest(along, o.Element)
			if o.Apart > 1 {
				element, number = rest(along, o.Apart), over(along, o.Apart)
			}
			w.line("%s[%s] = %s;", o.element(across, element), number, r)
		case !o.Vector:
			w.line("%s = %s;", o.element(across, along), o.hold(o.Span, r))
		default: // cut one vector of 4 rows or columns into elements
			parts := 4 / o.Element
			for i := range parts {
				value := r
				if parts > 1 {
					value = paren(value) + "." + "xyzw"[i*o.Element:(i+1)*o.Element]
				}
				w.line("%s = %s;", o.element(across, plus(times(parts, along), i)), o.hold(o.Element, value))
			}
		}
	})
}

// eachBlock writes the text of every block of a thread. Blocks that only some
// threads load stand under a condition; it encloses no barrier.
func (o *operand) eachBlock(w *writer, body func(b int, block block)) {
	for b, block := range o.Blocks {
		if block.Limit == 0 {
			body(b, block)
			continue
		}
		w.block(fmt.Sprintf("if (across%s < %du)", o.name, block.Limit), func() { body(b, block) })
	}
}

// element is element i of the tile at one k in workgroup memory. A row holds
// the Groups k's that the K groups multiply at the same time, so that the index
// of the row is a literal in unrolled code and the other one lasts for all k.
func (o *operand) element(k, i string) string {
	if o.groups == 1 {
		return fmt.Sprintf("shared%s[%s][%s]", o.name, k, i)
	}
	row, group := over(k, o.groups), rest(k, o.groups)
	if o.near > 0 {
		row, group = rest(k, o.near), over(k, o.near)
		if whole := o.near * o.groups; o.step > whole {
			row, group = times(o.near, over(k, whole))+" + "+row, rest(group, o.groups)
		}
	}
	return fmt.Sprintf("shared%s[%s][%s + %s]", o.name, row, times(o.Pitch, group), i)
}

// hold is what workgroup memory holds for n numbers, and held the numbers.
func (o *operand) hold(n int, numbers string) string {
	if o.bits {
		return fmt.Sprintf("bitcast<%s>(%s)", vecOf("u32", n), numbers)
	}
	return numbers
}

func (o *operand) held(held string) string {
	if o.bits {
		return fmt.Sprintf("bitcast<%s>(%s)", vec(o.Element), held)
	}
	return held
}

// array is the type of the operand's workgroup memory.
func (o *operand) array() string {
	of := "f32"
	if o.bits {
		of = "u32"
	}
	return fmt.Sprintf("array<array<%s, %d>, %d>", vecOf(of, o.Element), o.row(o.groups), o.Rows)
}
