package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Further byte offsets in package cpu's type few.
const (
	offFewBytes, offFewZeros, offFewOrder, offFewScales = 88, 96, 104, 112
	scalesOfFew                                         = 64 // bytes of a column, 16 for each panel
)

// fews2 writes for AVX2 what fews writes for AVX-512, a column at a time. Two tables of bytes make the halves
// of bf16 numbers, less zero points, of 32 elements at once. Scales become numbers before.
func fews2() {
	masks := constants("masksOfFew2", func(i int) uint32 {
		return []uint32{0x0f0f0f0f, 0xffff0000}[i/8]
	}, 16)
	names := "nil"
	for rows := 1; rows <= 4; rows++ {
		names += ", " + few2(rows, masks)
	}
	fmt.Fprintf(&amd64, "\nvar few2 = []func(*few){%s}\n", names)
	packFew2()
	scales2()
	convert("widen2BF16", 2, 4, func(from, to Op) {
		for i := range 2 {
			from, to := from.(Mem).Offset(16*i), to.(Mem).Offset(32*i)
			VPMOVZXWD(from, Y0)
			VPSLLD(Imm(16), Y0, Y0)
			VMOVUPS(Y0, to)
		}
	})
}

func few2(rows int, masks Mem) (name string) {
	name = amd64.declare(fmt.Sprintf("few2x%d", rows), "p *few")
	TEXT(name, NOSPLIT, "func(p *byte)")
	sum := func(r int) VecPhysical { return ymm[r] }
	part := func(r int) VecPhysical { return ymm[4+r] }
	lower, upper := []VecPhysical{Y8, Y9}, []VecPhysical{Y10, Y11} // halves of numbers
	words, pair, q := Y12, Y13, Y14
	p := Load(Param("p"), GP64())
	at, sums, cols := quad(p, offFewWords), quad(p, offFewSums), quad(p, offFewPair)
	bytes, order, scale := quad(p, offFewBytes), quad(p, offFewOrder), quad(p, offFewScales)
	step := quad(p, offFewStep)
	a, word, scales, left, zero := GP64(), GP64(), GP64(), GP64(), GP64()
	Label("column")
	for r := range rows {
		VMOVUPS(Mem{Base: sums, Disp: 32 * r}, sum(r))
	}
	MOVQ(field(p, offFewA), a)
	MOVQ(field(p, offFewPanels), left)
	MOVQ(at, word)
	MOVQ(scale, scales)
	Label("panel")
	MOVL(Mem{Base: scales}, zero.As32())
	ANDL(field(p, offFewZeros), zero.As32())
	SHLL(Imm(5), zero.As32())
	VBROADCASTI128(Mem{Base: bytes, Index: zero, Scale: 1}, lower[1])
	VBROADCASTI128(Mem{Base: bytes, Index: zero, Scale: 1, Disp: 16}, upper[1])
	VPSHUFD(Imm(0xd8), Mem{Base: word}, words) // so that all vectors have words of all scales
	for n := range 2 {
		if n == 1 {
			VPSRLD(Imm(4), words, words)
		}
		VPAND(masks, words, pair)
		VPSHUFB(pair, lower[1], lower[n])
		VPSHUFB(pair, upper[1], upper[n])
	}
	for half := range 2 {
		for s := range 4 {
			unpack := VPUNPCKLBW
			if half == 1 {
				unpack = VPUNPCKHBW
			}
			if s%2 == 0 {
				unpack(upper[s/2], lower[s/2], pair)
				VPSLLD(Imm(16), pair, q)
			} else {
				VPAND(masks.Offset(32), pair, q)
			}
			for r := range rows {
				x := Mem{Base: a, Disp: 32 * ((4*half+s)*rows + r)}
				if half+s == 0 {
					VMULPS(x, q, part(r))
				} else {
					VFMADD231PS(x, q, part(r))
				}
			}
		}
	}
	VBROADCASTF128(Mem{Base: scales}, q)
	VPERMILPS(Mem{Base: order}, q, q)
	for r := range rows {
		VFMADD231PS(q, part(r), sum(r))
	}
	ADDQ(step, word)
	ADDQ(U32(uint32(32*8*rows)), a)
	ADDQ(Imm(16), scales)
	DECQ(left)
	JNE(LabelRef("panel"))
	for r := range rows {
		VMOVUPS(sum(r), Mem{Base: sums, Disp: 32 * r})
	}
	ADDQ(Imm(32), at)
	ADDQ(Imm(scalesOfFew), scale)
	ADDQ(U32(uint32(32*rows)), sums)
	DECQ(cols)
	JNE(LabelRef("column"))
	VZEROUPPER()
	RET()
	return name
}

// packFew2 writes the function that brings a row of numbers to the order of fews2: 8 vectors for a panel.
// Each has two numbers that follow each other of four words, first of the even ones.
func packFew2() {
	TEXT(amd64.declare("packFew2", "dst, src *float32, stride, panels int"), NOSPLIT,
		"func(dst, src *float32, stride, panels int)")
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	stride, left := Load(Param("stride"), GP64()), Load(Param("panels"), GP64())
	Label("panel")
	for half := range 2 {
		for i := range 2 {
			VMOVUPS(Mem{Base: src, Disp: 32*half + 128*i}, Y4)
			VMOVUPS(Mem{Base: src, Disp: 32*half + 128*i + 64}, Y5)
			VUNPCKLPD(Y5, Y4, ymm[2*i])
			VUNPCKHPD(Y5, Y4, ymm[2*i+1])
		}
		for i := range 4 {
			VPERM2F128(Imm([]uint64{0x20, 0x31}[i%2]), ymm[2+i/2], ymm[i/2], Y4)
			VMOVUPS(Y4, Mem{Base: dst})
			ADDQ(stride, dst)
		}
	}
	ADDQ(U32(256), src)
	DECQ(left)
	JNE(LabelRef("panel"))
	VZEROUPPER()
	RET()
}

// scales2 writes functions that make numbers of scales: four for each column and panel, in words that have
// the zero point of Int4 too.
func scales2() {
	columns := constants("columnsOfFew2", func(i int) uint32 { return uint32(i / 4) }, 8)
	ofScales("Int4", func() {
		bits := constants("scalesOfFew2", func(i int) uint32 { return ^uint32(i % 4 / 3 * 15) }, 8)
		VMOVDQU(bits, Y8)
		VMOVDQU(columns, Y9)
	}, func(group, _ Mem) {
		VBROADCASTSD(group, Y0)
		VPERMILPS(Y9, Y0, Y0)
		VPAND(Y8, Y0, Y0)
	})
	ofScales("MXFP4", func() {
		pairs := constants("pairsOfFew2", func(i int) uint32 { return uint32(i % 4 / 2) }, 8)
		VMOVDQU(pairs, Y15)
		for i, bits := range []uint32{2, 0x00400000, 0x7f800000} {
			constant2(ymm[8+i], bits)
		}
	}, func(group, _ Mem) {
		VPMOVZXBD(group, Y0)
		VPERMILPS(Y15, Y0, Y0)
		VPSLLD(Imm(23), Y0, Y0)
		VPCMPEQD(Y10, Y0, Y1)
		VPMAXUD(Y9, Y0, Y0)
		VPOR(Y1, Y0, Y0)
	})
	ofScales("NVFP4", func() {
		VMOVDQU(columns, Y11)
		for i, bits := range []uint32{127, 0x7b800000, 128} {
			constant2(ymm[8+i], bits)
		}
	}, func(group, column Mem) {
		VPMOVZXBD(group, Y0)
		VPAND(Y8, Y0, Y1)
		VPCMPEQD(Y8, Y1, Y2)
		VPSLLD(Imm(20), Y1, Y1)
		VMULPS(Y9, Y1, Y1)
		VPAND(Y10, Y0, Y0)
		VPSLLD(Imm(24), Y0, Y0)
		VPOR(Y1, Y0, Y0)
		VPOR(Y2, Y0, Y0)
		VBROADCASTSD(column, Y1)
		VPERMILPS(Y11, Y1, Y1)
		VMULPS(Y1, Y0, Y0)
	})
}

// constant2 is constant with AVX2.
func constant2(to VecPhysical, bits uint32) {
	r := GP32()
	MOVL(U32(bits), r)
	VMOVD(r, to.AsX())
	VPBROADCASTD(to.AsX(), to)
}

// ofScales writes such a function: two columns at a time, panel after panel.
func ofScales(of string, begin func(), two func(group, column Mem)) {
	TEXT(amd64.declare("scales2"+of, "p *few"), NOSPLIT, "func(p *byte)")
	p := Load(Param("p"), GP64())
	begin()
	groups, scales, panels := quad(p, offFewGroups), quad(p, offFewScales), quad(p, offFewPanels)
	group, column, to, left, phase := GP64(), GP64(), GP64(), GP64(), GP64()
	XORQ(phase, phase)
	Label("panel")
	MOVQ(groups, group)
	MOVQ(scales, to)
	MOVQ(field(p, offFewColumns), column)
	MOVQ(field(p, offFewPair), left)
	Label("columns")
	two(Mem{Base: group}, Mem{Base: column})
	VMOVUPS(Y0.AsX(), Mem{Base: to})
	VEXTRACTF128(Imm(1), Y0, Mem{Base: to, Disp: scalesOfFew})
	ADDQ(Imm(8), group)
	ADDQ(Imm(8), column)
	ADDQ(U32(2*scalesOfFew), to)
	SUBQ(Imm(2), left)
	JG(LabelRef("columns"))
	ADDQ(Imm(16), scales)
	if of == "MXFP4" { // the other half of the word
		VPXOR(Y8, Y15, Y15)
	}
	XORQ(field(p, offFewToggle), phase)
	JNE(LabelRef("same"))
	ADDQ(field(p, offFewGroupStep), groups)
	Label("same")
	DECQ(panels)
	JNE(LabelRef("panel"))
	VZEROUPPER()
	RET()
}
