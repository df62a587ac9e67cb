package cpu

import "unsafe"

const (
	// farRow is the least distance of rows of a transposed A, in bytes, that are copied: in place they would
	// share few sets of the L1 cache, and their pages would be too many for its TLB.
	farRow = 2048
	// packedParts is how many parts of 128 columns of B a goroutine keeps: those of K up to 2048.
	packedParts = 8
	// manyBlocks is the least number of blocks of rows for which B is packed.
	manyBlocks = 4
	line       = 64 // bytes of caches
)

// packed is a goroutine's memory for parts of A and B.
type packed struct {
	a, b     []byte             // nil: not needed yet
	parts    [packedParts]partB // that b has
	columnsA []byte             // rows of a transposed A, or nil
}

// partB is a part of B, in panels of width columns.
type partB struct {
	at                     unsafe.Pointer
	ld, cols, depth, width int
}

// near is where a part of K of A and B was copied. nil: it was not.
type near struct {
	a, b unsafe.Pointer
	rowA int // bytes
}

// pack copies a part of B, unless it is there from an earlier tile of the launch, and makes room for A, whose
// rows are copied block by block with the first columns of B. Runs have other parts, and few rows.
func (t *scratch) pack(p *product, k int, rows *blocks) (to near) {
	if t.far == 0 || p.run != nil || rows.count < manyBlocks {
		return to
	}
	s := &t.packed
	if !p.a.trans && t.size*p.a.ld%t.far == 0 && p.cols > rows.width {
		to.rowA = t.size*panelDepth + line
		if s.a == nil {
			s.a = make([]byte, maxSide*to.rowA)
		}
		to.a = unsafe.Pointer(&s.a[0])
	}
	if !p.b.trans && t.size*p.b.ld%t.far == 0 && t.size*rows.width%line == 0 {
		part := maxSide * panelDepth * t.size
		if s.b == nil {
			s.b = make([]byte, packedParts*part)
		}
		i := k / panelDepth % packedParts
		to.b = unsafe.Pointer(&s.b[i*part])
		if from := partAt(p, k, rows.width); s.parts[i] != from {
			t.copyB(to.b, from)
			s.parts[i] = from
		}
	}
	return to
}

// isPacked reports whether the part of B from k on needs no copy.
func (t *scratch) isPacked(p *product, k, width int) bool {
	return k >= p.depth || t.packed.parts[k/panelDepth%packedParts] == partAt(p, k, width)
}

func partAt(p *product, k, width int) partB {
	return partB{p.b.at(k * p.b.ld), p.b.ld, p.cols, min(p.depth-k, panelDepth), width}
}

// copyB copies a part of K of B as panels of columns, each with a row for each k.
func (t *scratch) copyB(to unsafe.Pointer, from partB) {
	width, depth, apart := from.width, from.depth, t.size*from.ld
	wide := t.size * width
	n := t.size * from.cols
	for k := range depth {
		row, panel := unsafe.Add(from.at, k*apart), unsafe.Add(to, k*wide)
		at := 0 // bytes of the row; pointers stay within their memory
		for ; at+wide <= n; at += wide {
			src, dst := unsafe.Add(row, at), unsafe.Add(panel, at*depth)
			for i := 0; i < wide; i += line { // one array of 64 bytes would be a call
				x, y := (*[4][2]uint64)(unsafe.Add(dst, i)), (*[4][2]uint64)(unsafe.Add(src, i))
				x[0], x[1], x[2], x[3] = y[0], y[1], y[2], y[3]
			}
		}
		if at < n {
			copyRow(unsafe.Add(panel, at*depth), unsafe.Add(row, at), n-at)
		}
	}
}

// copyFar copies rows of n bytes.
func copyFar(to, from unsafe.Pointer, rowTo, rowFrom, rows, n int) {
	for i := range rows {
		copyRow(unsafe.Add(to, i*rowTo), unsafe.Add(from, i*rowFrom), n)
	}
}

func copyRow(to, from unsafe.Pointer, n int) {
	copy(unsafe.Slice((*byte)(to), n), unsafe.Slice((*byte)(from), n))
}

// turnedRow is the distance of copied rows of a transposed A, which spreads them over all sets.
func (t *scratch) turnedRow() int { return t.size*maxSide + line }

// turnedA copies a part of K of a transposed A, for all columns of B.
func (t *scratch) turnedA(p *product, k int) unsafe.Pointer {
	s := &t.packed
	if s.columnsA == nil {
		s.columnsA = make([]byte, panelDepth*t.turnedRow())
	}
	to := unsafe.Pointer(&s.columnsA[0])
	t.copyRows(to, p.a.at(k*p.a.ld), t.turnedRow(), t.size*p.a.ld, p.rows*t.size/4, t.micro.depth)
	return to
}

// followA prefetches the next part of K of copied columns of A, whose rows are too far apart for the
// processor's own prefetching. It reports whether block i does so: with the first columns of B four blocks
// do, each 64 columns of a quarter of the rows, and with the second columns four do the rest.
func (t *scratch) followA(p *product, k, columns, i int) bool {
	const first, quarters = 4, 4
	wide := fetchBytes / t.size
	k += panelDepth + (i-first)*(panelDepth/quarters)
	if i < first || i >= first+quarters || columns*wide >= p.rows || k >= p.depth {
		return false
	}
	t.micro.fetch.rows(uintptr(p.a.at(k*p.a.ld+columns*wide)), fetchBytes, t.size*p.a.ld)
	return true
}
