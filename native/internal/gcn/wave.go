package gcn

import (
	"fmt"
	"math/bits"
)

// operation defines the instructions of a name.
type operation struct {
	name       string
	unit       unit
	dsts, srcs int // operands that are written, which come first, and others
	run        func(*wave, *instruction)
	parse      func(in *instruction, text string) error // for instructions with special operands

	readsDst              bool   // it also reads what it writes
	packed                bool   // it takes op_sel and op_sel_hi
	usualLow              uint32 // opLow if the text does not say
	alsoReads, alsoWrites []span
	// a transcendental function, which has its own pipeline
	trans   bool
	matrix  *matrix // for matrix cores
	accMove bool    // to or from an accumulation register
	counter counter // for unit memory
	flat    bool    // an address in any memory
	// for unit memory: stores are visible after it
	writesBack bool
	access     func(*wave, *instruction) error // for unit memory
}

// unit is the hardware unit that executes an instruction.
type unit uint8

const (
	salu unit = iota
	branch
	valu
	memory
)

// operations are all operations, by name.
var operations = map[string]*operation{}

// register adds a table to operations, for init.
func register(table map[string]operation) {
	for name, op := range table {
		if operations[name] != nil {
			panic("gcn: two operations " + name)
		}
		op.name = name
		operations[name] = &op
	}
}

// lanesOf is a register of all lanes, or a number for each of them. Waves of 32 use the first half.
type lanesOf = [64]uint32

// wave is a running wave.
type wave struct {
	*Kernel
	group  *group
	number int // in the group
	width  int // lanes
	next   int // index of the next instruction
	done   bool
	// atBarrier: it waits for the others of the group.
	atBarrier bool

	scalars [vectors]uint32
	scc     bool
	vector  []lanesOf // from register number `vectors` on
	scratch [8]lanesOf
	private []uint32 // words of each lane, lane by lane

	ran     []bool // of the launch
	pending pending
	order   ordering
	recent  recent
}

// exec returns the lanes that take part.
func (w *wave) exec() uint64 { return w.mask(execReg) }

// mask returns a bit for each lane.
func (w *wave) mask(register int) uint64 {
	mask := uint64(w.scalars[register])
	if w.width == 64 {
		mask |= uint64(w.scalars[register+1]) << 32
	}
	return mask
}

func (w *wave) setMask(register int, mask uint64) {
	w.scalars[register] = uint32(mask)
	if w.width == 64 {
		w.scalars[register+1] = uint32(mask >> 32)
	}
}

// all returns exec with all lanes.
func (w *wave) all() uint64 { return ^uint64(0) >> (64 - w.width) }

// scalar reads an operand of scalar operations.
func (w *wave) scalar(o *operand) uint64 {
	if o.kind != scalar {
		return o.value
	}
	value := uint64(w.scalars[o.first])
	if o.count > 1 {
		value |= uint64(w.scalars[o.first+1]) << 32
	}
	return value
}

// setScalar writes as many words as the operand has.
func (w *wave) setScalar(o *operand, value uint64) {
	if o.kind == none {
		return
	}
	w.scalars[o.first] = uint32(value)
	if o.count > 1 {
		w.scalars[o.first+1] = uint32(value >> 32)
	}
}

// broadcast prepares a literal. Equal literals of a kernel share it.
func (k *Kernel) broadcast(o *operand) {
	if o.kind == vector || o.kind == scalar {
		return
	}
	value := uint32(o.value)
	if o.lanes = k.literals[value]; o.lanes == nil {
		o.lanes = new(lanesOf)
		for l := range o.lanes {
			o.lanes[l] = value
		}
		if k.literals == nil {
			k.literals = map[uint32]*lanesOf{}
		}
		k.literals[value] = o.lanes
	}
}

// lanes reads a word of a source. It may use place for the result.
func (w *wave) lanes(o *operand, word, place int) *lanesOf {
	to := &w.scratch[place]
	var from *lanesOf
	switch o.kind {
	case vector:
		from = &w.vector[o.first-vectors+word]
	case scalar:
		value := w.scalars[o.first+word]
		for l := range to {
			to[l] = value
		}
		from = to
	default:
		if from = o.lanes; word > 0 { // sign
			value := uint32(o.value >> 32)
			for l := range to {
				to[l] = value
			}
			from = to
		}
	}
	if o.sel != dword || o.abs || o.neg {
		o.modify(to, from)
		return to
	}
	return from
}

// modify applies the modifiers of a source.
func (o *operand) modify(to, from *lanesOf) {
	for l, x := range from {
		switch {
		case o.sel == dword:
		case o.sel >= word0:
			x = x >> (16 * (o.sel - word0)) & 0xffff
		default:
			x = x >> (8 * (o.sel - byte0)) & 0xff
		}
		if o.abs {
			x &^= 1 << 31
		}
		if o.neg {
			x ^= 1 << 31
		}
		to[l] = x
	}
}

// dst returns the register that a vector operation writes.
func (w *wave) dst(in *instruction, word int) *lanesOf {
	return &w.vector[in.dst[0].first-vectors+word]
}

// each calls f for the lanes that take part.
func (w *wave) each(f func(l int)) {
	mask := w.exec()
	if mask == w.all() {
		for l := range w.width {
			f(l)
		}
		return
	}
	for ; mask != 0; mask &= mask - 1 {
		f(bits.TrailingZeros64(mask))
	}
}

// mergeDst preserves the part of a destination that dst_sel leaves out.
func mergeDst(run func(*wave, *instruction)) func(*wave, *instruction) {
	return func(w *wave, in *instruction) {
		d := w.dst(in, 0)
		before := *d
		if in.pad {
			before = lanesOf{}
		}
		run(w, in)
		shift, mask := uint32(0), uint32(0xff)
		if in.dstSel >= word0 {
			shift, mask = 16*uint32(in.dstSel-word0), 0xffff
		} else {
			shift = 8 * uint32(in.dstSel-byte0)
		}
		w.each(func(l int) { d[l] = before[l]&^(mask<<shift) | d[l]&mask<<shift })
	}
}

// runDual runs both halves as if at once: the second half sees the registers from before the first.
func runDual(w *wave, in *instruction) {
	first, second := &in.dual[0], &in.dual[1]
	d := w.dst(first, 0)
	before := *d
	first.run(w, first)
	after := *d
	*d = before
	second.run(w, second)
	*d = after
}

// step runs the next instruction.
func (w *wave) step() error {
	in := &w.code[w.next]
	if w.ran != nil {
		w.ran[w.next] = true
	}
	w.next++
	if err := w.pending.check(in); err != nil {
		return w.fault(in, err)
	}
	if w.arch.waitStates || w.arch.gfx11 {
		if err := w.checkHazards(in); err != nil {
			return w.fault(in, err)
		}
	}
	if in.unit == memory {
		if err := in.access(w, in); err != nil {
			return w.fault(in, err)
		}
		w.issue(in)
	} else {
		in.run(w, in)
	}
	if w.arch.waitStates || w.arch.gfx11 {
		w.recordHazards(in)
	}
	return nil
}

func (w *wave) fault(in *instruction, err error) error {
	return fmt.Errorf("%s, workgroup %d, wave %d, at %#x: %s: %w", w.Name, w.group.number, w.number,
		in.address, in.text, err)
}
