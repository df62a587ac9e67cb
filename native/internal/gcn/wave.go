package gcn

import (
	"fmt"
	"math/bits"
)

// operation is what instructions of a name do.
type operation struct {
	name       string
	unit       unit
	dsts, srcs int // operands that are written, which come first, and others
	run        func(*wave, *instruction)
	parse      func(in *instruction, text string) error // of instructions with operands of their own

	readsDst              bool   // it also reads what it writes
	packed                bool   // it takes op_sel and op_sel_hi
	usualLow              uint32 // opLow where nothing is written
	alsoReads, alsoWrites []span
	// a transcendental function, which has a pipeline of its own
	trans   bool
	matrix  *matrix // of matrix cores
	accMove bool    // to or from an accumulation register
	counter counter // of unit memory
	flat    bool    // an address in any memory
	// of unit memory: stores are there for others after it
	writesBack bool
	access     func(*wave, *instruction) error // of unit memory
}

// unit is what carries out an instruction.
type unit uint8

const (
	salu unit = iota
	branch
	valu
	memory
)

// operations are all that there are, by name.
var operations = map[string]*operation{}

// register puts a table into operations, for init.
func register(table map[string]operation) {
	for name, op := range table {
		if operations[name] != nil {
			panic("gcn: two operations " + name)
		}
		op.name = name
		operations[name] = &op
	}
}

// lanesOf is a register of all lanes, or a number for each of them. Waves of 32 have the first.
type lanesOf = [64]uint32

// wave is a wave that runs.
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
	private []uint32 // words of each lane, one lane after the other

	ran     []bool // of the launch
	pending pending
	order   ordering
	recent  recent
}

// exec is the lanes that take part.
func (w *wave) exec() uint64 { return w.mask(execReg) }

// mask is a bit for each lane.
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

// all is exec with all lanes.
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

// broadcast prepares a literal. Equal ones of a kernel share it.
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

// lanes reads a word of a source. The place is where it may put it.
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

// dst is the register that a vector operation writes.
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

// mergeDst keeps the part of a destination that dst_sel leaves out.
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

// runDual runs the halves as if at once: the second with the registers before the first.
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
