package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// precision is a type of elements, with the instructions for its vectors.
type precision struct {
	bytes         int
	alpha, beta   int // offsets in package cpu's type micro
	add           func(x, y, sum Op)
	multiply      func(x, y, product Op)
	broadcast     func(from Op, to VecPhysical)
	isOne, isZero func(p Register) // set the flag if alpha is 1, and if beta is 0 of either sign
	loadMasked    func(from Op, mask, to VecPhysical)
	storeMasked   func(from, mask VecPhysical, to Op)
	loadPart      func(from Op, mask Register, to VecPhysical)
	storePart     func(from VecPhysical, mask Register, to Op)
	lanes         int // of a vector of 512 bits
}

var single = precision{
	bytes: 4, alpha: offAlpha, beta: offBeta, lanes: 16,
	add:       func(x, y, sum Op) { VFMADD231PS(x, y, sum) },
	multiply:  func(x, y, product Op) { VMULPS(x, y, product) },
	broadcast: func(from Op, to VecPhysical) { VBROADCASTSS(from, to) },
	isOne:     func(p Register) { CMPL(field(p, offAlpha), U32(math.Float32bits(1))) },
	isZero: func(p Register) {
		beta := GP32()
		MOVL(field(p, offBeta), beta)
		SHLL(Imm(1), beta) // without its sign
	},
	loadMasked:  func(from Op, mask, to VecPhysical) { VMASKMOVPS(from, mask, to) },
	storeMasked: func(from, mask VecPhysical, to Op) { VMASKMOVPS(from, mask, to) },
	loadPart:    func(from Op, mask Register, to VecPhysical) { VMOVUPS_Z(from, mask, to) },
	storePart:   func(from VecPhysical, mask Register, to Op) { VMOVUPS(from, mask, to) },
}

var double = precision{
	bytes: 8, alpha: offAlpha64, beta: offBeta64, lanes: 8,
	add:       func(x, y, sum Op) { VFMADD231PD(x, y, sum) },
	multiply:  func(x, y, product Op) { VMULPD(x, y, product) },
	broadcast: func(from Op, to VecPhysical) { VBROADCASTSD(from, to) },
	isOne: func(p Register) {
		one := GP64()
		MOVQ(U64(math.Float64bits(1)), one)
		CMPQ(field(p, offAlpha64), one)
	},
	isZero: func(p Register) {
		beta := quad(p, offBeta64)
		SHLQ(Imm(1), beta)
	},
	loadMasked:  func(from Op, mask, to VecPhysical) { VMASKMOVPD(from, mask, to) },
	storeMasked: func(from, mask VecPhysical, to Op) { VMASKMOVPD(from, mask, to) },
	loadPart:    func(from Op, mask Register, to VecPhysical) { VMOVUPD_Z(from, mask, to) },
	storePart:   func(from VecPhysical, mask Register, to Op) { VMOVUPD(from, mask, to) },
}
