package cpu

import "unsafe"

// generic are the kernels in plain Go.
var generic = instructions{name: "generic", lanes: 4, gflops: 8, whole: genericKernels, edge: genericKernels,
	transpose: transposeGeneric}

var genericKernels = [][]kernel{
	{},
	{nil, func(m *micro) { m.generic(1) }},
	{nil, func(m *micro) { m.generic(2) }},
}

// generic computes a block of up to 2 x 4, which fits in registers. Rows and columns beyond the end repeat
// the last one.
func (m *micro) generic(rows int) {
	row := (rows - 1) * m.rowA / 4
	col1, col2, col3 := min(1, m.lanes-1), min(2, m.lanes-1), m.lanes-1
	var s00, s01, s02, s03, s10, s11, s12, s13 float32
	if m.sum != nil {
		x := unsafe.Slice(m.sum, (rows-1)*maxSide+m.lanes)
		s00, s01, s02, s03 = x[0], x[col1], x[col2], x[col3]
		x = x[(rows-1)*maxSide:]
		s10, s11, s12, s13 = x[0], x[col1], x[col2], x[col3]
	}
	if m.depth > 0 {
		a, b := unsafe.Pointer(m.a), unsafe.Pointer(m.b)
		rowA, at1, at2, at3 := 4*row, 4*col1, 4*col2, 4*col3
		i, j := 0, 0
		for range m.depth {
			x, y := load(a, i), load(a, i+rowA)
			b0, b1, b2, b3 := load(b, j), load(b, j+at1), load(b, j+at2), load(b, j+at3)
			s00 += x * b0
			s01 += x * b1
			s02 += x * b2
			s03 += x * b3
			s10 += y * b0
			s11 += y * b1
			s12 += y * b2
			s13 += y * b3
			i, j = i+m.kA, j+m.rowB
		}
	}
	sums := [2][4]float32{{s00, s01, s02, s03}, {s10, s11, s12, s13}}
	rowC := m.rowC / 4
	c := unsafe.Slice(m.c, (rows-1)*rowC+m.lanes)
	for r := range rows {
		scale(c[r*rowC:], sums[r][:m.lanes], m.alpha, m.beta)
	}
}

func transposeGeneric(dst, src *float32, rowDst, rowSrc, rows, depth int) {
	rowDst, rowSrc = rowDst/4, rowSrc/4
	to, from := unsafe.Slice(dst, (depth-1)*rowDst+rows), unsafe.Slice(src, (rows-1)*rowSrc+depth)
	for r := range rows {
		at := r
		for _, v := range from[r*rowSrc:][:depth] {
			to[at] = v
			at += rowDst
		}
	}
}

// load reads the element at a byte offset, without bounds checks, which take a fifth of the time.
func load(p unsafe.Pointer, at int) float32 { return *(*float32)(unsafe.Add(p, at)) }
