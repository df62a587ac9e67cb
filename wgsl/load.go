package wgsl

import (
	"fmt"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner/element"
)

// operand writes the loads of A or B.
type operand struct {
	*stage
	name    string // A or B: the suffix of its variables
	of      element.Type
	groups  int
	step    int              // TK
	gather  bool             // rows of A are found by indices
	gated   bool             // for the second item, B2 is read in place of B
	turn    int              // which registers are loaded and stored, as K steps alternate
	scaling encoding.Scaling // of B
	near    int              // Together if B is Direct, otherwise 0
	blocks  bool             // scales of blocks multiply numbers
	bits    bool             // workgroup memory holds the bits of numbers, because it also holds words of C
	fours   bool             // k are words of four numbers: see Limits.Dot
	loads   int              // of the loop that loads a K step: see roll; 0: none
	apart   int              // the distance from one of these loads to the next
	whole   bool             // words start where rows do: see encoding.Kernel.Vector
}

// rows returns the distance in rows of global memory from one block to the next.
func (o *operand) rows() int {
	if o.turned() {
		return perDot
	}
	if o.AlongK && o.Apart == 1 {
		return o.Span
	}
	return 1
}

// place is the place of a number: distances from the thread's first one along the contiguous axis and in
// rows.
type place struct{ along, row int }

// places returns where a block's register is loaded from: the place of each number, or of the first one if
// one load takes all or the numbers are a run.
func (o *operand) places(b block) (all []place) {
	switch {
	case o.turned():
		for i := range perDot {
			all = append(all, place{b.Along, b.Across*perDot + i})
		}
	case o.dot():
		for i := range o.Span {
			all = append(all, place{b.Along * perDot, b.Across*o.rows() + i*o.Apart})
		}
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

// run reports whether the numbers of a block are adjacent narrow ones, whose words are all loaded.
func (o *operand) run() bool {
	return o.narrow() && !o.AlongK && !o.Vector && o.Span > 1 && o.Apart == 1
}

// runWords returns the most words that a run can touch.
func (o *operand) runWords() int { return (o.Span+o.per()-2)/o.per() + 1 }

// narrow reports whether elements have 16 or 8 bits. Registers then hold their words.
func (o *operand) narrow() bool { return o.of != element.F32 && !o.dot() }

// per returns the number of elements in a word.
func (o *operand) per() int { return o.of.PerWord() }

// scalar returns the scalar type of buffer and registers.
func (o *operand) scalar() string {
	if o.narrow() || o.dot() {
		return "u32"
	}
	return "f32"
}

func (o *operand) zero() string {
	if o.narrow() || o.dot() {
		return "0u"
	}
	return "0.0"
}

// global returns the type of an element of the buffer.
func (o *operand) global() string {
	switch {
	case o.packed():
		return vecOf("u32", o.Words)
	case !o.Vector || o.dot():
		return o.scalar()
	case o.Direct && o.AlongK:
		return vecOf(o.scalar(), 4)
	case o.narrow():
		return vecOf("u32", 4/o.per())
	}
	return vec(4)
}

// local returns the type of a register.
func (o *operand) local() string {
	switch {
	case o.turned():
		return vecOf(o.scalar(), perDot)
	case o.Vector || o.packed():
		return o.global()
	case o.run():
		return vecOf(o.scalar(), o.runWords())
	}
	return vecOf(o.scalar(), o.Span)
}

// unit returns how many elements one load takes. It is 1 if the load takes an element in its word.
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

// fetch returns the content of a buffer at a position, at that distance from the thread's first one: a unit
// of elements, or the word with one.
func (o *operand) fetch(buffer string, along, row int) string {
	at := o.at(along, row)
	if o.dot() && o.AlongK {
		at = over(at, perDot)
	}
	if o.narrow() && !o.Vector && !o.packed() {
		at = o.word(along, row)
	}
	return buffer + "[" + at + "]"
}

// position converts a number of elements to the unit of fetch.
func (o *operand) position(elements string) string {
	if unit := o.unit(); unit > 1 {
		return over(elements, unit)
	}
	return elements
}

// leading does the same for a leading dimension. That of Int4 is also the number of group words, so it
// stays.
func (o *operand) leading(elements string) string {
	if o.packed() {
		return elements
	}
	return o.position(elements)
}

// register returns the variable that holds block b between load and store.
func (o *operand) register(b int) string { return o.registerOf("", b) }

func (o *operand) registerOf(what string, b int) string {
	return fmt.Sprintf("%s%s%s%d", [...]string{"next", "later"}[o.turn], what, o.name, b)
}

// declare writes the variables of the whole shader: the thread's place among the loading threads, and its
// registers for `ahead` K steps.
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

// positions returns the variables that move with each K step: one for an element, or those of words.
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
	first := fmt.Sprintf("at%s = off%s + %s + %s;", o.name, o.name,
		times(o.rows(), fmt.Sprintf("across%s * ld%s", o.name, o.name)), o.startAlong())
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

// startAlong is the thread's first position along the contiguous axis.
func (o *operand) startAlong() string {
	along := "along" + o.name
	switch {
	case o.run():
		return times(o.Span, along)
	case o.dot() && o.AlongK:
		return times(perDot, along)
	}
	return along
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
func (o *operand) load(w *writer) { o.fromBuffer(w, o.loadFrom) }

// fromBuffer writes what reads from the buffer of the item.
func (o *operand) fromBuffer(w *writer, body func(buffer string, w *writer)) {
	if o.gated {
		w.ifElse("second", func() { body("B2", w) }, func() { body(o.name, w) })
		return
	}
	body(o.name, w)
}

func (o *operand) loadFrom(buffer string, w *writer) {
	o.eachBlock(w, func(b int, block block) {
		var values []string
		for _, p := range o.places(block) {
			values = append(values, o.existing(o.fetch(buffer, p.along, p.row), p.row))
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

// existing returns what is read of a row: 0 if rows are gathered, and it does not exist.
func (o *operand) existing(value string, row int) string {
	if !o.gather {
		return value
	}
	_, is := gathered(row)
	return fmt.Sprintf("select(%s, %s, %s)", o.zero(), value, is)
}

// at returns a position, at that distance from the thread's first one.
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

// store writes the registers to workgroup memory, with k as the slow index, or hands them to the threads
// that multiply.
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
	if o.dot() {
		o.finishDots(w)
	}
	o.eachBlock(w, func(b int, block block) {
		r, hold := o.number(b, block), o.hold
		if o.dot() { // words are what it holds
			hold = func(_ int, words string) string { return words }
		}
		if o.blocks {
			r = fmt.Sprintf("%s * %s", scalesAt(o.scalePlace(block)), r)
		}
		along := plus("along"+o.name, block.Along)
		across := plus("across"+o.name, block.Across)
		switch {
		case o.AlongK:
			w.line("%s = %s;", o.element(along, across), hold(o.Span, r))
		case !o.Vector && o.Span < o.Element:
			element, number := over(along, o.Element), rest(along, o.Element)
			if o.Apart > 1 {
				element, number = rest(along, o.Apart), over(along, o.Apart)
			}
			w.line("%s[%s] = %s;", o.element(across, element), number, r)
		case !o.Vector:
			w.line("%s = %s;", o.element(across, along), hold(o.Span, r))
		default: // cut one vector of 4 rows or columns into elements
			parts := 4 / o.Element
			for i := range parts {
				value := r
				if parts > 1 {
					value = paren(value) + "." + "xyzw"[i*o.Element:(i+1)*o.Element]
				}
				w.line("%s = %s;", o.element(across, plus(times(parts, along), i)), hold(o.Element, value))
			}
		}
	})
}

// eachBlock writes the text of every block of a thread. Blocks that only some threads load are under a
// condition, which encloses no barrier.
func (o *operand) eachBlock(w *writer, body func(b int, block block)) {
	for b, block := range o.Blocks {
		if block.Limit == 0 {
			body(b, block)
			continue
		}
		w.block(fmt.Sprintf("if (across%s < %du)", o.name, block.Limit), func() { body(b, block) })
	}
}

// element returns element i of the tile at one k in workgroup memory. A row has the Groups k that the K
// groups multiply at the same time. So the index of the row is a literal in unrolled code, and the other
// index is the same for all k.
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

// hold returns what workgroup memory holds for n numbers, and held converts it back to numbers.
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

// array returns the type of the operand's workgroup memory.
func (o *operand) array() string {
	of := "f32"
	if o.bits {
		of = "u32"
	}
	return fmt.Sprintf("array<array<%s, %d>, %d>", vecOf(of, o.Element), o.row(o.groups), o.Rows)
}
