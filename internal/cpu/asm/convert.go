package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const panelDepth = 256 // of package cpu

// converts writes what converts whole vectors of 16 elements, and what stores sums. Only AVX-512F is needed.
func converts() {
	convert("widenBF16", 2, 4, func(from, to Op) {
		VPMOVZXWD(from, Z0)
		VPSLLD(Imm(16), Z0, Z0)
		VMOVUPS(Z0, to)
	})
	convert("widenF16", 2, 4, func(from, to Op) {
		VCVTPH2PS(from, Z0)
		VMOVUPS(Z0, to)
	})
	convert("widenInt8", 1, 4, func(from, to Op) {
		VPMOVSXBD(from, Z0)
		VCVTDQ2PS(Z0, Z0)
		VMOVUPS(Z0, to)
	})
	convert("widenE4M3", 1, 4, widenE4M3)
	convert("roundBF16", 4, 2, roundBF16)
	convert("roundF16", 4, 2, func(from, to Op) {
		VMOVUPS(from, Z0)
		VCVTPS2PH(Imm(0), Z0, Y0)
		VMOVUPS(Y0, to)
	})
	finishSums()
	gated("silu512", 1, 0)
	gated("gelu512", 1.5957691216, 0.0713548162726) // GELULinear and GELUCubic of package encoding
}

// convert writes a function that converts n elements, a multiple of 16.
func convert(name string, sizeSrc, sizeDst int, one func(from, to Op)) {
	const params = "dst, src unsafe.Pointer, n int"
	TEXT(amd64.declare(name, params), NOSPLIT, "func(dst, src *byte, n int)")
	dst, src, n := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("n"), GP64())
	switch name {
	case "widenE4M3":
		constant(Z4, 0x7f)
		constant(Z5, 0x80)
		constant(Z6, 0x43800000) // 256
		constant(Z7, 0x43f00000) // 480
		constant(Z8, 0x7fc00000)
		constant(Z9, 0x7fffffff)
	case "roundBF16":
		constant(Z4, 1)
		constant(Z5, 0x7fff)
		constant(Z6, 0x40)
	}
	SHRQ(Imm(4), n)
	Label("vector")
	one(Mem{Base: src}, Mem{Base: dst})
	if sizeSrc < sizeDst { // rows of operands go on there, in the next part of K
		PREFETCHT1(Mem{Base: src, Disp: panelDepth * sizeSrc})
	}
	ADDQ(Imm(uint64(16*sizeSrc)), src)
	ADDQ(Imm(uint64(16*sizeDst)), dst)
	DECQ(n)
	JNE(LabelRef("vector"))
	VZEROUPPER()
	RET()
}

func constant(to VecPhysical, bits uint32) {
	r := GP32()
	MOVL(U32(bits), r)
	VPBROADCASTD(r, to)
}

// widenE4M3 shifts the bits to those of a F16, whose exponent has one bit more and is 8 larger. 480 is NaN.
func widenE4M3(from, to Op) {
	VPMOVZXBD(from, Z0)
	VPANDD(Z4, Z0, Z1)
	VPANDD(Z5, Z0, Z0)
	VPSLLD(Imm(7), Z1, Z1)
	VPSLLD(Imm(8), Z0, Z0)
	VPORD(Z1, Z0, Z0)
	VPMOVDW(Z0, Y0)
	VCVTPH2PS(Y0, Z0)
	VMULPS(Z6, Z0, Z0)
	VPANDD(Z9, Z0, Z1)
	VPCMPEQD(Z7, Z1, K1)
	VPORD(Z8, Z0, K1, Z0)
	VMOVUPS(Z0, to)
}

// roundBF16 rounds to the nearest, ties to even, and makes NaN quiet.
func roundBF16(from, to Op) {
	VMOVUPS(from, Z0)
	VCMPPS(Imm(3), Z0, Z0, K1) // NaN
	VPSRLD(Imm(16), Z0, Z1)
	VPANDD(Z4, Z1, Z2)
	VPADDD(Z5, Z2, Z2)
	VPADDD(Z0, Z2, Z2)
	VPSRLD(Imm(16), Z2, Z2)
	VPORD(Z6, Z1, K1, Z2)
	VPMOVDW(Z2, to)
}

// finishSums writes a function that stores rows of C = alpha*sum + beta*C. With less, sums are int32, and
// 128 times a number of the row is subtracted from them.
func finishSums() {
	const params = "c, sum *float32, less *int32, rowC, rows, cols int, alpha, beta float32"
	TEXT(amd64.declare("finish512", params), NOSPLIT,
		"func(c, sum *float32, less *int32, rowC, rows, cols int, alpha, beta float32)")
	c, sum, less := Load(Param("c"), GP64()), Load(Param("sum"), GP64()), Load(Param("less"), GP64())
	rowC, rows, cols := Load(Param("rowC"), GP64()), Load(Param("rows"), GP64()), GP64()
	Load(Param("cols"), cols)
	bits, left, at, from := GP32(), GP64(), GP64(), GP64()
	alpha, beta := NewParamAddr("alpha", 48), NewParamAddr("beta", 52)
	VBROADCASTSS(alpha, Z4)
	VBROADCASTSS(beta, Z5)
	MOVL(beta, bits)
	SHLL(Imm(1), bits) // without its sign
	old := GP32()
	MOVL(bits, old)
	MOVL(U32(0xffff), bits)
	MOVQ(cols, left)
	DECQ(left)
	ANDQ(Imm(15), left)
	INCQ(left) // columns of the last vector
	BZHIL(left.As32(), bits, bits)
	KMOVW(bits, K2)
	Label("row")
	MOVQ(c, at)
	MOVQ(sum, from)
	MOVQ(cols, left)
	KXNORW(K1, K1, K1)
	TESTQ(less, less)
	JE(LabelRef("vector"))
	VPBROADCASTD(Mem{Base: less}, Z6)
	VPSLLD(Imm(7), Z6, Z6)
	ADDQ(Imm(4), less)
	Label("vector")
	CMPQ(left, Imm(16))
	JGT(LabelRef("whole"))
	KMOVW(K2, K1)
	Label("whole")
	VMOVUPS_Z(Mem{Base: from}, K1, Z0)
	TESTQ(less, less)
	JE(LabelRef("float"))
	VPSUBD(Z6, Z0, Z0)
	VCVTDQ2PS(Z0, Z0)
	Label("float")
	VMULPS(Z4, Z0, Z0)
	TESTL(old, old)
	JE(LabelRef("store"))
	VMOVUPS_Z(Mem{Base: at}, K1, Z1)
	VMULPS(Z5, Z1, Z1)
	VADDPS(Z1, Z0, Z0)
	Label("store")
	VMOVUPS(Z0, K1, Mem{Base: at})
	ADDQ(Imm(64), from)
	ADDQ(Imm(64), at)
	SUBQ(Imm(16), left)
	JG(LabelRef("vector"))
	ADDQ(rowC, c)
	ADDQ(U32(4*sumRow), sum)
	DECQ(rows)
	JNE(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// gated writes a function that replaces v by v*sigmoid(z), 16 at a time. z is v, or with cubic v*(linear +
// cubic*v*v). It computes like gated and exp of package cpu, step by step, and so gives the same bits.
func gated(name string, linear, cubic float32) {
	TEXT(amd64.declare(name, "v *float32, n int"), NOSPLIT, "func(v *float32, n int)")
	v, n := Load(Param("v"), GP64()), Load(Param("n"), GP64())
	constant(Z16, math.Float32bits(linear))
	constant(Z17, math.Float32bits(cubic))
	for i, x := range []float32{1, -88, math.Log2E, 3 << 22, 0.000015252734, 0.0001540353, 0.0013333558,
		0.009618129, 0.05550411, 0.2402265, 0.6931472} {
		constant(zmm[18+i], math.Float32bits(x))
	}
	one, least, log2e, whole, series := zmm[18], zmm[19], zmm[20], zmm[21], zmm[22:29]
	constant(Z29, 127)
	constant(Z30, 1<<31)
	SHRQ(Imm(4), n)
	Label("vector")
	VMOVUPS(Mem{Base: v}, Z0)
	VMOVAPS(Z0, Z1)
	if cubic != 0 {
		VMULPS(Z0, Z17, Z1)
		VMULPS(Z0, Z1, Z1)
		VADDPS(Z1, Z16, Z1)
		VMULPS(Z1, Z0, Z1)
	}
	VCMPPS(Imm(1), least, Z1, K1)
	VPXORD(Z30, Z1, Z2)
	VMAXPS(Z2, least, Z2) // NaN stays
	VMULPS(log2e, Z2, Z2)
	VADDPS(whole, Z2, Z3)
	VSUBPS(whole, Z3, Z4)
	VSUBPS(Z4, Z2, Z2)
	VMULPS(series[0], Z2, Z4)
	for _, x := range series[1:] {
		VADDPS(x, Z4, Z4)
		VMULPS(Z2, Z4, Z4)
	}
	VADDPS(one, Z4, Z4)
	VPADDD(Z29, Z3, Z3)
	VPSLLD(Imm(23), Z3, Z3)
	VMULPS(Z3, Z4, Z4)
	VADDPS(one, Z4, Z4)
	VDIVPS(Z4, Z0, Z0)
	VPXORD(Z5, Z5, Z5)
	VMOVAPS(Z5, K1, Z0)
	VMOVUPS(Z0, Mem{Base: v})
	ADDQ(Imm(64), v)
	DECQ(n)
	JNE(LabelRef("vector"))
	VZEROUPPER()
	RET()
}
