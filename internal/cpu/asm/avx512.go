package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

var zmm = [...]VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15,
	Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31}

// avx512 writes kernels of up to 6 rows and 4 vectors, 14 rows and 2 vectors, or 24 rows
// and a vector.
func avx512() {
	var kernels [][]string
	for rows := 1; rows <= 24; rows++ {
		vectors := 1
		if rows <= 14 {
			vectors = 2
		}
		if rows <= 6 {
			vectors = 4
		}
		var names []string
		for v := 1; v <= vectors; v++ {
			names = append(names, kernel512(rows, v))
		}
		kernels = append(kernels, names)
	}
	table("avx512Kernels", kernels)
	transpose512()
}

func kernel512(rows, vectors int) (name string) {
	name = declare(fmt.Sprintf("avx512x%dx%d", rows, vectors), "p *micro")
	TEXT(name, NOSPLIT, "func(p *byte)")
	p := Load(Param("p"), GP64())
	mask := K1
	lanes, bits := quad(p, offLanes), GP32()
	MOVL(U32(0xffff), bits)
	BZHIL(lanes.As32(), bits, bits)
	KMOVW(bits, mask)
	m := &micro{
		rows: rows, vectors: vectors, arg: p, size: 64, first: rows * vectors,
		vector:    func(i int) VecPhysical { return zmm[i] },
		broadcast: func(from Op, to VecPhysical) { VBROADCASTSS(from, to) },
		load: func(from Op, to VecPhysical, last bool) {
			if last {
				VMOVUPS_Z(from, mask, to)
			} else {
				VMOVUPS(from, to)
			}
		},
		store: func(from VecPhysical, to Op, last bool) {
			if last {
				VMOVUPS(from, mask, to)
			} else {
				VMOVUPS(from, to)
			}
		},
	}
	m.write(2)
	VZEROUPPER()
	RET()
	return name
}

// transpose512 writes 16 columns: rows of src, of which there may be fewer, become
// columns of dst.
func transpose512() {
	TEXT(declare("transpose512", "dst, src *float32, rowDst, rowSrc, rows, depth int"), NOSPLIT, "func(dst, src *float32, rowDst, rowSrc, rows, depth int)")
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	rowDst, rowSrc := Load(Param("rowDst"), GP64()), Load(Param("rowSrc"), GP64())
	rows, depth := Load(Param("rows"), GP64()), Load(Param("depth"), GP64())
	none, bits, part, at, step, left := GP64(), GP32(), GP64(), GP64(), GP64(), GP64()
	XORQ(none, none)
	Label("block")
	MOVQ(U32(16), part)
	CMPQ(depth, part)
	CMOVQLT(depth, part)
	MOVL(U32(0xffff), bits)
	BZHIL(part.As32(), bits, bits)
	KMOVW(bits, K1)
	MOVQ(src, at)
	MOVQ(rowSrc, step)
	MOVQ(rows, left)
	for i := range 16 {
		VMOVUPS_Z(Mem{Base: at}, K1, zmm[i])
		DECQ(left)
		CMOVQLE(none, step) // rows that do not exist repeat the last
		ADDQ(step, at)
	}
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
	for i := range 16 {
		VMOVUPS(zmm[i], Mem{Base: dst})
		ADDQ(rowDst, dst)
		DECQ(part)
		JE(LabelRef("end"))
	}
	Label("end")
	ADDQ(Imm(64), src)
	SUBQ(Imm(16), depth)
	JG(LabelRef("block"))
	VZEROUPPER()
	RET()
}
