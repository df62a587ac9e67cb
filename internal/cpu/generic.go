package cpu

import "unsafe"

// generic are the kernels in plain Go.
var generic = instructions{name: "generic", size: 4, lanes: 4, gflops: 8, whole: genericKernels[float32](),
	edge: genericKernels[float32](), transpose: transposeGeneric[float32], double: &instructions{
		size: 8, lanes: 4, whole: genericKernels[float64](), edge: genericKernels[float64](),
		transpose: transposeGeneric[float64],
	}}

// sums are the types of sums.
type sums interface{ float32 | float64 }

func genericKernels[T sums]() [][]kernel {
	return [][]kernel{
		{},
		{nil, func(m *micro) { multiplyGeneric[T](m, 1) }},
		{nil, func(m *micro) { multiplyGeneric[T](m, 2) }},
	}
}

// multiplyGeneric computes a block of up to 2 x 4, which fits in registers. Rows and columns beyond the end
// repeat the last one.
func multiplyGeneric[T sums](m *micro, rows int) {
	size := int(unsafe.Sizeof(T(0)))
	col1, col2, col3 := min(1, m.lanes-1), min(2, m.lanes-1), m.lanes-1
	var s00, s01, s02, s03, s10, s11, s12, s13 T
	if m.sum != nil {
		x := unsafe.Slice((*T)(m.sum), (rows-1)*maxSide+m.lanes)
		s00, s01, s02, s03 = x[0], x[col1], x[col2], x[col3]
		x = x[(rows-1)*maxSide:]
		s10, s11, s12, s13 = x[0], x[col1], x[col2], x[col3]
	}
	if m.depth > 0 {
		a, b := m.a, m.b
		rowA, at1, at2, at3 := (rows-1)*m.rowA, size*col1, size*col2, size*col3
		i, j := 0, 0
		for range m.depth {
			x, y := load[T](a, i), load[T](a, i+rowA)
			b0, b1, b2, b3 := load[T](b, j), load[T](b, j+at1), load[T](b, j+at2), load[T](b, j+at3)
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
	sums := [2][4]T{{s00, s01, s02, s03}, {s10, s11, s12, s13}}
	rowC := m.rowC / size
	c := unsafe.Slice((*T)(m.c), (rows-1)*rowC+m.lanes)
	for r := range rows {
		scaleEach(c[r*rowC:], sums[r][:m.lanes], T(m.alpha64), T(m.beta64))
	}
}

func transposeGeneric[T sums](dst, src unsafe.Pointer, rowDst, rowSrc, rows, depth int) {
	size := int(unsafe.Sizeof(T(0)))
	rowDst, rowSrc = rowDst/size, rowSrc/size
	to := unsafe.Slice((*T)(dst), (depth-1)*rowDst+rows)
	from := unsafe.Slice((*T)(src), (rows-1)*rowSrc+depth)
	for r := range rows {
		at := r
		for _, v := range from[r*rowSrc:][:depth] {
			to[at] = v
			at += rowDst
		}
	}
}

// load reads the element at a byte offset, without bounds checks, which take a fifth of the time.
func load[T sums](p unsafe.Pointer, at int) T { return *(*T)(unsafe.Add(p, at)) }

// scaleEach computes C = alpha*sum + beta*C. With beta = 0, C is not read.
func scaleEach[T sums](c, sum []T, alpha, beta T) {
	c = c[:len(sum)]
	if beta == 0 {
		for i, v := range sum {
			c[i] = alpha * v
		}
		return
	}
	for i, v := range sum {
		c[i] = alpha*v + beta*c[i]
	}
}
