package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Byte offsets in package cpu's type panel, which checks them.
const (
	offPanelTo, offPanelWords, offPanelNumbers      = 0, 8, 16
	offPanelRow, offPanelCols                       = 24, 32
	offPanelGroups, offPanelColumns, offPanelScales = 40, 48, 56
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

// column is a column of a panel that is being written.
type column struct {
	to, words                     Mem
	groups, columns, scales, bits GPVirtual
	shared                        int // words that share a scale
}

// columnsOf writes a loop over the columns of a panel.
func columnsOf(name string, shared int, begin func(numbers Mem), one func(c *column)) {
	TEXT(amd64.declare(name, "p *panel"), NOSPLIT, "func(p *byte)")
	p := Load(Param("p"), GP64())
	numbers := quad(p, offPanelNumbers)
	begin(Mem{Base: numbers})
	to, words := quad(p, offPanelTo), quad(p, offPanelWords)
	row, left := quad(p, offPanelRow), quad(p, offPanelCols)
	c := column{Mem{Base: to}, Mem{Base: words}, quad(p, offPanelGroups), quad(p, offPanelColumns),
		quad(p, offPanelScales), GP64(), shared}
	Label("column")
	PREFETCHT0(Mem{Base: words, Disp: 512})
	one(&c)
	ADDQ(row, to)
	ADDQ(Imm(32), words)
	ADDQ(Imm(4), c.groups)
	ADDQ(Imm(4), c.columns)
	DECQ(left)
	JNE(LabelRef("column"))
	VZEROUPPER()
	RET()
}

// zero loads the zero point of Int4.
func (c *column) zero(to VecPhysical) {
	MOVL(Mem{Base: c.groups}, c.bits.As32())
	ANDL(Imm(15), c.bits.As32())
	VBROADCASTSS(Mem{Base: c.scales, Index: c.bits, Scale: 4}, to)
}

// scale loads a scale: of Int4 all but the lower bits of its word, of others a byte.
func (c *column) scale(i int, to VecPhysical) {
	if c.shared == 8 {
		MOVL(Mem{Base: c.groups}, c.bits.As32())
		ANDL(I32(-16), c.bits.As32())
		VMOVD(c.bits.As32(), to.AsX())
		VBROADCASTSS(to.AsX(), to)
		return
	}
	MOVBQZX(Mem{Base: c.groups, Disp: i}, c.bits)
	VBROADCASTSS(Mem{Base: c.scales, Index: c.bits, Scale: 4}, to)
}

// panel512 writes it for AVX-512, two words at a time.
func panel512(shared int, pairs, shifts Mem) {
	numbers, places, less, table, words, ofColumn := Z0, Z1, Z2, Z3, Z4, Z6
	pair := func(i int) VecPhysical { return zmm[8+i] }
	columnsOf(fmt.Sprintf("panel512x%d", shared), shared, func(from Mem) {
		VMOVUPS(from, numbers)
		VMOVDQU32(shifts, places)
		for i := range 4 {
			VMOVDQU32(pairs.Offset(64*i), pair(i))
		}
	}, func(c *column) {
		VMOVDQU(c.words, words.AsY())
		less := less
		switch shared {
		case 8:
			c.zero(less)
			VSUBPS(less, numbers, less)
		case 4:
			less = numbers
		case 2:
			less = numbers
			VBROADCASTSS(Mem{Base: c.columns}, ofColumn)
		}
		for i := range 4 {
			if 2*i%shared == 0 {
				c.scale(2*i/shared, table)
				if shared == 2 {
					VMULPS(ofColumn, table, table)
				}
				VMULPS(less, table, table)
			}
			VPERMD(words, pair(i), Z5)
			VPSRLVD(places, Z5, Z5)
			VPERMPS(table, Z5, Z5)
			VMOVUPS(Z5, c.to.Offset(64*i))
		}
	})
}

// panel2 writes it for AVX2, a word at a time. Bit 3 of an element selects a half of the numbers.
func panel2(shared int, shifts Mem) {
	low, high, places, less, scale, ofColumn := Y0, Y1, Y2, Y3, Y4, Y12
	columnsOf(fmt.Sprintf("panel2x%d", shared), shared, func(from Mem) {
		VMOVUPS(from, low)
		VMOVUPS(from.Offset(32), high)
		VMOVDQU(shifts, places)
	}, func(c *column) {
		lows, highs := low, high
		switch shared {
		case 8:
			lows, highs = Y9, Y10
			c.zero(less)
			VSUBPS(less, low, lows)
			VSUBPS(less, high, highs)
		case 2:
			VBROADCASTSS(Mem{Base: c.columns}, ofColumn)
		}
		for i := range 8 {
			if i%shared == 0 {
				c.scale(i/shared, scale)
				if shared == 2 {
					VMULPS(ofColumn, scale, scale)
				}
				VMULPS(lows, scale, Y5)
				VMULPS(highs, scale, Y6)
			}
			VPBROADCASTD(c.words.Offset(4*i), Y7)
			VPSRLVD(places, Y7, Y7)
			VPERMPS(Y5, Y7, Y8)
			VPERMPS(Y6, Y7, Y11)
			VPSLLD(Imm(28), Y7, Y7)
			VBLENDVPS(Y7, Y11, Y8, Y8)
			VMOVUPS(Y8, c.to.Offset(32*i))
		}
	})
}
