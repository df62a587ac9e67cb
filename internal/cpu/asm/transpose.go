package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// transpose writes a function that makes rows of src, at most lanes of them, columns of dst. It makes as
// many columns at once as shuffle returns registers. mask prepares for rows with `part` elements left, load
// loads them to a register.
func transpose(name string, of precision, lanes int, mask func(part GPVirtual), load func(from Mem, i int),
	shuffle func() []VecPhysical) {
	const params = "dst, src unsafe.Pointer, rowDst, rowSrc, rows, depth int"
	TEXT(amd64.declare(name, params), NOSPLIT, "func(dst, src *byte, rowDst, rowSrc, rows, depth int)")
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	rowDst, rowSrc := Load(Param("rowDst"), GP64()), Load(Param("rowSrc"), GP64())
	rows, depth := Load(Param("rows"), GP64()), Load(Param("depth"), GP64())
	none, part, at, step, left := GP64(), GP64(), GP64(), GP64(), GP64()
	XORQ(none, none)
	Label("block")
	MOVQ(U32(uint32(lanes)), part)
	CMPQ(depth, part)
	CMOVQLT(depth, part)
	mask(part)
	MOVQ(src, at)
	MOVQ(rowSrc, step)
	MOVQ(rows, left)
	for i := range lanes {
		load(Mem{Base: at}, i)
		DECQ(left)
		CMOVQLE(none, step) // rows beyond the end repeat the last one
		ADDQ(step, at)
	}
	for _, column := range shuffle() {
		VMOVUPS(column, Mem{Base: dst})
		ADDQ(rowDst, dst)
		DECQ(part)
		JE(LabelRef("end"))
	}
	Label("end")
	ADDQ(Imm(uint64(of.bytes*lanes)), src)
	SUBQ(Imm(uint64(lanes)), depth)
	JG(LabelRef("block"))
	VZEROUPPER()
	RET()
}

func transpose2() {
	transpose("transpose2", single, 8, func(part GPVirtual) { maskOf(part, "avx2masks", 4) },
		func(from Mem, i int) { VMASKMOVPS(from, Y15, ymm[i]) }, shuffle2)
}

// maskOf loads the mask of the first elements of a vector, of that many bytes each, to Y15.
func maskOf(part GPVirtual, masks string, bytes uint8) {
	table, left := GP64(), GP64()
	LEAQ(NewDataAddr(Symbol{Name: masks, Static: true}, 32), table)
	MOVQ(part, left)
	NEGQ(left)
	VMOVUPS(Mem{Base: table, Index: left, Scale: bytes}, Y15)
}

func shuffle2() []VecPhysical {
	// Pairs of rows, in two halves of the eight, because registers are few.
	for h := 0; h < 8; h += 4 {
		VUNPCKLPS(ymm[h+1], ymm[h], ymm[8])
		VUNPCKHPS(ymm[h+1], ymm[h], ymm[9])
		VUNPCKLPS(ymm[h+3], ymm[h+2], ymm[10])
		VUNPCKHPS(ymm[h+3], ymm[h+2], ymm[11])
		VUNPCKLPD(ymm[10], ymm[8], ymm[h])
		VUNPCKHPD(ymm[10], ymm[8], ymm[h+1])
		VUNPCKLPD(ymm[11], ymm[9], ymm[h+2])
		VUNPCKHPD(ymm[11], ymm[9], ymm[h+3])
	}
	for i := range 4 {
		VPERM2F128(Imm(0x20), ymm[4+i], ymm[i], ymm[8+i])
	}
	for i := range 4 {
		VPERM2F128(Imm(0x31), ymm[4+i], ymm[i], ymm[4+i])
	}
	return append(ymm[8:12:12], ymm[4:8]...)
}

func transpose512() {
	transpose("transpose512", single, 16, func(part GPVirtual) {
		bits := GP32()
		MOVL(U32(0xffff), bits)
		BZHIL(part.As32(), bits, bits)
		KMOVW(bits, K1)
	}, func(from Mem, i int) { VMOVUPS_Z(from, K1, zmm[i]) }, shuffle512)
}

func shuffle512() []VecPhysical {
	// 4 x 4 blocks within lanes of 128 bits, then the lanes.
	for i := 0; i < 16; i += 2 {
		VUNPCKLPS(zmm[i+1], zmm[i], zmm[16+i])
		VUNPCKHPS(zmm[i+1], zmm[i], zmm[16+i+1])
	}
	for i := 0; i < 16; i += 4 {
		VUNPCKLPD(zmm[16+i+2], zmm[16+i], zmm[i])
		VUNPCKHPD(zmm[16+i+2], zmm[16+i], zmm[i+1])
		VUNPCKLPD(zmm[16+i+3], zmm[16+i+1], zmm[i+2])
		VUNPCKHPD(zmm[16+i+3], zmm[16+i+1], zmm[i+3])
	}
	for i := range 4 { // zmm[4*q+i] holds columns i, i+4, i+8, i+12 of rows 4q..4q+3
		VSHUFF32X4(Imm(0x88), zmm[4+i], zmm[i], zmm[16+i])    // columns i, i+8 of rows 0..7
		VSHUFF32X4(Imm(0xdd), zmm[4+i], zmm[i], zmm[20+i])    // columns i+4, i+12
		VSHUFF32X4(Imm(0x88), zmm[12+i], zmm[8+i], zmm[24+i]) // the same of rows 8..15
		VSHUFF32X4(Imm(0xdd), zmm[12+i], zmm[8+i], zmm[28+i])
	}
	for i := range 4 {
		VSHUFF32X4(Imm(0x88), zmm[24+i], zmm[16+i], zmm[i])
		VSHUFF32X4(Imm(0xdd), zmm[24+i], zmm[16+i], zmm[8+i])
		VSHUFF32X4(Imm(0x88), zmm[28+i], zmm[20+i], zmm[4+i])
		VSHUFF32X4(Imm(0xdd), zmm[28+i], zmm[20+i], zmm[12+i])
	}
	return zmm[:16]
}

func transposeDouble2() {
	transpose("transposeDouble2", double, 4, func(part GPVirtual) { maskOf(part, "double2masks", 8) },
		func(from Mem, i int) { VMASKMOVPD(from, Y15, ymm[i]) }, func() []VecPhysical {
			for h := 0; h < 4; h += 2 {
				VUNPCKLPD(ymm[h+1], ymm[h], ymm[4+h])
				VUNPCKHPD(ymm[h+1], ymm[h], ymm[5+h])
			}
			for i := range 2 {
				VPERM2F128(Imm(0x20), ymm[6+i], ymm[4+i], ymm[i])
				VPERM2F128(Imm(0x31), ymm[6+i], ymm[4+i], ymm[2+i])
			}
			return ymm[:4]
		})
}

func transposeDouble512() {
	transpose("transposeDouble512", double, 8, func(part GPVirtual) {
		bits := GP32()
		MOVL(U32(0xff), bits)
		BZHIL(part.As32(), bits, bits)
		KMOVW(bits, K1)
	}, func(from Mem, i int) { VMOVUPD_Z(from, K1, zmm[i]) }, func() []VecPhysical {
		for i := 0; i < 8; i += 2 { // zmm[8+i] holds columns 0, 2, 4, 6 of two rows, the next one the others
			VUNPCKLPD(zmm[i+1], zmm[i], zmm[8+i])
			VUNPCKHPD(zmm[i+1], zmm[i], zmm[9+i])
		}
		for i := range 2 { // 0xdd takes columns i+2, i+6, 0x88 columns i, i+4, of rows 0..3 and then 4..7
			VSHUFF64X2(Imm(0x88), zmm[10+i], zmm[8+i], zmm[16+i])
			VSHUFF64X2(Imm(0xdd), zmm[10+i], zmm[8+i], zmm[18+i])
			VSHUFF64X2(Imm(0x88), zmm[14+i], zmm[12+i], zmm[20+i])
			VSHUFF64X2(Imm(0xdd), zmm[14+i], zmm[12+i], zmm[22+i])
		}
		for i := range 4 {
			VSHUFF64X2(Imm(0x88), zmm[20+i], zmm[16+i], zmm[i])
			VSHUFF64X2(Imm(0xdd), zmm[20+i], zmm[16+i], zmm[4+i])
		}
		return zmm[:8]
	})
}
