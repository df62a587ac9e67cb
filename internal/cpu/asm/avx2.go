package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

var ymm = [...]VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}

// avx2 writes kernels of up to 6 rows and 2 vectors, or 12 rows and a vector, with a
// whole last vector and with a part of it.
func avx2() {
	masks := GLOBL("avx2masks", RODATA|NOPTR)
	for i := range 16 {
		bits := uint32(0)
		if i < 8 {
			bits = 0xffffffff
		}
		DATA(4*i, U32(bits))
	}
	var whole, edge [][]string
	for rows := 1; rows <= 12; rows++ {
		var names, edges []string
		for vectors := 1; vectors == 1 || vectors == 2 && rows <= 6; vectors++ {
			names = append(names, kernel2(rows, vectors, nil))
			edges = append(edges, kernel2(rows, vectors, &masks))
		}
		whole, edge = append(whole, names), append(edge, edges)
	}
	table("avx2Kernels", whole)
	table("avx2EdgeKernels", edge)
	transpose2()
}

func kernel2(rows, vectors int, masks *Mem) (name string) {
	name = fmt.Sprintf("avx2x%dx%d", rows, vectors)
	if masks != nil {
		name += "edge"
	}
	TEXT(declare(name, "p *micro"), NOSPLIT, "func(p *byte)")
	p := Load(Param("p"), GP64())
	mask, room := Y15, 2
	if masks != nil {
		room = 1
		lanes, table := quad(p, offLanes), GP64()
		LEAQ(masks.Offset(32), table)
		NEGQ(lanes)
		VMOVUPS(Mem{Base: table, Index: lanes, Scale: 4}, mask)
	}
	m := &micro{
		rows: rows, vectors: vectors, arg: p, size: 32, first: rows * vectors,
		vector:    func(i int) VecPhysical { return ymm[i] },
		broadcast: func(from Op, to VecPhysical) { VBROADCASTSS(from, to) },
		load: func(from Op, to VecPhysical, last bool) {
			if last && masks != nil {
				VMASKMOVPS(from, mask, to)
			} else {
				VMOVUPS(from, to)
			}
		},
		store: func(from VecPhysical, to Op, last bool) {
			if last && masks != nil {
				VMASKMOVPS(from, mask, to)
			} else {
				VMOVUPS(from, to)
			}
		},
	}
	m.write(room)
	VZEROUPPER()
	RET()
	return name
}

// transpose2 is transpose512 for 8 columns.
func transpose2() {
	TEXT(declare("transpose2", "dst, src *float32, rowDst, rowSrc, rows, depth int"), NOSPLIT, "func(dst, src *float32, rowDst, rowSrc, rows, depth int)")
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	rowDst, rowSrc := Load(Param("rowDst"), GP64()), Load(Param("rowSrc"), GP64())
	rows, depth := Load(Param("rows"), GP64()), Load(Param("depth"), GP64())
	none, part, at, step, left, table := GP64(), GP64(), GP64(), GP64(), GP64(), GP64()
	XORQ(none, none)
	Label("block")
	MOVQ(U32(8), part)
	CMPQ(depth, part)
	CMOVQLT(depth, part)
	LEAQ(NewDataAddr(Symbol{Name: "avx2masks", Static: true}, 32), table)
	MOVQ(part, left)
	NEGQ(left)
	VMOVUPS(Mem{Base: table, Index: left, Scale: 4}, Y15)
	MOVQ(src, at)
	MOVQ(rowSrc, step)
	MOVQ(rows, left)
	for i := range 8 {
		VMASKMOVPS(Mem{Base: at}, Y15, ymm[i])
		DECQ(left)
		CMOVQLE(none, step)
		ADDQ(step, at)
	}
	// Pairs of rows, one half of the eight after the other for want of registers.
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
	for i := range 8 {
		from := ymm[8+i]
		if i >= 4 {
			from = ymm[i]
		}
		VMOVUPS(from, Mem{Base: dst})
		ADDQ(rowDst, dst)
		DECQ(part)
		JE(LabelRef("end"))
	}
	Label("end")
	ADDQ(Imm(32), src)
	SUBQ(Imm(8), depth)
	JG(LabelRef("block"))
	VZEROUPPER()
	RET()
}
