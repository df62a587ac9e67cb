package main

import (
	"encoding/binary"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// raw writes an instruction that Go's assembler lacks, as numbers.
func raw(bytes ...byte) {
	for len(bytes) >= 4 {
		number("LONG", operand.U32(binary.LittleEndian.Uint32(bytes)))
		bytes = bytes[4:]
	}
	if len(bytes) >= 2 {
		number("WORD", operand.U16(binary.LittleEndian.Uint16(bytes)))
		bytes = bytes[2:]
	}
	if len(bytes) > 0 {
		number("BYTE", operand.U8(bytes[0]))
	}
}

func number(size string, n operand.Op) {
	build.Instruction(&ir.Instruction{Opcode: size, Operands: []operand.Op{n}})
}

// dotBF16 adds to each lane of sum the products of two pairs of BF16 (VDPBF16PS).
func dotBF16(b, a, sum reg.VecPhysical) {
	d, v, m := byte(sum.ID().Index()), byte(a.ID().Index()), byte(b.ID().Index())
	raw(0x62, ^d<<4&0x80|^m<<2&0x60|^d&0x10|2, ^v<<3&0x78|6, 0x40|^v>>1&0x08, 0x52, 0xc0|d&7<<3|m&7)
}

// tile is a register of AMX.
type tile byte

const (
	tileWide  = 0x78 // VEX.128, without a register in vvvv
	prefixF3  = 2
	prefixF2  = 3
	opConfig  = 0x49
	opMove    = 0x4b
	opDotBF16 = 0x5c
	opDotInt8 = 0x5e
)

// tileMemory is TILELOADD or TILESTORED of a tile, whose rows are stride bytes apart.
func tileMemory(prefix byte, t tile, base, stride reg.GPPhysical, disp byte) {
	b, x := code(base), code(stride)
	raw(0xc4, 0x80|^x<<3&0x40|^b<<2&0x20|2, tileWide|prefix, opMove, 0x44|byte(t)<<3, x&7<<3|b&7, disp)
}

func tileLoad(t tile, base, stride reg.GPPhysical, disp byte) {
	tileMemory(prefixF2, t, base, stride, disp)
}

func tileStore(t tile, base, stride reg.GPPhysical, disp byte) {
	tileMemory(prefixF3, t, base, stride, disp)
}

// tileDot adds to sum the products of x, rows of words, and y, columns of words.
func tileDot(prefix, opcode byte, sum, x, y tile) {
	raw(0xc4, 0xe2, byte(15-y)<<3|prefix, opcode, 0xc0|byte(sum<<3|x))
}

func tileZero(t tile) { raw(0xc4, 0xe2, tileWide|prefixF2, opConfig, 0xc0|byte(t)<<3) }

func tileConfig(at reg.GPPhysical) {
	b := code(at)
	raw(0xc4, 0xc0|^b<<2&0x20|2, tileWide, opConfig, b&7)
}

func tileRelease() { raw(0xc4, 0xe2, tileWide, opConfig, 0xc0) }

// code returns the number of a register in instructions.
func code(r reg.GPPhysical) byte {
	for i, x := range []reg.GPPhysical{reg.RAX, reg.RCX, reg.RDX, reg.RBX, reg.RSP, reg.RBP, reg.RSI, reg.RDI,
		reg.R8, reg.R9, reg.R10, reg.R11, reg.R12, reg.R13, reg.R14, reg.R15} {
		if r == x {
			return byte(i)
		}
	}
	panic("no register")
}
