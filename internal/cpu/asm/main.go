// Command asm writes the assembly of package cpu: run go generate in its folder.
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
	offDepth, offLanes, offWide      = 64, 72, 80
	offAlpha, offBeta                = 88, 92 // of fp32
	offAlpha64, offBeta64            = 136, 144
	offNext, offNextEnd              = 96, 104
	offNextGap, offNextRow           = 112, 120
	offAhead                         = 128
	sumRow                           = 128 // elements of a row of package cpu's sums
	rowsOfBase                       = 5   // of A that one register can address
)

// micro is a kernel being written: rows x vectors of C held in registers.
type micro struct {
	rows, vectors int
	vector        func(i int) VecPhysical // registers of the instruction set
	size          int                     // bytes of one
	of            precision
	arg           Register
	broadcast     func(from Op, to VecPhysical)
	load          func(from Op, to VecPhysical, last bool) // the last vector of a row may be narrower
	store         func(from VecPhysical, to Op, last bool)
	first         int // first register for A and B, after the sums

	// For words of several narrow elements. A's rows are along K, and sums are stored as they are.
	words    bool
	loadB    func(from Op, to VecPhysical) // nil: load
	multiply func(b, a, sum VecPhysical)   // nil: of fp32
}

func (m *micro) sum(row, vector int) VecPhysical { return m.vector(row*m.vectors + vector) }
func (m *micro) b(vector int) VecPhysical        { return m.vector(m.first + vector) }

// a returns the register of row i's element of A. If there is room, two alternate.
func (m *micro) a(i, room int) VecPhysical {
	return m.vector(m.first + m.vectors + i%min(2, room))
}

func field(p Register, offset int) Mem { return Mem{Base: p, Disp: offset} }

func quad(p Register, offset int) GPVirtual {
	r := GP64()
	MOVQ(field(p, offset), r)
	return r
}

// lines are addresses of rows in memory. Each base register is for rowsOfBase rows.
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

func (l lines) at0(row int) Mem { return l.at(row, 0) }

// write writes the kernel's loop and the code around it.
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
			m.load(Mem{Base: from, Disp: r*sumRow*m.of.bytes + v*m.size}, m.sum(r, v), v == m.vectors-1)
		}
	}
	Label("product")
	m.products(room)
	m.finish()
}

// products adds those of all steps along K. Four steps at a time need few other instructions, which
// share units with those that multiply. Masks do too, so they are only for the last steps, which must not
// read beyond the last row of B.
func (m *micro) products(room int) {
	l := m.begin(room)
	TESTQ(l.depth, l.depth)
	JE(LabelRef("store"))
	turns := GP64()
	MOVQ(field(m.arg, offWide), turns)
	SHRQ(Imm(2), turns)
	JE(LabelRef("edge"))
	rowB3 := GP64()
	LEAQ(Mem{Base: l.rowB, Index: l.rowB, Scale: 2}, rowB3)
	b := lines{bases: []GPVirtual{l.b}, stride: l.rowB, stride3: rowB3}
	if !m.words {
		CMPQ(l.kA, Imm(uint64(m.of.bytes)))
		JNE(LabelRef("columns"))
	}
	m.loop(l, "rows", turns, b, func(row, k int) Mem { return l.a.at(row, m.of.bytes*k) }, func() {
		for _, base := range l.a.bases {
			ADDQ(Imm(uint64(4*m.of.bytes)), base)
		}
	})
	if !m.words {
		JMP(LabelRef("rest"))
		m.columns(l, turns, b)
	}
	Label("rest")
	again := Load(Param("p"), GP64())
	MOVQ(field(again, offDepth), l.depth)
	wide := quad(again, offWide)
	ANDQ(I8(-4), wide)
	SUBQ(wide, l.depth)
	JE(LabelRef("store"))
	Label("edge")
	m.step(l.a.at0, Mem{Base: l.b}, room, m.load)
	for _, base := range l.a.bases {
		ADDQ(l.kA, base)
	}
	ADDQ(l.rowB, l.b)
	DECQ(l.depth)
	JNE(LabelRef("edge"))
}

// columns is the loop for a transposed A, whose columns are along K.
func (m *micro) columns(l *operands, turns GPVirtual, b lines) {
	Label("columns")
	a := lines{bases: l.a.bases[:1], stride: l.kA, stride3: GP64()}
	LEAQ(Mem{Base: l.kA, Index: l.kA, Scale: 2}, a.stride3)
	m.loop(l, "column", turns, b, func(row, k int) Mem { return a.at(k, m.of.bytes*row) }, func() {
		LEAQ(Mem{Base: a.bases[0], Index: l.kA, Scale: 4}, a.bases[0])
	})
	MOVQ(U32(uint32(m.of.bytes)), l.a.stride)
	MOVQ(U32(uint32(3*m.of.bytes)), l.a.stride3)
	for i := 1; i < len(l.a.bases); i++ {
		LEAQ(Mem{Base: l.a.bases[i-1], Disp: m.of.bytes * rowsOfBase}, l.a.bases[i])
	}
}

// loop does four steps in an iteration. at returns the place of their elements of A.
func (m *micro) loop(l *operands, name string, turns GPVirtual, b lines, at func(row, k int) Mem,
	advance func()) {
	whole := func(from Op, to VecPhysical, _ bool) { VMOVUPS(from, to) }
	Label(name)
	for k := range 4 {
		b := b.at(k, 0)
		m.step(func(row int) Mem { return at(row, k) }, b, l.room, whole)
		for line := 0; line < m.vectors*m.size && l.ahead != nil; line += 64 {
			PREFETCHT0(Mem{Base: *l.ahead, Index: b.Index, Scale: b.Scale, Disp: line})
		}
		PREFETCHT1(Mem{Base: l.next, Disp: 64 * k})
	}
	advance()
	LEAQ(Mem{Base: l.b, Index: l.rowB, Scale: 4}, l.b)
	if l.ahead != nil {
		LEAQ(Mem{Base: *l.ahead, Index: l.rowB, Scale: 4}, *l.ahead)
	}
	ADDQ(U32(256), l.next)
	CMPQ(l.next, l.nextEnd)
	JLT(LabelRef(name + "Same"))
	p := Load(Param("p"), GP64())
	ADDQ(field(p, offNextGap), l.next)
	ADDQ(field(p, offNextRow), l.nextEnd)
	Label(name + "Same")
	DECQ(turns)
	JNE(LabelRef(name))
}

// step does one step along K.
func (m *micro) step(a func(row int) Mem, b Mem, room int, load func(from Op, to VecPhysical, last bool)) {
	for v := range m.vectors {
		from := b
		from.Disp += v * m.size
		if m.loadB != nil {
			m.loadB(from, m.b(v))
		} else {
			load(from, m.b(v), v == m.vectors-1)
		}
	}
	for r := range m.rows {
		m.broadcast(a(r), m.a(r, room))
		for v := range m.vectors {
			if m.multiply != nil {
				m.multiply(m.b(v), m.a(r, room), m.sum(r, v))
			} else {
				m.of.add(m.b(v), m.a(r, room), m.sum(r, v))
			}
		}
	}
}

// operands are the registers of a product.
type operands struct {
	a                  lines
	kA, b, rowB, depth GPVirtual
	ahead              *GPVirtual // of B, to prefetch; nil: A's rows leave no register
	next, nextEnd      GPVirtual
	room               int
}

func (m *micro) begin(room int) *operands {
	p := m.arg
	c := newLines(p, offC, offRowC, m.rows)
	for r := range m.rows {
		for line := 0; line < m.vectors*m.size; line += 64 {
			PREFETCHT0(c.at(r, line))
		}
	}
	l := &operands{
		a: newLines(p, offA, offRowA, m.rows), kA: quad(p, offKA), b: quad(p, offB), rowB: quad(p, offRowB),
		depth: quad(p, offDepth), next: quad(p, offNext), nextEnd: quad(p, offNextEnd), room: room,
	}
	if len(l.a.bases) < 5 {
		ahead := quad(p, offAhead)
		ADDQ(l.b, ahead)
		l.ahead = &ahead
	}
	return l
}

// finish stores alpha*sum, with beta*C unless beta is 0; or words' sums as they are.
func (m *micro) finish() {
	Label("store")
	p := Load(Param("p"), GP64())
	c, rowC := quad(p, offC), quad(p, offRowC)
	if !m.words {
		m.scale(p)
	}
	for r := range m.rows {
		for v := range m.vectors {
			m.store(m.sum(r, v), Mem{Base: c, Disp: v * m.size}, v == m.vectors-1)
		}
		ADDQ(rowC, c)
	}
}

// scale multiplies sums by alpha and adds beta*C.
func (m *micro) scale(p Register) {
	rowC := quad(p, offRowC)
	alpha, other := m.b(0), m.vector(m.first+1)
	m.of.isOne(p)
	JE(LabelRef("scaled"))
	m.broadcast(field(p, m.of.alpha), alpha)
	for r := range m.rows {
		for v := range m.vectors {
			m.of.multiply(alpha, m.sum(r, v), m.sum(r, v))
		}
	}
	Label("scaled")
	m.of.isZero(p)
	JE(LabelRef("write"))
	m.broadcast(field(p, m.of.beta), alpha)
	old := quad(p, offC)
	for r := range m.rows {
		for v := range m.vectors {
			m.load(Mem{Base: old, Disp: v * m.size}, other, v == m.vectors-1)
			m.of.add(alpha, other, m.sum(r, v))
		}
		ADDQ(rowC, old)
	}
	Label("write")
}

func zero(r VecPhysical) {
	if r.Size() == 64 {
		VPXORD(r, r, r)
		return
	}
	VXORPS(r, r, r)
}

// amd64 are stubs, because avo writes none for types of package cpu.
var amd64 stubs

func main() {
	avx512(single, "avx512", 24)
	transpose512()
	avx2(single, "avx2")
	transpose2()
	avx512(double, "double512", 14) // programs stay small
	transposeDouble512()
	avx2(double, "double2")
	transposeDouble2()
	dots()
	tiles()
	converts()
	alongs()
	panels()
	fews()
	fews2()
	copyRows512()
	if err := amd64.write("../kernels_amd64.go", "\nimport \"unsafe\"\n"); err != nil {
		log.Fatal(err)
	}
	Generate()
	if err := joinLines("../kernels_amd64.s"); err != nil {
		log.Fatal(err)
	}
	if err := neon(); err != nil {
		log.Fatal(err)
	}
}
