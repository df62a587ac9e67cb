package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Byte offsets in package cpu's type along, which checks them.
const (
	offAlongA, offAlongB, offAlongRowB     = 0, 32, 40
	offAlongSum, offAlongDepth, offAlongOf = 48, 56, 64
)

// alongs writes kernels of 1 to 4 rows of A by 1 to 6 rows of a transposed B, with vectors along K.
func alongs() {
	var table [][]string
	for rows := 1; rows <= 4; rows++ {
		var names []string
		for cols := 1; cols <= 6; cols++ {
			names = append(names, kernelAlong(rows, cols))
		}
		table = append(table, names)
	}
	amd64.table("alongKernels", "func(*along)", table)
}

func kernelAlong(rows, cols int) (name string) {
	name = amd64.declare(fmt.Sprintf("along%dx%d", rows, cols), "p *along")
	TEXT(name, NOSPLIT, "func(p *byte)")
	p := Load(Param("p"), GP64())
	sum := func(r, c int) VecPhysical { return zmm[r*cols+c] }
	a := func(r int) VecPhysical { return zmm[rows*cols+r] }
	b := zmm[rows*cols+rows]
	var from []GPVirtual
	for r := range rows {
		from = append(from, quad(p, offAlongA+8*r))
		for c := range cols {
			zero(sum(r, c))
		}
	}
	y := newLines(p, offAlongB, offAlongRowB, cols)
	depth, at, bits := quad(p, offAlongDepth), GP64(), GP32()
	XORQ(at, at)
	MOVL(U32(0xffff), bits)
	step := func(load func(from Mem, to VecPhysical)) {
		for r := range rows {
			load(Mem{Base: from[r], Index: at, Scale: 1}, a(r))
		}
		for c := range cols {
			load(y.at0(c), b)
			PREFETCHT0(y.at(c, 1024))
			for r := range rows {
				VFMADD231PS(b, a(r), sum(r, c))
			}
		}
	}
	SUBQ(Imm(16), depth)
	JLT(LabelRef("rest"))
	Label("step")
	step(func(from Mem, to VecPhysical) { VMOVUPS(from, to) })
	ADDQ(Imm(64), at)
	for _, base := range y.bases {
		ADDQ(Imm(64), base)
	}
	SUBQ(Imm(16), depth)
	JGE(LabelRef("step"))
	Label("rest")
	ADDQ(Imm(16), depth)
	JE(LabelRef("end"))
	BZHIL(depth.As32(), bits, bits)
	KMOVW(bits, K1)
	step(func(from Mem, to VecPhysical) { VMOVUPS_Z(from, K1, to) })
	Label("end")
	again := Load(Param("p"), GP64())
	to, more := quad(again, offAlongSum), quad(again, offAlongOf)
	half := b
	for r := range rows {
		for c := range cols {
			x := sum(r, c)
			VEXTRACTF64X4(Imm(1), x, half.AsY())
			VADDPS(half.AsY(), x.AsY(), x.AsY())
			VEXTRACTF32X4(Imm(1), x.AsY(), half.AsX())
			VADDPS(half.AsX(), x.AsX(), x.AsX())
			VPERMILPS(Imm(0x4e), x.AsX(), half.AsX())
			VADDPS(half.AsX(), x.AsX(), x.AsX())
			VPERMILPS(Imm(0xb1), x.AsX(), half.AsX())
			VADDSS(half.AsX(), x.AsX(), x.AsX())
		}
	}
	TESTQ(more, more)
	JE(LabelRef("store"))
	for r := range rows {
		for c := range cols {
			x := sum(r, c).AsX()
			VADDSS(Mem{Base: to, Disp: r*4*sumRow + 4*c}, x, x)
		}
	}
	Label("store")
	for r := range rows {
		for c := range cols {
			VMOVSS(sum(r, c).AsX(), Mem{Base: to, Disp: r*4*sumRow + 4*c})
		}
	}
	VZEROUPPER()
	RET()
	return name
}
