package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Byte offsets in package cpu's type panel, which checks them.
const (
	offPanelTo, offPanelWords, offPanelNumbers = 0, 8, 16
	offPanelRow, offPanelCols                  = 24, 32
	offPanelScales, offPanelZeros              = 40, 40 + 4*4*128
)

// places are the shifts of the eight elements of a word.
var places = []uint32{0, 16, 4, 20, 8, 24, 12, 28}

// panels writes what makes numbers of columns of 4 bits: an element selects one of 16 numbers, which are
// multiplied by the scale before that.
func panels() {
	pairs := constants("wordsOfPanel", func(i int) uint32 { return uint32(i / 8) }, 64)
	shifts := constants("placesOfPanel", func(i int) uint32 { return places[i%8] }, 16)
	for _, shared := range []int{8, 4, 2} {
		panel512(shared, pairs, shifts)
		panel2(shared, shifts)
	}
}

// constants defines words.
func constants(name string, word func(i int) uint32, n int) Mem {
	at := GLOBL(name, RODATA|NOPTR)
	for i := range n {
		DATA(4*i, U32(word(i)))
	}
	return at
}

// columnsOf writes a loop over the columns of a panel. one writes a column, with the addresses of its scales
// and of its zero point.
func columnsOf(name string, shared int, begin func(p Register), one func(to, words, scales, zeros Mem)) {
	TEXT(amd64.declare(name, "p *panel"), NOSPLIT, "func(p *byte)")
	p := Load(Param("p"), GP64())
	begin(p)
	to, words, row, left := quad(p, offPanelTo), quad(p, offPanelWords), quad(p, offPanelRow), quad(p, offPanelCols)
	scales, zeros := GP64(), GP64()
	LEAQ(field(p, offPanelScales), scales)
	LEAQ(field(p, offPanelZeros), zeros)
	Label("column")
	PREFETCHT0(Mem{Base: words, Disp: 512})
	one(Mem{Base: to}, Mem{Base: words}, Mem{Base: scales}, Mem{Base: zeros})
	ADDQ(row, to)
	ADDQ(Imm(32), words)
	ADDQ(Imm(uint64(4*8/shared)), scales)
	ADDQ(Imm(4), zeros)
	DECQ(left)
	JNE(LabelRef("column"))
	VZEROUPPER()
	RET()
}

// panel512 writes it for AVX-512, two words at a time. shared is how many words have one scale.
func panel512(shared int, pairs, shifts Mem) {
	numbers, places, less, table, words := Z0, Z1, Z2, Z3, Z4
	pair := func(i int) VecPhysical { return zmm[8+i] }
	columnsOf(fmt.Sprintf("panel512x%d", shared), shared, func(p Register) {
		from := quad(p, offPanelNumbers)
		VMOVUPS(Mem{Base: from}, numbers)
		VMOVDQU32(shifts, places)
		for i := range 4 {
			VMOVDQU32(pairs.Offset(64*i), pair(i))
		}
	}, func(to, from, scales, zeros Mem) {
		VMOVDQU(from, words.AsY())
		if less = numbers; shared == 8 {
			less = Z2
			VBROADCASTSS(zeros, less)
			VSUBPS(less, numbers, less)
		}
		for i := range 4 {
			if 2*i%shared == 0 {
				VBROADCASTSS(scales.Offset(8*i/shared), table)
				VMULPS(less, table, table)
			}
			VPERMD(words, pair(i), Z5)
			VPSRLVD(places, Z5, Z5)
			VPERMPS(table, Z5, Z5)
			VMOVUPS(Z5, to.Offset(64*i))
		}
	})
}

// panel2 writes it for AVX2, a word at a time. Bit 3 of an element selects a half of the numbers.
func panel2(shared int, shifts Mem) {
	low, high, places, less, scale := Y0, Y1, Y2, Y3, Y4
	columnsOf(fmt.Sprintf("panel2x%d", shared), shared, func(p Register) {
		from := quad(p, offPanelNumbers)
		VMOVUPS(Mem{Base: from}, low)
		VMOVUPS(Mem{Base: from, Disp: 32}, high)
		VMOVDQU(shifts, places)
	}, func(to, from, scales, zeros Mem) {
		lows, highs := low, high
		if shared == 8 {
			VBROADCASTSS(zeros, less)
			VSUBPS(less, low, Y9)
			VSUBPS(less, high, Y10)
			lows, highs = Y9, Y10
		}
		for i := range 8 {
			if i%shared == 0 {
				VBROADCASTSS(scales.Offset(4*i/shared), scale)
				VMULPS(lows, scale, Y5)
				VMULPS(highs, scale, Y6)
			}
			VPBROADCASTD(from.Offset(4*i), Y7)
			VPSRLVD(places, Y7, Y7)
			VPERMPS(Y5, Y7, Y8)
			VPERMPS(Y6, Y7, Y11)
			VPSLLD(Imm(28), Y7, Y7)
			VBLENDVPS(Y7, Y11, Y8, Y8)
			VMOVUPS(Y8, to.Offset(32*i))
		}
	})
}
