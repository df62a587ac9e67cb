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
func avx2(of precision, prefix string) {
	masks := GLOBL(prefix+"masks", RODATA|NOPTR)
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
			names = append(names, kernel2(of, prefix, rows, vectors, nil))
			edges = append(edges, kernel2(of, prefix, rows, vectors, &masks))
		}
		whole, edge = append(whole, names), append(edge, edges)
	}
	amd64.kernels(prefix+"Kernels", whole)
	amd64.kernels(prefix+"EdgeKernels", edge)
}

func kernel2(of precision, prefix string, rows, vectors int, masks *Mem) (name string) {
	name = fmt.Sprintf("%sx%dx%d", prefix, rows, vectors)
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
		VMOVUPS(Mem{Base: table, Index: lanes, Scale: uint8(of.bytes)}, mask)
	}
	m := &micro{
		rows: rows, vectors: vectors, arg: p, size: 32, of: of, first: rows * vectors,
		vector:    func(i int) VecPhysical { return ymm[i] },
		broadcast: of.broadcast,
		load: func(from Op, to VecPhysical, last bool) {
			if last && masks != nil {
				of.loadMasked(from, mask, to)
			} else {
				VMOVUPS(from, to)
			}
		},
		store: func(from VecPhysical, to Op, last bool) {
			if last && masks != nil {
				of.storeMasked(from, mask, to)
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
