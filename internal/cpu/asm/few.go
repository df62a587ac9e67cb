package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Byte offsets in package cpu's type few, which checks them.
const (
	offFewA, offFewWords, offFewGroups     = 0, 8, 16
	offFewColumns, offFewSums, offFewTable = 24, 32, 40
	offFewStep, offFewGroupStep            = 48, 56
	offFewToggle, offFewPanels, offFewPair = 64, 72, 80
)

// order has the k of a word at bits 0, 4, and so on.
var order = []uint32{0, 2, 4, 6, 1, 3, 5, 7}

// fews writes kernels that multiply 1 to 8 rows by columns of 4 bits, two at a time, for AVX-512. A vector
// has the 8 words of a panel of both columns. Shifted by 4 bits, each word selects another number. Sums of a
// panel are multiplied by their scales. packFew writes A in this order.
func fews() {
	halves := constants("halvesOfFew", func(i int) uint32 { return uint32(i / 8) }, 16)
	for _, of := range []struct {
		name   string
		shared uint32 // words with one scale
	}{{"Int4", 8}, {"MXFP4", 4}, {"NVFP4", 2}} {
		shifts := constants("shiftsOf"+of.name, func(i int) uint32 { return uint32(i%8) / of.shared * 8 }, 16)
		var names []string
		for rows := 1; rows <= 8; rows++ {
			names = append(names, few(of.name, rows, halves, shifts))
		}
		fmt.Fprintf(&amd64, "\nvar few%s = []func(*few){\n\tnil, %s,\n\t%s,\n}\n", of.name,
			strings.Join(names[:4], ", "), strings.Join(names[4:], ", "))
	}
	packFew()
}

// scales writes what makes the scales of a panel. pair has the words of both columns, each in 8 lanes.
func scales(of string, pair, shifts, more, scale VecPhysical) {
	switch of {
	case "Int4": // Z24: all but the lower 4 bits
		VPANDD(Z24, pair, scale)
	case "MXFP4": // Z24: 255, Z25: 2^-127, Z26: infinity, Z27: NaN
		VPADDD(more, shifts, more)
		VPSRLVD(more, pair, scale)
		VPANDD(Z24, scale, scale)
		VPSLLD(Imm(23), scale, scale)
		VPMAXUD(Z25, scale, scale)
		VPCMPEQD(Z26, scale, K1)
		VPORD(Z27, scale, K1, scale)
	case "NVFP4": // Z24: 127, Z25: 2^120, Z26: 128, Z27: NaN
		VPSRLVD(shifts, pair, scale)
		VPANDD(Z24, scale, more)
		VPCMPEQD(Z24, more, K1)
		VPSLLD(Imm(20), more, more)
		VMULPS(Z25, more, more)
		VPANDD(Z26, scale, scale)
		VPSLLD(Imm(24), scale, scale)
		VPORD(more, scale, scale)
		VPORD(Z27, scale, K1, scale)
		VMULPS(Z20, scale, scale) // of columns
	}
}

func few(of string, rows int, halves, shiftsAt Mem) (name string) {
	name = amd64.declare(fmt.Sprintf("few%sx%d", of, rows), "p *few")
	TEXT(name, NOSPLIT, "func(p *byte)")
	sum := func(r int) VecPhysical { return zmm[r] }
	part := func(r int) VecPhysical { return zmm[8+r] }
	words, q, scale, more, pair, zero := Z16, Z17, Z18, Z19, Z21, Z22
	table, half, shifts := Z31, Z30, Z29
	p := Load(Param("p"), GP64())
	from := quad(p, offFewTable)
	VMOVUPS(Mem{Base: from}, table)
	VMOVDQU32(halves, half)
	VMOVDQU32(shiftsAt, shifts)
	for i, bits := range map[string][]uint32{"Int4": {0xfffffff0, 15}, "MXFP4": {255, 0x00400000, 0x7f800000,
		0x7fc00000}, "NVFP4": {127, 0x7b800000, 128, 0x7fc00000}}[of] {
		constant(zmm[24+i], bits)
	}
	at, groups, columns := quad(p, offFewWords), quad(p, offFewGroups), quad(p, offFewColumns)
	sums, pairs := quad(p, offFewSums), quad(p, offFewPair)
	a, word, group, left, phase := GP64(), GP64(), GP64(), GP64(), GP64()
	Label("pair")
	for r := range rows {
		VMOVUPS(Mem{Base: sums, Disp: 64 * r}, sum(r))
	}
	if of == "NVFP4" {
		VPBROADCASTQ(Mem{Base: columns}, Z20)
		VPERMD(Z20, half, Z20)
	}
	MOVQ(field(p, offFewA), a)
	MOVQ(field(p, offFewPanels), left)
	MOVQ(at, word)
	MOVQ(groups, group)
	XORQ(phase, phase)
	Label("panel")
	VMOVDQU32(Mem{Base: word}, words)
	PREFETCHT0(Mem{Base: word, Disp: 256})
	VPBROADCASTQ(Mem{Base: group}, pair)
	VPERMD(pair, half, pair)
	if of == "Int4" {
		VPANDD(Z25, pair, zero)
		VCVTDQ2PS(zero, zero)
	}
	if of == "MXFP4" {
		VPBROADCASTD(phase.As32(), more)
	}
	scales(of, pair, shifts, more, scale)
	for s := range 8 {
		index := words
		if s > 0 {
			index = q
			VPSRLD(Imm(uint64(4*s)), words, q)
		}
		VPERMPS(table, index, q)
		if of == "Int4" {
			VSUBPS(zero, q, q)
		}
		for r := range rows {
			x := Mem{Base: a, Disp: 64 * (s*rows + r)}
			if s == 0 {
				VMULPS(x, q, part(r))
			} else {
				VFMADD231PS(x, q, part(r))
			}
		}
	}
	for r := range rows {
		VFMADD231PS(scale, part(r), sum(r))
	}
	ADDQ(field(p, offFewStep), word)
	ADDQ(U32(uint32(64*8*rows)), a)
	XORQ(field(p, offFewToggle), phase) // words of groups are for one panel, or for two
	JNE(LabelRef("same"))
	ADDQ(field(p, offFewGroupStep), group)
	Label("same")
	DECQ(left)
	JNE(LabelRef("panel"))
	for r := range rows {
		VMOVUPS(sum(r), Mem{Base: sums, Disp: 64 * r})
	}
	ADDQ(Imm(64), at)
	ADDQ(Imm(8), groups)
	ADDQ(Imm(8), columns)
	ADDQ(U32(uint32(64*rows)), sums)
	DECQ(pairs)
	JNE(LabelRef("pair"))
	VZEROUPPER()
	RET()
	return name
}

// packFew writes the function that brings a row of numbers, whole panels, to the order of fews: 8 vectors for
// a panel, each stride bytes after the one before, with each number twice.
func packFew() {
	TEXT(amd64.declare("packFew512", "dst, src *float32, stride, panels int"), NOSPLIT,
		"func(dst, src *float32, stride, panels int)")
	places := constants("placesOfFew", func(i int) uint32 { return uint32(i%4)*8 + order[i/16] }, 128)
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	stride, panels := Load(Param("stride"), GP64()), Load(Param("panels"), GP64())
	for s := range 8 {
		VMOVDQU32(places.Offset(64*s), zmm[8+s])
	}
	bits := GP32()
	MOVL(U32(0xf0f0), bits)
	KMOVW(bits, K1)
	Label("panel")
	for i := range 4 {
		VMOVUPS(Mem{Base: src, Disp: 64 * i}, zmm[i])
	}
	for s := range 8 {
		VMOVDQA32(zmm[8+s], Z4)
		VPERMI2PS(Z1, Z0, Z4)
		VMOVDQA32(zmm[8+s], Z5)
		VPERMI2PS(Z3, Z2, Z5)
		VMOVAPS(Z5, K1, Z4)
		VMOVUPS(Z4, Mem{Base: dst})
		ADDQ(stride, dst)
	}
	ADDQ(U32(256), src)
	DECQ(panels)
	JNE(LabelRef("panel"))
	VZEROUPPER()
	RET()
}
