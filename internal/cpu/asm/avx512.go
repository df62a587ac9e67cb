package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

var zmm = [...]VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15,
	Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31}

// avx512 writes kernels of up to 6 rows and 4 vectors, 14 rows and 2 vectors, or more rows, up to `most`, and
// a vector.
func avx512(of precision, prefix string, most int) {
	var kernels [][]string
	for rows := 1; rows <= most; rows++ {
		vectors := 1
		if rows <= 14 {
			vectors = 2
		}
		if rows <= 6 {
			vectors = 4
		}
		var names []string
		for v := 1; v <= vectors; v++ {
			names = append(names, kernel512(of, prefix, rows, v))
		}
		kernels = append(kernels, names)
	}
	amd64.kernels(prefix+"Kernels", kernels)
}

func kernel512(of precision, prefix string, rows, vectors int) (name string) {
	name = amd64.declare(fmt.Sprintf("%sx%dx%d", prefix, rows, vectors), "p *micro")
	TEXT(name, NOSPLIT, "func(p *byte)")
	p := Load(Param("p"), GP64())
	mask := K1
	lanes, bits := quad(p, offLanes), GP32()
	MOVL(U32(1<<of.lanes-1), bits)
	BZHIL(lanes.As32(), bits, bits)
	KMOVW(bits, mask)
	m := &micro{
		rows: rows, vectors: vectors, arg: p, size: 64, of: of, first: rows * vectors,
		vector:    func(i int) VecPhysical { return zmm[i] },
		broadcast: of.broadcast,
		load: func(from Op, to VecPhysical, last bool) {
			if last {
				of.loadPart(from, mask, to)
			} else {
				VMOVUPS(from, to)
			}
		},
		store: func(from VecPhysical, to Op, last bool) {
			if last {
				of.storePart(from, mask, to)
			} else {
				VMOVUPS(from, to)
			}
		},
	}
	m.write(2)
	VZEROUPPER()
	RET()
	return name
}
