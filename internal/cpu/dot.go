package cpu

import (
	"unsafe"

	"github.com/batchgemm/batchgemm/planner/element"
)

const (
	partWords = 256 // of K that are done at once, as many as panelDepth
	strip     = 32  // columns of Y that are packed together
	tileWords = 16  // words of a row of a tile of AMX
	// sharing: 32 rows that are a multiple of so many bytes apart share four sets of a cache, or fewer.
	sharing = 1024
)

// dots is a goroutine's memory for products by units.
type dots struct {
	x, y, rows [maxSide * partWords]uint32
	back       [maxSide * maxSide]float32 // sums that were computed transposed
	of         [maxSide]int32             // sums of rows of X
	last       [8 * maxSide]byte          // the last rows of elements, with zeros
	tiles      tiles
	sum        unsafe.Pointer // where tiles of sums are
}

// side is an operand with n rows of op(A), or columns of op(B).
type side struct {
	*operand
	n     int
	along bool // elements that follow each other in memory are along K
}

// size returns the bytes of an element.
func (s *side) size() int { return s.of.Bytes() }

// at returns the address of an element. row counts along n.
func (s *side) at(row, k int) unsafe.Pointer {
	if !s.along {
		row, k = k, row
	}
	return unsafe.Pointer(&s.bytes[(row*s.ld+k)*s.size()])
}

// inWords reports whether elements of K are whole words in memory.
func (s *side) inWords(depth, each int) bool { return s.along && s.gather == nil && depth%each == 0 }

// unitsFor returns the units for a product, or nil if its operands must become fp32 first.
func (t *scratch) unitsFor(p *product) *units {
	switch {
	case p.depth == 0 || p.a.of != p.b.of || p.a.blocks.each > 0:
		return nil
	case p.a.of == element.BF16:
		return t.bf16
	case p.a.of == element.Int8: // sums of planner.MaxWholeK products stay within int32
		return t.int8
	}
	return nil
}

// dot computes a product by units, in parts along K. X is A and Y is B, or the other way round if that packs
// less. The order of additions is the same.
func (t *scratch) dot(p *product, u *units) {
	if t.dots == nil {
		t.dots = new(dots)
	}
	x, y := side{&p.a, p.rows, !p.a.trans}, side{&p.b, p.cols, p.b.trans}
	swapped := u.tiles != nil && y.along && (!x.along || x.n < y.n)
	if swapped {
		x, y = y, x
	}
	// Tiles of sums that are C already are stored there.
	sums, row := unsafe.Pointer(&t.sum), 4*maxSide
	direct := u.tiles != nil && !u.whole && !swapped && p.cols%tileWords == 0 && p.tail == nil &&
		p.of == element.F32 && p.alpha == 1 && p.beta == 0
	if direct {
		sums, row = unsafe.Pointer(&p.c[0]), 4*p.ldc
	}
	t.dots.sum, t.dots.tiles.rowSum = sums, row
	clear(t.dots.of[:x.n])
	strips := (y.n + strip - 1) / strip
	most := len(t.dots.y) / (strip * strips) &^ (tileWords - 1)
	if u.tiles == nil || !x.inWords(p.depth, u.each*tileWords) {
		most = partWords
	}
	for k := 0; k < p.depth; k += most * u.each {
		if t.stop.Load() {
			return
		}
		depth := min(p.depth-k, most*u.each)
		t.turn.take(p.rows * p.cols * depth / 8)
		t.dotPart(u, &x, &y, k, depth)
	}
	if !direct {
		t.finishDot(p, u, swapped)
	}
}

// dotPart adds the products of a part of K to the sums.
func (t *scratch) dotPart(u *units, x, y *side, k, depth int) {
	words := (depth + u.each - 1) / u.each
	whole := (words + tileWords - 1) &^ (tileWords - 1)
	t.columnsOf(u, y, k, depth, words, whole)
	from, row := unsafe.Pointer(&t.dots.x), 4*whole
	if x.inWords(depth, u.each) && (u.tiles == nil || words == whole) {
		from, row = x.at(0, k), x.ld*x.size()
	} else {
		t.rowsOf(u, x, k, depth, whole, &t.dots.x)
	}
	if u.tiles != nil {
		t.dotTiles(u, x.n, y.n, from, row, whole, k > 0)
		return
	}
	t.dotVectors(u, x.n, y.n, from, row, words, whole, k > 0)
	if u.sumRows != nil {
		u.sumRows(&t.dots.of[0], from, row, x.n, words)
	}
}

// rowsOf packs a part of K of X: rows of words, with zeros beyond the last one.
func (t *scratch) rowsOf(u *units, x *side, k, depth, whole int, to *[maxSide * partWords]uint32) {
	if !x.along {
		t.turned(u, x, k, depth, whole, to)
		return
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(to)), 4*len(to))
	n := depth * x.size()
	for i := range x.n {
		row, dst := i, bytes[4*whole*i:][:4*whole]
		if x.gather != nil {
			row = int(x.gather[i])
		}
		if x.gather != nil && uint(row) >= uint(x.stored) {
			clear(dst)
			continue
		}
		copy(dst, x.bytes[(row*x.ld+k)*x.size():][:n])
		clear(dst[n:])
	}
}

// turned is rowsOf for rows that are columns in memory.
func (t *scratch) turned(u *units, x *side, k, depth, whole int, to *[maxSide * partWords]uint32) {
	t.interleaved(u, x, k, depth, whole, &t.dots.rows)
	for i := 0; i < x.n; i += t.lanes {
		from := t.dots.rows[i/strip*strip*whole+i%strip:]
		for w := 0; w < whole; w += t.lanes {
			t.transpose(wordAt(to[:], i*whole+w), wordAt(from, w*strip), 4*whole, 4*strip, t.lanes,
				min(x.n-i, t.lanes))
		}
	}
}

// interleaved makes strips of `whole` rows of words from rows of elements.
func (t *scratch) interleaved(u *units, y *side, k, depth, whole int, to *[maxSide * partWords]uint32) {
	next, row := 4*strip*whole, y.ld*y.size()
	words := depth / u.each
	if words > 0 {
		u.interleave(unsafe.Pointer(to), y.at(0, k), next, row, y.n, words*u.each)
	}
	if rest := depth % u.each; rest > 0 {
		last := &t.dots.last
		clear(last[:])
		for i := range rest {
			from := y.bytes[((k+words*u.each+i)*y.ld)*y.size():]
			copy(last[i*2*maxSide:][:y.n*y.size()], from)
		}
		u.interleave(unsafe.Pointer(&to[words*strip]), unsafe.Pointer(last), next, 2*maxSide, y.n, u.each)
		words++
	}
	for i := 0; i < y.n; i += strip {
		clear(to[i*whole:][words*strip : whole*strip])
	}
}

func wordAt(words []uint32, i int) unsafe.Pointer { return unsafe.Pointer(&words[i]) }

// columnsOf packs a part of K of Y: strips, each with a row for each word.
func (t *scratch) columnsOf(u *units, y *side, k, depth, words, whole int) {
	if !y.along {
		t.interleaved(u, y, k, depth, whole, &t.dots.y)
		return
	}
	from, row := unsafe.Pointer(&t.dots.rows), 4*whole
	if y.inWords(depth, u.each) {
		from, row = y.at(0, k), y.ld*y.size()
	} else {
		t.rowsOf(u, y, k, depth, whole, &t.dots.rows)
	}
	for j := 0; j < y.n; j += t.lanes {
		to := t.dots.y[j/strip*strip*whole+j%strip:]
		n := min(y.n-j, t.lanes)
		t.transpose(wordAt(to, 0), unsafe.Add(from, j*row), 4*strip, row, n, words)
		for w := words; w < whole; w++ {
			clear(to[w*strip:][:t.lanes])
		}
	}
}

// dotTiles multiplies by AMX, up to 32 x 32 at a time.
func (t *scratch) dotTiles(u *units, rows, cols int, x unsafe.Pointer, rowX, words int, more bool) {
	a := &t.dots.tiles
	a.rowX, a.stepX, a.steps, a.more = rowX, 64, words/tileWords, 0
	if more {
		a.more = 1
	}
	for row := 0; row < rows; row += 32 {
		n := min(rows-row, 32)
		a.of = &tileConfigs[n]
		a.x, a.y = unsafe.Add(x, row*rowX), unsafe.Pointer(&t.dots.y)
		a.sum = unsafe.Add(t.dots.sum, row*a.rowSum)
		if cols > strip && rowX%sharing == 0 { // rows of X are used again
			u.pack(unsafe.Pointer(&t.dots.rows), a.x, rowX, n, a.steps)
			a.x, a.rowX, a.stepX = unsafe.Pointer(&t.dots.rows), 64, 64*32
		}
		kernels := u.tiles[(n+15)/16]
		rest := cols % strip
		if a.strips = cols / strip; rest > tileWords {
			a.strips++
		}
		if a.strips > 0 {
			kernels[2](a)
		}
		if 0 < rest && rest <= tileWords {
			a.y = unsafe.Pointer(&t.dots.y[a.strips*strip*words])
			a.sum = unsafe.Add(a.sum, 4*strip*a.strips)
			a.strips = 1
			kernels[1](a)
		}
	}
}

// dotVectors multiplies by vectors.
func (t *scratch) dotVectors(u *units, rows, cols int, x unsafe.Pointer, rowX, words, whole int,
	more bool) {
	m := &t.micro
	m.rowA, m.kA, m.rowC = rowX, 4, 4*maxSide
	m.depth, m.wide, m.lanes = words, words, t.lanes
	m.scale(1, 0)
	most := len(u.kernels) - 1
	for col := 0; col < cols; col += strip {
		vectors := (min(cols-col, strip) + t.lanes - 1) / t.lanes
		m.rowsOfB(wordAt(t.dots.y[:], col*whole), 4*strip)
		for row, left := 0, (rows+most-1)/most; left > 0; left-- {
			height := (rows - row + left - 1) / left
			m.a = unsafe.Add(x, row*rowX)
			m.c, m.sum = unsafe.Pointer(&t.sum[row*maxSide+col]), nil
			if more {
				m.sum = m.c
			}
			m.fetch.only(uintptr(m.a), fetchBytes)
			u.kernels[height][vectors](m)
			row += height
		}
	}
}

// finishDot stores the sums.
func (t *scratch) finishDot(p *product, u *units, swapped bool) {
	sums := &t.sum
	if swapped {
		sums = &t.dots.back
		for j := 0; j < p.cols; j += t.lanes {
			t.transpose(unsafe.Pointer(&sums[j]), unsafe.Pointer(&t.sum[j*maxSide]), 4*maxSide, 4*maxSide,
				min(p.cols-j, t.lanes), p.rows)
		}
	}
	var less *int32
	if u.whole {
		less = &t.dots.of[0]
	}
	switch {
	case p.tail == nil && p.of == element.F32:
		scaleRows(&p.c[0], &sums[0], less, 4*p.ldc, p.rows, p.cols, float32(p.alpha),
			float32(p.beta))
	case p.tail == nil && p.beta == 0:
		if u.whole || p.alpha != 1 {
			scaleRows(&sums[0], &sums[0], less, 4*maxSide, p.rows, p.cols, float32(p.alpha), 0)
		}
		for i := range p.rows {
			p.narrow.store(i*p.ldc, sums[i*maxSide:][:p.cols])
		}
	default:
		if u.whole {
			scaleRows(&sums[0], &sums[0], less, 4*maxSide, p.rows, p.cols, 1, 0)
		}
		for i := range p.rows {
			p.finish(i, sums[i*maxSide:][:p.cols], float32(p.alpha), float32(p.beta))
		}
	}
}
