package wgsl

import "fmt"

// operand writes the loads of A or B.
type operand struct {
	*Stage
	name   string // A or B: the suffix of its variables
	groups int
	step   int // TK
}

// loads is the number of loads of a block: one for each row or column of the
// tile when memory runs along K, else a single one.
func (o *operand) loads() int {
	if o.AlongK {
		return o.Span
	}
	return 1
}

// packed: the scalars of a block become one vector when they are loaded.
func (o *operand) packed() bool { return o.AlongK && !o.Wide }

// global is the type of an element of the buffer.
func (o *operand) global() string {
	if o.Wide {
		return vec(4)
	}
	return vec(1)
}

// registers names the variables that hold block b between load and store.
func (o *operand) registers(b int) []string {
	if o.packed() || o.loads() == 1 {
		return []string{fmt.Sprintf("next%s%d", o.name, b)}
	}
	names := make([]string, o.loads())
	for i := range names {
		names[i] = fmt.Sprintf("next%s%d_%d", o.name, b, i)
	}
	return names
}

// declare writes what lasts for the whole shader: the thread's place among the
// loading threads and its registers.
func (o *operand) declare(w *writer) {
	w.line("let along%s = %s;", o.name, rest("t", o.Lanes))
	w.line("let across%s = %s;", o.name, over("t", o.Lanes))
	w.line("var at%s: u32;", o.name)
	kind := o.global()
	if o.packed() {
		kind = vec(o.Span)
	}
	for b := range o.Blocks {
		for _, name := range o.registers(b) {
			w.line("var %s: %s;", name, kind)
		}
	}
}

// start sets the thread's position in global memory to the item's first K step.
func (o *operand) start(w *writer) {
	across := fmt.Sprintf("across%s * ld%s", o.name, o.name)
	w.line("at%s = off%s + %s + along%s;", o.name, o.name, times(o.loads(), across), o.name)
}

// advance moves the position by one K step.
func (o *operand) advance(w *writer) {
	if o.AlongK {
		w.line("at%s = %s;", o.name, plus("at"+o.name, o.step/o.Depth))
	} else {
		w.line("at%s = at%s + %s;", o.name, o.name, times(o.step, "ld"+o.name))
	}
}

// load writes the loads from global memory into registers.
func (o *operand) load(w *writer) {
	o.eachBlock(w, func(b int, block Block) {
		values := make([]string, o.loads())
		for i := range values {
			at := plus("at"+o.name, block.Along)
			if row := block.Across*o.loads() + i; row > 0 {
				at += " + " + times(row, "ld"+o.name)
			}
			values[i] = fmt.Sprintf("%s[%s]", o.name, at)
		}
		if o.packed() {
			values = []string{pack(values)}
		}
		for i, name := range o.registers(b) {
			w.line("%s = %s;", name, values[i])
		}
	})
}

// store writes the registers to workgroup memory, with k as the slow index.
func (o *operand) store(w *writer) {
	o.eachBlock(w, func(b int, block Block) {
		r := o.registers(b)
		along := plus("along"+o.name, block.Along)
		across := plus("across"+o.name, block.Across)
		switch {
		case o.packed():
			w.line("%s = %s;", o.element(along, across), r[0])
		case o.AlongK: // transpose Span vectors of 4 k's
			for k := range o.Depth {
				column := make([]string, o.Span)
				for i := range column {
					column[i] = component(4, r[i], k)
				}
				w.line("%s = %s;", o.element(plus(times(o.Depth, along), k), across), pack(column))
			}
		case !o.Wide:
			at := o.element(across, over(along, o.Element))
			if o.Element > 1 {
				at += "[" + rest(along, o.Element) + "]"
			}
			w.line("%s = %s;", at, r[0])
		default: // cut one vector of 4 rows or columns into elements
			parts := 4 / o.Element
			for i := range parts {
				value := r[0]
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
func (o *operand) eachBlock(w *writer, body func(b int, block Block)) {
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
