package wgsl

import (
	"fmt"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/planner/element"
)

// B of 4 bits is loaded in words of eight k of a column, with the word of their group. The words are whole,
// because tiles are split along K only between groups. They are converted to numbers when they are stored to
// workgroup memory, or when they are multiplied.

// perPacked is the number of weights in a word.
const perPacked = 8

// packedWeights returns four weights of a word less their zero point: every second k. The other four are 16
// bits higher. Each is inserted without a shift in the bits of a float32 of at least 2^23, where it counts
// 1, 16, 256 or 4096 times: integer conversions and shifts are slow on GPUs. No step rounds.
const packedWeights = `
fn zerosOf(group: u32) -> vec4<f32> {
	let zero = bitcast<f32>((group & 15u) | 0x4b000000u) - 8388608.0;
	return vec4<f32>(8388608.0, 524288.0, 32768.0, 2048.0) + vec4<f32>(zero);
}

fn weights(word: u32, zeros: vec4<f32>) -> vec4<f32> {
	let bits = (vec4<u32>(word) & vec4<u32>(0xfu, 0xf0u, 0xf00u, 0xf000u)) | vec4<u32>(0x4b000000u);
	return bitcast<vec4<f32>>(bits) * vec4<f32>(1.0, 0.0625, 0.00390625, 0.000244140625) - zeros;
}
`

func (o *operand) packed() bool { return elemtype.Bits4(o.of) }

// signed reports whether weights are e2m1, which have a sign in place of zero points.
func (o *operand) signed() bool { return o.packed() && o.of != element.Int4 }

// groupWord returns the variable with the group word of a register's content.
func (o *operand) groupWord(b int) string { return o.registerOf("Group", b) }

// perPanel returns the number of loads for a column of a panel.
func (o *operand) perPanel() int { return element.Int4Panel / o.unit() }

// startPacked sets where the thread's columns and their group words start, and which loads of a column come
// first.
func (o *operand) startPacked(w *writer) {
	w.line("let start%s = off%s + %s;", o.name, o.name, times(o.perPanel(), "across"+o.name))
	w.line("let panel%s = %s;", o.name, times(o.perPanel(), "ld"+o.name))
	first := ""
	if o.scaling.ColumnRow() {
		o.startColumns(w)
		first = " + ld" + o.name
	}
	w.line("let scales%s = scale%sAt + across%s%s;", o.name, o.name, o.name, first)
	w.line("at%s = along%s;", o.name, o.name)
}

// atPacked returns the position of a load, at that distance from the thread's first one.
func (o *operand) atPacked(along, column int) string {
	at := plus("at"+o.name, along)
	return fmt.Sprintf("%s + %s * panel%s + %s", plus("start"+o.name, o.perPanel()*column),
		over(at, o.perPanel()), o.name, rest(at, o.perPanel()))
}

// loadGroup loads the word of a block's group.
func (o *operand) loadGroup(b int, block block, w *writer) {
	row := over(plus("at"+o.name, block.Along), o.scaling.Group()/o.unit())
	w.line("%s = indices[%s + %s * ld%s];", o.groupWord(b), plus("scales"+o.name, block.Across), row, o.name)
	if o.signed() {
		w.line("%s = %s >> (8u * (%s));", o.groupWord(b), o.groupWord(b), o.scaleInWord(block))
	}
}

// takeGroup extracts the scale and the zero point of a column from its group word.
func (o *operand) takeGroup(column, b int, w *writer) {
	if o.signed() {
		ofColumn := ""
		if o.scaling.ColumnRow() {
			ofColumn = " * " + o.columnScale(o.Blocks[b].Across)
		}
		w.line("let scale%d = scaleOf(%s)%s;", column, o.groupWord(b), ofColumn)
		return
	}
	w.line("let scale%d = bitcast<f32>(%s & 0xfffffff0u);", column, o.groupWord(b))
	w.line("let zeros%d = zerosOf(%s);", column, o.groupWord(b))
}

// storePacked converts the blocks of an element's columns, from the given one on, and stores them.
func (o *operand) storePacked(b int, block block, w *writer) {
	w.block("", func() {
		columns := make([]string, o.Element)
		for c := range columns {
			o.takeGroup(c, b+c, w)
			w.line("let even%d = scale%d * %s;", c, c, o.weights(o.register(b+c), c))
			w.line("let odd%d = scale%d * %s;", c, c, o.weights(o.register(b+c)+" >> 16u", c))
		}
		along, across := plus("along"+o.name, block.Along), plus("across"+o.name, block.Across)
		for k := range perPacked {
			for c := range columns {
				columns[c] = component(4, fmt.Sprintf("%s%d", [...]string{"even", "odd"}[k%2], c), k/2)
			}
			at := o.element(plus(times(perPacked, along), k), over(across, o.Element))
			w.line("%s = %s;", at, o.hold(o.Element, pack(columns)))
		}
	})
}
