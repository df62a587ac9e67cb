package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Byte offsets in package cpu's type tiles, which checks them.
const (
	offTilesX, offTilesRowX, offTilesY     = 0, 8, 16
	offTilesSum, offTilesSteps, offTilesOf = 24, 32, 40
	offTilesMore, offTilesStrips           = 48, 56
	offTilesStepX, offTilesRowSum          = 64, 72
	rowOfStrip                             = 4 * strip // bytes
	tilesAhead                             = 512       // bytes of X between a load and its prefetch
)

// tiles writes kernels of AMX: 16 or 32 rows of X by 16 or 32 columns of strips of Y.
func tiles() {
	for _, of := range []struct {
		name           string
		prefix, opcode byte
	}{{"BF16", prefixF3, opDotBF16}, {"Int8", prefixF2, opDotInt8}} {
		var table [][]string
		for rows := 1; rows <= 2; rows++ {
			var names []string
			for cols := 1; cols <= 2; cols++ {
				names = append(names, kernelTiles(of.name, of.prefix, of.opcode, rows, cols))
			}
			table = append(table, names)
		}
		amd64.table("tiles"+of.name, "func(*tiles)", table)
	}
	packTiles()
}

// packTiles writes a function that copies rows of X, up to 32, so that the tiles of a step follow each
// other: row r of step s begins at byte 64*(32*s+r).
func packTiles() {
	const params = "dst, src unsafe.Pointer, rowSrc, rows, steps int"
	TEXT(amd64.declare("packTiles", params), NOSPLIT, "func(dst, src *byte, rowSrc, rows, steps int)")
	dst, src, rowSrc := Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("rowSrc"), GP64())
	rows, steps := Load(Param("rows"), GP64()), Load(Param("steps"), GP64())
	at, to, left := GP64(), GP64(), GP64()
	Label("row")
	MOVQ(src, at)
	MOVQ(dst, to)
	MOVQ(steps, left)
	Label("step")
	VMOVUPS(Mem{Base: at}, Z0)
	VMOVUPS(Z0, Mem{Base: to})
	ADDQ(Imm(64), at)
	ADDQ(U32(64*32), to)
	DECQ(left)
	JNE(LabelRef("step"))
	ADDQ(rowSrc, src)
	ADDQ(Imm(64), dst)
	DECQ(rows)
	JNE(LabelRef("row"))
	VZEROUPPER()
	RET()
}

func kernelTiles(of string, prefix, opcode byte, rows, cols int) (name string) {
	name = amd64.declare(fmt.Sprintf("tiles%s%dx%d", of, rows, cols), "p *tiles")
	TEXT(name, NOSPLIT, "func(p *byte)")
	p, rowX, y, sum, steps, config := RAX, R8, RDI, RDX, RCX, R9
	strip, rowSum, strips, stepX, next := R10, R11, R13, R15, R14
	x := []GPPhysical{RSI, R12}
	Load(Param("p"), p)
	for _, f := range []struct {
		offset int
		to     GPPhysical
	}{{offTilesRowX, rowX}, {offTilesY, y}, {offTilesSum, sum}, {offTilesOf, config},
		{offTilesStrips, strips}, {offTilesStepX, stepX},
		{offTilesRowSum, rowSum}} {
		MOVQ(field(p, f.offset), f.to)
	}
	MOVQ(U32(rowOfStrip), strip)
	MOVQ(rowSum, next)
	SHLQ(Imm(4), next)
	tileConfig(config)
	Label("strip")
	MOVQ(field(p, offTilesX), x[0])
	MOVQ(rowX, x[1])
	SHLQ(Imm(4), x[1])
	ADDQ(x[0], x[1])
	MOVQ(field(p, offTilesSteps), steps)
	sums := func(move func(t tile, base, stride GPPhysical, disp byte)) {
		MOVQ(sum, RBX)
		for r := range rows {
			for c := range cols {
				move(tile(2*r+c), RBX, rowSum, byte(64*c))
			}
			ADDQ(next, RBX)
		}
	}
	CMPQ(field(p, offTilesMore), Imm(0))
	JNE(LabelRef("continued"))
	for r := range rows {
		for c := range cols {
			tileZero(tile(2*r + c))
		}
	}
	JMP(LabelRef("step"))
	Label("continued")
	sums(tileLoad)
	Label("step")
	for c := range cols {
		tileLoad(tile(6+c), y, strip, byte(64*c))
	}
	for r := range rows {
		tileLoad(tile(4+r), x[r], rowX, 0)
		LEAQ(Mem{Base: x[r], Disp: tilesAhead}, RBX)
		for range 16 {
			PREFETCHT0(Mem{Base: RBX})
			ADDQ(rowX, RBX)
		}
		ADDQ(stepX, x[r])
		for c := range cols {
			tileDot(prefix, opcode, tile(2*r+c), tile(4+r), tile(6+c))
		}
	}
	ADDQ(U32(16*rowOfStrip), y)
	DECQ(steps)
	JNE(LabelRef("step"))
	sums(tileStore)
	ADDQ(U32(rowOfStrip), sum)
	DECQ(strips)
	JNE(LabelRef("strip"))
	tileRelease()
	RET()
	return name
}
