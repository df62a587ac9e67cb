package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const strip = 32 // words of a row of a strip of package cpu

// dots writes kernels like those of avx512 for words of two BF16 or four Int8, up to 14 rows and 2 vectors.
// Sums stay as they are. VPDPBUSD takes elements of B as if they were larger by 128.
func dots() {
	flip := GLOBL("flip", RODATA|NOPTR)
	DATA(0, U32(0x80808080))
	for _, of := range []string{"BF16", "Int8"} {
		var kernels [][]string
		for rows := 1; rows <= 14; rows++ {
			var names []string
			for vectors := 1; vectors <= 2; vectors++ {
				names = append(names, kernelDot(of, rows, vectors, flip))
			}
			kernels = append(kernels, names)
		}
		amd64.kernels("dot"+of+"Kernels", kernels)
	}
	interleave("pairs512", 2, VPMOVZXWD_Z)
	interleave("quads512", 4, VPMOVZXBD_Z)
	sumRows()
}

func kernelDot(of string, rows, vectors int, flip Mem) (name string) {
	name = amd64.declare(fmt.Sprintf("dot%sx%dx%d", of, rows, vectors), "p *micro")
	TEXT(name, NOSPLIT, "func(p *byte)")
	m := &micro{
		rows: rows, vectors: vectors, arg: Load(Param("p"), GP64()), size: 64, of: single,
		first:     rows * vectors,
		vector:    func(i int) VecPhysical { return zmm[i] },
		broadcast: func(from Op, to VecPhysical) { VPBROADCASTD(from, to) },
		load:      func(from Op, to VecPhysical, _ bool) { VMOVUPS(from, to) },
		store:     func(from VecPhysical, to Op, _ bool) { VMOVUPS(from, to) },
		multiply:  dotBF16,
		words:     true,
	}
	if of == "Int8" {
		m.loadB = func(from Op, to VecPhysical) {
			VMOVUPS(from, to)
			VPXORD_BCST(flip, to, to)
		}
		m.multiply = func(b, a, sum VecPhysical) { VPDPBUSD(a, b, sum) }
	}
	m.write(2)
	VZEROUPPER()
	RET()
	return name
}

// interleave writes a function that makes words of rows of src: word j of row i of a strip has elements
// each*i to each*(i+1)-1 of column j. The next strip of dst is `next` bytes after a strip, and starts 32
// columns later. depth is a multiple of each.
func interleave(name string, each int, widen func(m, k, z Op)) {
	const params = "dst, src unsafe.Pointer, next, rowSrc, cols, depth int"
	TEXT(amd64.declare(name, params), NOSPLIT, "func(dst, src *byte, next, rowSrc, cols, depth int)")
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	next, rowSrc := Load(Param("next"), GP64()), Load(Param("rowSrc"), GP64())
	cols, depth, left, bits := GP64(), Load(Param("depth"), GP64()), GP64(), GP32()
	Load(Param("cols"), cols)
	row3, ahead := GP64(), GP64()
	LEAQ(Mem{Base: rowSrc, Index: rowSrc, Scale: 2}, row3)
	MOVQ(rowSrc, ahead)
	SHLQ(Imm(4), ahead)
	MOVL(U32(0xffffffff), bits)
	MOVQ(cols, left)
	ANDQ(Imm(strip-1), left)
	BZHIL(left.As32(), bits, bits)
	KMOVW(bits, K3)
	SHRL(Imm(16), bits)
	KMOVW(bits, K4)
	at, far, to := GP64(), GP64(), GP64()
	size := 4 / each
	both := func(first, second Register) {
		rows := []Mem{{Base: at}, {Base: at, Index: rowSrc, Scale: 1}, {Base: at, Index: rowSrc, Scale: 2},
			{Base: at, Index: row3, Scale: 1}}
		for v, mask := range []Register{first, second} {
			for i := range each {
				from := rows[i]
				from.Disp += v * 16 * size
				z := zmm[4*v+i]
				widen(from, mask, z)
				if i > 0 {
					VPSLLD(Imm(uint64(32/each*i)), z, z)
					VPORD(z, zmm[4*v], zmm[4*v])
				}
			}
			VMOVUPS(zmm[4*v], Mem{Base: to, Disp: 64 * v})
		}
		for i := range each {
			from := rows[i]
			from.Base = far
			PREFETCHT0(from)
		}
	}
	KXNORW(K1, K1, K1)
	Label("words")
	MOVQ(src, at)
	LEAQ(Mem{Base: src, Index: ahead, Scale: 1}, far)
	MOVQ(dst, to)
	MOVQ(cols, left)
	SUBQ(Imm(strip), left)
	JLT(LabelRef("rest"))
	Label("strip")
	both(K1, K1)
	ADDQ(Imm(uint64(strip*size)), at)
	ADDQ(Imm(uint64(strip*size)), far)
	ADDQ(next, to)
	SUBQ(Imm(strip), left)
	JGE(LabelRef("strip"))
	Label("rest")
	ADDQ(Imm(strip), left)
	JE(LabelRef("end"))
	both(K3, K4)
	Label("end")
	LEAQ(Mem{Base: src, Index: rowSrc, Scale: uint8(each)}, src)
	ADDQ(U32(4*strip), dst)
	SUBQ(Imm(uint64(each)), depth)
	JNE(LabelRef("words"))
	VZEROUPPER()
	RET()
}

// sumRows writes a function that adds to each number of dst the sum of Int8 of a row of words.
func sumRows() {
	const params = "dst *int32, src unsafe.Pointer, rowSrc, rows, words int"
	TEXT(amd64.declare("sumRows512", params), NOSPLIT, "func(dst *int32, src *byte, rowSrc, rows, words int)")
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	rowSrc, rows := Load(Param("rowSrc"), GP64()), Load(Param("rows"), GP64())
	words := Load(Param("words"), GP64())
	bits, at, left := GP32(), GP64(), GP64()
	MOVL(U32(0x01010101), bits)
	VPBROADCASTD(bits, Z1)
	MOVL(U32(0xffff), bits)
	MOVQ(words, left)
	ANDQ(Imm(15), left)
	BZHIL(left.As32(), bits, bits)
	KMOVW(bits, K1)
	SHRQ(Imm(4), words)
	Label("row")
	MOVQ(src, at)
	VPXORD(Z0, Z0, Z0)
	MOVQ(words, left)
	TESTQ(left, left)
	JE(LabelRef("rest"))
	Label("vector")
	VPDPBUSD(Mem{Base: at}, Z1, Z0)
	ADDQ(Imm(64), at)
	DECQ(left)
	JNE(LabelRef("vector"))
	Label("rest")
	VMOVDQU32_Z(Mem{Base: at}, K1, Z2)
	VPDPBUSD(Z2, Z1, Z0)
	for _, half := range []uint64{0xee, 0x55} {
		VSHUFI64X2(Imm(half), Z0, Z0, Z2)
		VPADDD(Z2, Z0, Z0)
	}
	for _, half := range []uint64{0xee, 0x55} {
		VPSHUFD(Imm(half), X0, X2)
		VPADDD(X2, X0, X0)
	}
	sum := GP32()
	VMOVD(X0, sum)
	ADDL(sum, Mem{Base: dst})
	ADDQ(Imm(4), dst)
	ADDQ(rowSrc, src)
	DECQ(rows)
	JNE(LabelRef("row"))
	VZEROUPPER()
	RET()
}
