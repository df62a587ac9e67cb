package wgsl

import (
	"fmt"

	"github.com/batchgemm/batchgemm/planner/element"
)

// With Limits.Short, large tiles of fp32 are loaded in loops, each K step when it is due, by way of a single
// register: lavapipe compiles tall-8x4 in 0.6 of the time, and runs it in the same time.

// leastLoads is how many blocks of a thread make a loop.
const leastLoads = 3

// loops reports whether the products of a K step are in a loop.
func (r *renderer) loops() bool {
	return r.short && !r.B.Direct && r.GroupSteps*r.Tile.RM*r.Tile.RN > mostUnrolled
}

// roll makes loops of the loads if the text profits.
func (r *renderer) roll() {
	r.late = r.loops() && r.kernel.TypeA == element.F32 && r.kernel.TypeB() == element.F32 &&
		(r.a.rolls() || r.b.rolls())
	if r.late {
		r.a.roll()
		r.b.roll()
	}
}

// rolls reports whether blocks follow each other in one direction.
func (o *operand) rolls() bool {
	last := len(o.Blocks) - 1
	return last+1 >= leastLoads && o.Blocks[last] == block{Across: last * o.Blocks[1].Across}
}

// roll leaves the first block, which the loop moves.
func (o *operand) roll() {
	if o.rolls() {
		first := *o.stage
		o.loads, o.apart, first.Blocks = len(o.Blocks), o.Blocks[1].Across, o.Blocks[:1]
		o.stage = &first
	}
}

// due loads a K step to workgroup memory. The end of the loop depends on the item, because Mesa unrolls
// others.
func (o *operand) due(w *writer, rows string) {
	load := func() {
		if o.gather {
			o.findRows(w)
		}
		o.load(w)
		o.store(w)
	}
	if o.loads == 0 {
		load()
		return
	}
	end := "many"
	if o.AlongK {
		end = rows
	}
	unit := o.apart * o.rows()
	w.block(fmt.Sprintf("for (var load = 0u; %s < min(%s, %du); load = load + 1u)", times(unit, "load"), end,
		unit*o.loads), func() {
		w.line("let across%s = across%s + %s;", o.name, o.name, times(o.apart, "load"))
		if !o.gather {
			w.line("let at%s = at%s + %s * ld%s;", o.name, o.name, times(unit, "load"), o.name)
		}
		load()
	})
}

// multiplyLate writes the K loop of an item.
func (r *renderer) multiplyLate() {
	r.line("var left = depth;")
	r.block("if (left != 0u)", func() {
		r.a.start(&r.writer)
		r.b.start(&r.writer)
		r.block("loop", func() {
			r.line("let many = min(left, %du);", r.Tile.TK)
			r.a.due(&r.writer, "rows")
			r.b.due(&r.writer, "cols")
			r.line("workgroupBarrier();")
			r.rolledSteps("many")
			r.line("if (left <= %du) { break; }", r.Tile.TK)
			r.line("left = left - %du;", r.Tile.TK)
			r.a.advance(&r.writer)
			r.b.advance(&r.writer)
			r.line("workgroupBarrier();")
		})
	})
}
