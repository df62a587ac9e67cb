// Command asm writes the assembly of package cpu for amd64: run go generate in its folder.
package main

import (
	"log"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Byte offsets in package cpu's type micro, which checks them.
const (
	offA, offB, offC, offSum         = 0, 8, 16, 24
	offRowA, offKA, offRowB, offRowC = 32, 40, 48, 56
	offDepth, offLanes               = 64, 72
	offAlpha, offBeta                = 80, 84
	sumRow                           = 4 * 128 // bytes of a row of package cpu's sums
	rowsOfBase                       = 5       // of A that one register reaches
)

// micro is a kernel being written: rows x vectors of C held in registers.
type micro struct {
	rows, vectors int
	vector        func(i int) VecPhysical // registers of the instruction set
	size          int                     // bytes of one
	arg           Register
	broadcast     func(from Op, to VecPhysical)
	load          func(from Op, to VecPhysical, last bool) // the last vector of a row may be narrower
	store         func(from VecPhysical, to Op, last bool)
	first         int // register of A and B behind the sums
}

func (m *micro) sum(row, vector int) VecPhysical { return m.vector(row*m.vectors + vector) }
func (m *micro) b(vector int) VecPhysical        { return m.vector(m.first + vector) }

// a is the register of row i's element of A: there are two where there is room.
func (m *micro) a(i, room int) VecPhysical {
	return m.vector(m.first + m.vectors + i%min(2, room))
}

func field(p Register, offset int) Mem { return Mem{Base: p, Disp: offset} }

func quad(p Register, offset int) GPVirtual {
	r := GP64()
	MOVQ(field(p, offset), r)
	return r
}

// lines are addresses of rows in memory: base registers of rowsOfBase rows each.
type lines struct {
	bases           []GPVirtual
	stride, stride3 GPVirtual
}

func newLines(p Register, start, stride, n int) lines {
	l := lines{bases: []GPVirtual{quad(p, start)}, stride: quad(p, stride), stride3: GP64()}
	if n > 3 {
		LEAQ(Mem{Base: l.stride, Index: l.stride, Scale: 2}, l.stride3)
	}
	for i := rowsOfBase; i < n; i += rowsOfBase {
		next := GP64()
		LEAQ(Mem{Base: l.bases[len(l.bases)-1], Index: l.stride, Scale: 4}, next)
		ADDQ(l.stride, next)
		l.bases = append(l.bases, next)
	}
	return l
}

func (l lines) at(row, disp int) Mem {
	m := Mem{Base: l.bases[row/rowsOfBase], Disp: disp}
	switch row % rowsOfBase {
	case 1, 2, 4:
		m.Index, m.Scale = l.stride, uint8(row%rowsOfBase)
	case 3:
		m.Index, m.Scale = l.stride3, 1
	}
	return m
}

// write writes the kernel's loop and what is around it.
func (m *micro) write(room int) {
	p := m.arg
	Comment("Sums begin at 0, or where an earlier part of K left them.")
	from := quad(p, offSum)
	TESTQ(from, from)
	JNE(LabelRef("continued"))
	for r := range m.rows {
		for v := range m.vectors {
			zero(m.sum(r, v))
		}
	}
	JMP(LabelRef("product"))
	Label("continued")
	for r := range m.rows {
		for v := range m.vectors {
			m.load(Mem{Base: from, Disp: r*sumRow + v*m.size}, m.sum(r, v), v == m.vectors-1)
		}
	}
	Label("product")
	m.multiply(room)
	m.finish()
}

func (m *micro) multiply(room int) {
	p := m.arg
	a, kA := newLines(p, offA, offRowA, m.rows), quad(p, offKA)
	b, rowB, depth := quad(p, offB), quad(p, offRowB), quad(p, offDepth)
	TESTQ(depth, depth)
	JE(LabelRef("store"))
	Label("step")
	for v := range m.vectors {
		m.load(Mem{Base: b, Disp: v * m.size}, m.b(v), v == m.vectors-1)
	}
	for r := range m.rows {
		m.broadcast(a.at(r, 0), m.a(r, room))
		for v := range m.vectors {
			VFMADD231PS(m.b(v), m.a(r, room), m.sum(r, v))
		}
	}
	for _, base := range a.bases {
		ADDQ(kA, base)
	}
	ADDQ(rowB, b)
	DECQ(depth)
	JNE(LabelRef("step"))
}

// finish stores alpha*sum, with beta*C unless beta is 0.
func (m *micro) finish() {
	p := m.arg
	Label("store")
	c, rowC := quad(p, offC), quad(p, offRowC)
	alpha, other := m.b(0), m.vector(m.first+1)
	m.broadcast(field(p, offAlpha), alpha)
	for r := range m.rows {
		for v := range m.vectors {
			VMULPS(alpha, m.sum(r, v), m.sum(r, v))
		}
	}
	beta := GP32()
	MOVL(field(p, offBeta), beta)
	SHLL(Imm(1), beta) // without its sign
	JE(LabelRef("write"))
	m.broadcast(field(p, offBeta), alpha)
	old := quad(p, offC)
	for r := range m.rows {
		for v := range m.vectors {
			m.load(Mem{Base: old, Disp: v * m.size}, other, v == m.vectors-1)
			VFMADD231PS(alpha, other, m.sum(r, v))
		}
		ADDQ(rowC, old)
	}
	Label("write")
	for r := range m.rows {
		for v := range m.vectors {
			m.store(m.sum(r, v), Mem{Base: c, Disp: v * m.size}, v == m.vectors-1)
		}
		ADDQ(rowC, c)
	}
}

func zero(r VecPhysical) {
	if r.Size() == 64 {
		VPXORD(r, r, r)
		return
	}
	VXORPS(r, r, r)
}

func main() {
	avx512()
	avx2()
	if err := writeStubs("../kernels_amd64.go"); err != nil {
		log.Fatal(err)
	}
	Generate()
}
