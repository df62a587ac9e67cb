// Package matrices combines matrices from anywhere in host memory into one operand.
package matrices

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/batchgemm/batchgemm/planner"
)

// Real is a type of elements.
type Real interface{ float32 | float64 }

// Dense is a row-major matrix: element (i, j) is Data[i*Stride+j].
type Dense[T Real] struct {
	Rows, Cols, Stride int
	Data               []T
}

// Wrong says what is wrong with an impossible matrix, after its name; "" for others.
func (m *Dense[T]) Wrong() string {
	switch {
	case m.Rows < 0 || m.Cols < 0:
		return fmt.Sprintf("is %d x %d: negative size", m.Rows, m.Cols)
	case m.empty():
	case m.Stride < m.Cols:
		return fmt.Sprintf("has stride %d, and rows of %d", m.Stride, m.Cols)
	case len(m.Data) < m.Cols || (len(m.Data)-m.Cols)/m.Stride < m.Rows-1:
		return fmt.Sprintf("is %d x %d with stride %d: %d elements are too few", m.Rows, m.Cols, m.Stride,
			len(m.Data))
	}
	return ""
}

func (m *Dense[T]) empty() bool { return m.Rows == 0 || m.Cols == 0 }

// end returns the index after the last element.
func (m *Dense[T]) end() int { return (m.Rows-1)*m.Stride + m.Cols }

// Operand holds matrices as an operand of a batch.
type Operand[T Real] struct {
	Data   []T
	Places []planner.Matrix // of each matrix
	// Shared: Data has the matrices themselves, and memory of others between them, which nothing may touch.
	// Otherwise Data is for copies, dense and in order.
	Shared bool
	all    []Dense[T] // keeps them
}

// Lay places matrices that are not Wrong. Views of one array stay where they are, and with apart also others.
// Otherwise it allocates memory, which Load fills. The caller keeps the matrices while Data is used.
func Lay[T Real](all []Dense[T], apart bool) Operand[T] {
	if o, ok := share(all, apart); ok {
		return o
	}
	o := Operand[T]{Places: make([]planner.Matrix, len(all))}
	size := 0
	for i := range all {
		const align = 4 // elements: 16 bytes
		m := &all[i]
		o.Places[i] = planner.Matrix{Offset: size, LD: m.Cols}
		size += (m.Rows*m.Cols + align - 1) / align * align
	}
	o.Data = make([]T, size)
	return o
}

// farthest is how many elements a launch reaches. Farther matrices would take several, whose windows begin
// anywhere.
const farthest = min(math.MaxUint32, math.MaxInt)

// share returns the memory from the first matrix to the end of the last one. Without apart, all of it must
// belong to the array of the first, up to its capacity.
func share[T Real](all []Dense[T], apart bool) (Operand[T], bool) {
	first := -1
	for i := range all {
		if !all[i].empty() && (first < 0 || address(all[i].Data) < address(all[first].Data)) {
			first = i
		}
	}
	if first < 0 {
		return Operand[T]{}, false
	}
	begin, reach := address(all[first].Data), cap(all[first].Data)
	if apart {
		reach = farthest
	}
	o := Operand[T]{Places: make([]planner.Matrix, len(all)), Shared: true, all: all}
	length, each := 0, unsafe.Sizeof(T(0))
	for i := range all {
		m := &all[i]
		if m.empty() {
			o.Places[i].LD = m.Cols
			continue
		}
		bytes := address(m.Data) - begin
		if bytes%each != 0 || bytes/each > uintptr(reach) || int(bytes/each) > reach-m.end() {
			return Operand[T]{}, false
		}
		o.Places[i] = planner.Matrix{Offset: int(bytes / each), LD: m.Stride}
		length = max(length, int(bytes/each)+m.end())
	}
	o.Data = Span[T](unsafe.Pointer(unsafe.SliceData(all[first].Data)), length)
	return o, true
}

func address[T Real](data []T) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(data))) }

// Load copies a matrix to its place, unless it is there already.
func (o *Operand[T]) Load(i int, m *Dense[T]) {
	if !o.Shared {
		move(o.Data[o.Places[i].Offset:], m.Cols, m.Data, m.Stride, m)
	}
}

// Store copies a matrix from its place, unless it is the matrix itself.
func (o *Operand[T]) Store(i int, m *Dense[T]) {
	if !o.Shared {
		move(m.Data, m.Stride, o.Data[o.Places[i].Offset:], m.Cols, m)
	}
}

// move copies rows. to and from are the elements from one row to the next.
func move[T Real](dst []T, to int, src []T, from int, m *Dense[T]) {
	if m.empty() {
		return
	}
	for row := range m.Rows {
		copy(dst[row*to:][:m.Cols], src[row*from:])
	}
}

// Span returns elements in memory from an address on, which may belong to several objects of Go. Nothing may
// take the address of an element that is in none of them, and the caller keeps the objects. unsafe.Slice
// would panic under the race detector.
func Span[T Real](first unsafe.Pointer, n int) (span []T) {
	header := struct {
		at       unsafe.Pointer
		len, cap int
	}{first, n, n}
	return *(*[]T)(unsafe.Pointer(&header))
}
