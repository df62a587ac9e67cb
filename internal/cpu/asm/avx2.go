package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

var ymm = [...]VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}

// avx2 writes kernels of up to 6 rows and 2 vectors, or 12 rows and a vector, with a whole or a partial last
// vector.
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
	amd64.kernels("avx2Kernels", whole)
	amd64.kernels("avx2EdgeKernels", edge)
	transpose2()
}

func kernel2(rows, vectors int, masks *Mem) (name string) {
	name = fmt.Sprintf("avx2x%dx%d", rows, vectors)
	if masks != nil {
		name += "edge"
	}
	TEXT(amd64.declare(name, "p *micro"), NOSPLIT, "func(p *byte)")
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
