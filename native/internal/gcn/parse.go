package gcn

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// instruction is one instruction, decoded.
type instruction struct {
	address uint64
	text    string
	*operation
	run      func(w *wave, in *instruction) // that of the operation, changed by modifiers
	dst, src []operand
	// Registers that it reads and writes, including implicit ones.
	reads, writes []span
	modifiers

	target int             // of a branch: index of an instruction
	waits  [counters]int   // of s_waitcnt: how many operations may be in flight
	dual   *[2]instruction // of v_dual_...: the two halves
	looks  bool            // of a read of shared memory: a compare and swap of the same address follows
}

// modifiers are the words after the operands.
type modifiers struct {
	offset       [2]uint32 // offset or offset0, and offset1
	opSel, opLow uint32    // of packed operations, a bit for each source: op_sel, and op_sel_hi inverted
	dstSel       selection
	pad          bool // beside dstSel: the rest of the register becomes 0
}

// span is adjacent registers, by their numbers in file.
type span struct{ first, count int }

func (s span) overlaps(t span) bool { return s.first < t.first+t.count && t.first < s.first+s.count }

// The numbers of registers, scalar ones as the hardware encodes them.
const (
	vccReg, m0Reg, execReg = 106, 124, 126
	vectors                = 128 // the first vector register
	accs                   = vectors + 256
	registers              = accs + 256
)

// operand is a source or a destination.
type operand struct {
	kind  operandKind
	span         // for scalar and vector
	value uint64 // for literal: 64 bits with sign; of a float those of fp32
	point bool   // for literal: a float
	lanes *[64]uint32
	sel   selection
	abs   bool // for floats; before neg
	neg   bool
}

type operandKind uint8

const (
	none operandKind = iota // "off" and "null": reads as 0, discards writes
	scalar
	vector
	literal
)

// selection is a part of a register (SDWA, op_sel).
type selection uint8

const (
	dword selection = iota
	byte0
	byte1
	byte2
	byte3
	word0
	word1
)

var selections = map[string]selection{"DWORD": dword, "BYTE_0": byte0, "BYTE_1": byte1, "BYTE_2": byte2,
	"BYTE_3": byte3, "WORD_0": word0, "WORD_1": word1}

// parse decodes a line of the listing: a tab, the instruction, and a comment with its address and its code.
func (k *Kernel) parse(line string) (in instruction, err error) {
	text, comment, _ := strings.Cut(line, "//")
	digits, _, ok := strings.Cut(strings.TrimSpace(comment), ":")
	address, err := strconv.ParseUint(digits, 16, 64)
	if err != nil || !ok {
		return in, errors.New("no instruction")
	}
	text = strings.TrimSpace(text)
	name, rest, _ := strings.Cut(text, " ")
	in, err = k.instruction(name, strings.TrimSpace(rest))
	in.address, in.text = address, text
	return in, err
}

// instruction decodes an instruction without its address.
func (k *Kernel) instruction(name, rest string) (in instruction, err error) {
	if first, second, ok := strings.Cut(rest, " :: "); ok {
		return k.dual(name, first, second)
	}
	for _, encoding := range []string{"_e32", "_e64", "_sdwa"} {
		name = strings.TrimSuffix(name, encoding)
	}
	words := split(rest)
	switch { // other operations
	case strings.HasSuffix(rest, " clamp"):
		name, words = name+" clamp", words[:len(words)-1]
	// an atomic operation that returns the old value
	case strings.HasSuffix(rest, " glc"), strings.HasSuffix(rest, " sc0"):
		name, words = name+" told", words[:len(words)-1]
	}
	op, ok := operations[name]
	if !ok {
		return in, fmt.Errorf("operation %q is in no table", name)
	}
	in.operation, in.run, in.opLow = op, op.run, op.usualLow
	if op.parse != nil {
		return in, op.parse(&in, rest)
	}
	var operands []operand
	for _, word := range words {
		o, err := k.operand(word)
		if err == nil {
			operands = append(operands, o)
		} else if len(operands) == 0 || !in.modify(word, operands[op.dsts:]) {
			return in, err
		}
	}
	if len(operands) != op.dsts+op.srcs {
		return in, fmt.Errorf("%d operands, not %d", len(operands), op.dsts+op.srcs)
	}
	in.dst, in.src = operands[:op.dsts], operands[op.dsts:]
	for i := range in.src {
		k.broadcast(&in.src[i])
	}
	if in.dstSel != dword {
		in.run = mergeDst(op.run)
	}
	in.use()
	return in, nil
}

// split separates operands and modifiers at commas or spaces outside of brackets.
func split(text string) (words []string) {
	depth, start := 0, 0
	for i, c := range text + " " {
		switch {
		case c == '[' || c == '(':
			depth++
		case c == ']' || c == ')':
			depth--
		case depth == 0 && (c == ',' || c == ' '):
			if i > start {
				words = append(words, text[start:i])
			}
			start = i + 1
		}
	}
	return words
}

// use lists the registers of an instruction.
func (in *instruction) use() {
	for _, o := range in.dst {
		if o.kind == scalar || o.kind == vector {
			in.writes = append(in.writes, o.span)
			if in.readsDst || in.dstSel != dword {
				in.reads = append(in.reads, o.span)
			}
		}
	}
	for _, o := range in.src {
		if o.kind == scalar || o.kind == vector {
			in.reads = append(in.reads, o.span)
		}
	}
	in.reads = append(in.reads, in.alsoReads...)
	in.writes = append(in.writes, in.alsoWrites...)
}

// dual decodes two operations of one instruction, which both read before either writes.
func (k *Kernel) dual(name, first, second string) (in instruction, err error) {
	var halves [2]instruction
	other, second, _ := strings.Cut(second, " ")
	for i, half := range [][2]string{{name, first}, {other, second}} {
		operation := strings.Replace(half[0], "v_dual_", "v_", 1)
		if operation == "v_cndmask_b32" {
			half[1] += ", vcc_lo"
		}
		if halves[i], err = k.instruction(operation, half[1]); err != nil {
			return in, err
		}
		in.reads = append(in.reads, halves[i].reads...)
		in.writes = append(in.writes, halves[i].writes...)
	}
	in.operation = &operation{unit: valu}
	in.name, in.run, in.dual = "v_dual", runDual, &halves
	return in, nil
}

// operand decodes a register or a number.
func (k *Kernel) operand(word string) (o operand, err error) {
	if inner, ok := strings.CutPrefix(word, "-"); ok && (strings.ContainsAny(inner[:1], "sva|")) {
		word, o.neg = inner, true
	}
	if len(word) > 2 && word[0] == '|' && word[len(word)-1] == '|' {
		word, o.abs = word[1:len(word)-1], true
	}
	switch word {
	case "off", "null":
		return o, nil
	}
	if s, ok := k.named(word); ok {
		o.kind, o.span = scalar, s
		return o, nil
	}
	file := strings.IndexByte("sva", word[0])
	if file < 0 || len(word) < 2 {
		o.kind = literal
		o.point = strings.Contains(word, ".")
		o.value, err = number(word)
		return o, err
	}
	first, last, ok := strings.Cut(strings.Trim(word[1:], "[]"), ":")
	if !ok {
		last = first
	}
	from, err := strconv.Atoi(first)
	to, err2 := strconv.Atoi(last)
	if err = errors.Join(err, err2); err != nil {
		return o, err
	}
	files := [...]span{{0, vccReg}, {vectors, k.meta.VGPRs}, {accs, k.meta.AGPRs}}
	o.kind, o.span = vector, span{from + files[file].first, to - from + 1}
	if file == 0 {
		o.kind = scalar
	}
	if o.count < 1 || to >= files[file].count {
		return o, fmt.Errorf("the kernel has no register %s", word)
	}
	return o, nil
}

// named returns scalar registers by name. Masks have a word for every 32 lanes.
func (k *Kernel) named(word string) (s span, ok bool) {
	masks := k.meta.WaveSize / 32
	switch word {
	case "vcc":
		s = span{vccReg, masks}
	case "vcc_lo":
		s = span{vccReg, 1}
	case "vcc_hi":
		s = span{vccReg + 1, 1}
	case "exec":
		s = span{execReg, masks}
	case "exec_lo":
		s = span{execReg, 1}
	case "exec_hi":
		s = span{execReg + 1, 1}
	case "m0":
		s = span{m0Reg, 1}
	}
	return s, s.count > 0
}

// number decodes a literal.
func number(word string) (uint64, error) {
	if strings.Contains(word, ".") {
		f, err := strconv.ParseFloat(word, 32)
		return uint64(math.Float32bits(float32(f))), err
	}
	if strings.HasPrefix(word, "0x") {
		return strconv.ParseUint(word[2:], 16, 32)
	}
	i, err := strconv.ParseInt(word, 10, 64)
	return uint64(i), err
}

// modify applies a modifier. It returns false for an unknown one.
func (in *instruction) modify(word string, src []operand) bool {
	name, value, _ := strings.Cut(word, ":")
	set := func(to *uint32) bool {
		n, err := strconv.ParseInt(value, 0, 32)
		*to = uint32(int32(n))
		return err == nil
	}
	sel, ok := selections[value]
	switch name {
	case "offset", "offset0":
		return set(&in.offset[0])
	case "offset1":
		return set(&in.offset[1])
	case "op_sel":
		in.opSel = bitsOf(value)
	case "op_sel_hi":
		in.opLow = ^bitsOf(value)
	case "dst_sel":
		in.dstSel = sel
		return ok
	case "dst_unused":
		in.pad = value == "UNUSED_PAD"
		return in.pad || value == "UNUSED_PRESERVE"
	case "src0_sel":
		src[0].sel = sel
		return ok
	case "src1_sel":
		src[1].sel = sel
		return ok
	default:
		return false
	}
	return in.packed
}

// bitsOf decodes a list such as [0,1,0].
func bitsOf(list string) (bits uint32) {
	for i, bit := range strings.Split(strings.Trim(list, "[]"), ",") {
		if bit == "1" {
			bits |= 1 << i
		}
	}
	return bits
}
