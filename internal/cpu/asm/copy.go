package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// copyRows512 writes the copy of rows of columns, 32 at a time. The last vector gets zeros beyond the last
// column.
func copyRows512() {
	const params = "dst, src unsafe.Pointer, rowDst, rowSrc, cols, rows int"
	TEXT(amd64.declare("copyRows512", params), NOSPLIT,
		"func(dst, src *byte, rowDst, rowSrc, cols, rows int)")
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	rowDst, rowSrc := Load(Param("rowDst"), GP64()), Load(Param("rowSrc"), GP64())
	cols, rows := GP64(), Load(Param("rows"), GP64())
	Load(Param("cols"), cols)
	from, to, left, bits, zero := GP64(), GP64(), GP64(), GP32(), GP32()
	most, some := GP64(), GP64()
	MOVQ(U32(32), most)
	Label("columns")
	MOVQ(cols, some)
	CMPQ(cols, most)
	CMOVQGT(most, some) // BZHI sees 8 bits
	MOVL(U32(0xffffffff), bits)
	BZHIL(some.As32(), bits, bits)
	KMOVW(bits, K1)
	SHRL(Imm(16), bits)
	KMOVW(bits, K2)
	XORL(zero, zero)
	NEGL(bits)
	SBBL(zero, zero)
	KMOVW(zero, K3) // whether there is a second vector
	MOVQ(src, from)
	MOVQ(dst, to)
	MOVQ(rows, left)
	Label("rows")
	VMOVUPS_Z(Mem{Base: from}, K1, Z0)
	VMOVUPS_Z(Mem{Base: from, Disp: 64}, K2, Z1)
	VMOVUPS(Z0, Mem{Base: to})
	VMOVUPS(Z1, K3, Mem{Base: to, Disp: 64})
	ADDQ(rowSrc, from)
	ADDQ(rowDst, to)
	DECQ(left)
	JNE(LabelRef("rows"))
	ADDQ(U32(128), src)
	ADDQ(U32(128), dst)
	SUBQ(Imm(32), cols)
	JG(LabelRef("columns"))
	VZEROUPPER()
	RET()
}
