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
}

// rows is the number of rows of global memory that a block takes from.
func (o *operand) rows() int {
	if o.AlongK {
		return o.Span
	}
	return 1
}

// global is the type of an element of the buffer.
func (o *operand) global() string {
	switch {
	case o.of == element.F32 && o.Wide:
		return vec(4)
	case o.of == element.F32:
		return vec(1)
	case o.Wide:
		return "vec2<u32>"
	}
	return "u32"
}

// fetch is what is at a position of a buffer: 4 numbers with Wide, else one.
func (o *operand) fetch(buffer, at string) string {
	if o.of == element.F32 {
		return buffer + "[" + at + "]"
	}
	return "load" + buffer + "(" + at + ")"
}

// position turns a number of elements into one of what fetch takes at once.
func (o *operand) position(elements string) string {
	if o.Wide {
		return over(elements, 4)
	}
	return elements
}

// register names the variable that holds block b between load and store.
func (o *operand) register(b int) string { return fmt.Sprintf("next%s%d", o.name, b) }

// declare writes what lasts for the whole shader: the thread's place among the
// loading threads and its registers.
func (o *operand) declare(w *writer) {
	w.line("let along%s = %s;", o.name, rest("t", o.Lanes))
	w.line("let across%s = %s;", o.name, over("t", o.Lanes))
	w.line("var at%s: u32;", o.name)
	for b := range o.Blocks {
		w.line("var %s: %s;", o.register(b), vec(o.Span))
	}
	if o.gather {
		for _, row := range o.gatheredRows() {
			at, is := gathered(row)
			w.line("var %s: u32;", at)
			w.line("var %s: bool;", is)
		}
	}
}

// start sets the thread's position in global memory to the item's first K step.
func (o *operand) start(w *writer) {
	if o.gather {
		o.find(w)
		return
	}
	across := fmt.Sprintf("across%s * ld%s", o.name, o.name)
	w.line("at%s = off%s + %s + along%s;", o.name, o.name, times(o.rows(), across), o.name)
}

// advance moves the position by one K step.
func (o *operand) advance(w *writer) {
	if o.AlongK {
		w.line("at%s = %s;", o.name, plus("at"+o.name, o.step))
	} else {
		w.line("at%s = at%s + %s;", o.name, o.name, times(o.step, "ld"+o.name))
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
		values := make([]string, o.rows())
		for i := range values {
			at, row := plus("at"+o.name, block.Along), block.Across*o.rows()+i
			if o.gather {
				first, is := gathered(row)
				values[i] = fmt.Sprintf("select(0.0, %s, %s)", o.fetch(buffer, first+" + "+at), is)
				continue
			}
			if row > 0 {
				at += " + " + times(row, "ld"+o.name)
			}
			values[i] = o.fetch(buffer, at)
		}
		w.line("%s = %s;", o.register(b), pack(values))
	})
}

// store writes the registers to workgroup memory, with k as the slow index.
func (o *operand) store(w *writer) {
	o.eachBlock(w, func(b int, block block) {
		r := o.register(b)
		along := plus("along"+o.name, block.Along)
		across := plus("across"+o.name, block.Across)
		switch {
		case o.AlongK:
			w.line("%s = %s;", o.element(along, across), r)
		case !o.Wide:
			at := o.element(across, over(along, o.Element))
			if o.Element > 1 {
				at += "[" + rest(along, o.Element) + "]"
			}
			w.line("%s = %s;", at, r)
		default: // cut one vector of 4 rows or columns into elements
			parts := 4 / o.Element
			for i := range parts {
				value := r
				if parts > 1 {
					value += "." + "xyzw"[i*o.Element:(i+1)*o.Element]
				}
				w.line("%s = %s;", o.element(across, plus(times(parts, along), i)), value)
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
	return fmt.Sprintf("shared%s[%s][%s + %s]",
		o.name, over(k, o.groups), times(o.Pitch, rest(k, o.groups)), i)
}

// array is the type of the operand's workgroup memory.
func (o *operand) array() string {
	return fmt.Sprintf("array<array<%s, %d>, %d>", vec(o.Element), o.groups*o.Pitch, o.step/o.groups)
}
