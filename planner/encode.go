package planner

import "math"

// The encoding of a plan is one []uint32 that the kernels of every backend read:
//
//	[0] Version  [1] words  [2] launches  [3] workspace in elements, 0...
//	launch records of RecordWords each
//	per launch, from word Launch.Items on: its items, in worker order
//	per launch with Kernel.Loop, from word Launch.Table on: Count+1 item indices
//
// Sections start at multiples of 64 words (256 bytes, the largest offset
// alignment of a storage binding). Worker w of a launch without Loop has item w;
// with Loop it has items [table[w], table[w+1]), counted from Launch.Items.
//
// An item is one segment, complete in itself so that a worker waits for one
// dependent load only:
//
//	0 offA  element of the launch's A: op(A)[Row*TM, K0]
//	1 offB  element of the launch's B: op(B)[K0, Col*TN]
//	2 offC  element of the launch's C: C[Row*TM, Col*TN]
//	3 depth K1 - K0; 0 when A and B are not to be read
//	4 lda   5 ldb   6 ldc
//	7 rows | cols<<16  valid rows and columns of the tile
//	8 alpha bits   9 beta bits (1 when Accumulate)
//	10 slot: the partial tile of the workspace to store to, or Final
//	11 flags: bit 0, A and B allow 16-byte loads
//
// A fix-up item:
//
//	0 offC  1 ldc  2 rows | cols<<16  3 first slot
//	4 alpha bits  5 beta bits  6 count of slots  7 zero
//
// Slot s is the TM x TN row-major block at workspace element s*TM*TN.
const (
	Version     = 1
	HeaderWords = 16
	RecordWords = 16
	ItemWords   = 12
	FixupWords  = 8
	Final       = math.MaxUint32 // slot of a segment that stores to C
	ItemWide    = 1              // flag of word 11

	sectionWords = 64
)

// A launch record:
//
//	0 kernel bits: tile | TransA<<8 | TransB<<9 | Wide<<10 | Loop<<11 | Split<<12 | Fixup<<13
//	1 workers  2 Items  3 Table
//	4,5 BaseA  6,7 BaseB  8,9 BaseC (low word, high word)  10.. zero

// Words returns the length of the encoding.
func (p *Plan) Words() int { return p.words }

// Encode appends the encoding to dst[:0] and returns it. It allocates only when
// dst is too short.
func (p *Plan) Encode(dst []uint32) []uint32 {
	if cap(dst) < p.words {
		dst = make([]uint32, p.words)
	}
	dst = dst[:p.words]
	clear(dst)
	dst[0], dst[1], dst[2], dst[3] = Version, uint32(p.words), uint32(len(p.Launches)), uint32(p.Workspace)
	for i := range p.Launches {
		l := &p.Launches[i]
		l.encodeRecord(dst[HeaderWords+i*RecordWords:])
		if l.Fixup {
			for j := range l.Count {
				p.encodeFixup(dst[l.Items+j*FixupWords:], l, &p.Fixups[l.First+j])
			}
			continue
		}
		first := p.Workers[l.First]
		for j, s := range p.Segments[first:p.Workers[l.First+l.Count]] {
			p.encodeItem(dst[l.Items+j*ItemWords:], l, &s)
		}
		if l.Loop {
			for w := range l.Count + 1 {
				dst[l.Table+w] = uint32(p.Workers[l.First+w] - first)
			}
		}
	}
	return dst
}

// layout places the sections of all launches and sets p.words.
func (p *Plan) layout() {
	at := HeaderWords + len(p.Launches)*RecordWords
	section := func(words int) (start int) {
		start = (at + sectionWords - 1) / sectionWords * sectionWords
		at = start + words
		return start
	}
	for i := range p.Launches {
		l := &p.Launches[i]
		if l.Fixup {
			l.Items = section(l.Count * FixupWords)
			continue
		}
		l.Items = section(int(p.Workers[l.First+l.Count]-p.Workers[l.First]) * ItemWords)
		if l.Loop {
			l.Table = section(l.Count + 1)
		}
	}
	p.words = section(0)
}

func (l *Launch) encodeRecord(w []uint32) {
	bits := uint32(l.Tile)
	for i, set := range [...]bool{l.TransA, l.TransB, l.Wide, l.Loop, l.Split, l.Fixup} {
		if set {
			bits |= 1 << (8 + i)
		}
	}
	w[0], w[1], w[2], w[3] = bits, uint32(l.Count), uint32(l.Items), uint32(l.Table)
	for i, base := range [...]int{l.BaseA, l.BaseB, l.BaseC} {
		w[4+2*i], w[5+2*i] = uint32(base), uint32(uint64(base)>>32)
	}
}

func (p *Plan) encodeItem(w []uint32, l *Launch, s *Segment) {
	t, q := &tiles[l.Tile], &p.Batch[s.Problem]
	row, col, k0 := int(s.Row)*t.TM, int(s.Col)*t.TN, int(s.K0)
	_ = w[ItemWords-1]
	w[0] = uint32(q.elementA(row, k0) - l.BaseA)
	w[1] = uint32(q.elementB(k0, col) - l.BaseB)
	w[2] = uint32(q.C.Offset + row*q.C.LD + col - l.BaseC)
	w[3] = uint32(s.K1 - s.K0)
	w[4], w[5], w[6] = uint32(q.A.LD), uint32(q.B.LD), uint32(q.C.LD)
	w[7] = uint32(min(q.M-row, t.TM)) | uint32(min(q.N-col, t.TN))<<16
	w[8], w[9] = math.Float32bits(q.Alpha), math.Float32bits(q.Beta)
	if s.Accumulate {
		w[9] = math.Float32bits(1)
	}
	w[10] = uint32(s.Slot) // NoSlot becomes Final
	if q.wide() {
		w[11] = ItemWide
	}
}

func (p *Plan) encodeFixup(w []uint32, l *Launch, f *Fixup) {
	t, q := &tiles[l.Tile], &p.Batch[f.Problem]
	row, col := int(f.Row)*t.TM, int(f.Col)*t.TN
	_ = w[FixupWords-1]
	w[0] = uint32(q.C.Offset + row*q.C.LD + col - l.BaseC)
	w[1] = uint32(q.C.LD)
	w[2] = uint32(min(q.M-row, t.TM)) | uint32(min(q.N-col, t.TN))<<16
	w[3] = uint32(f.Slot)
	w[4], w[5] = math.Float32bits(q.Alpha), math.Float32bits(q.Beta)
	w[6] = uint32(f.Count)
}

// elementA is the offset of op(A)[i, k], elementB that of op(B)[k, j].
func (p *Problem) elementA(i, k int) int {
	if p.TransA {
		return p.A.Offset + k*p.A.LD + i
	}
	return p.A.Offset + i*p.A.LD + k
}

func (p *Problem) elementB(k, j int) int {
	if p.TransB {
		return p.B.Offset + j*p.B.LD + k
	}
	return p.B.Offset + k*p.B.LD + j
}

// wide reports whether 16-byte loads of A and B are aligned: tiles and K steps
// start at multiples of 4 rows, columns or k within a matrix.
func (p *Problem) wide() bool { return p.A.aligned() && p.B.aligned() }

// wideTile reports the same of those operands whose memory runs along the rows
// or columns of the tile, A transposed and B not, if there are any.
func (p *Problem) wideTile() bool {
	return (p.TransA || !p.TransB) && (!p.TransA || p.A.aligned()) && (p.TransB || p.B.aligned())
}

func (m Matrix) aligned() bool { return (m.Offset|m.LD)%4 == 0 }
