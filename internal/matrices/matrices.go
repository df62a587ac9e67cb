// Package matrices combines matrices from anywhere in host memory into one operand.
package matrices

import (
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner"
)

// Dense is a row-major matrix: element (i, j) is Data[i*Stride+j].
type Dense struct {
	Rows, Cols, Stride int
	Data               []float32
}

// Check fails for an impossible matrix; name is for the error.
func (m *Dense) Check(name string) error {
	switch {
	case m.Rows < 0 || m.Cols < 0:
		return invalid.Errorf("%s is %d x %d: negative size", name, m.Rows, m.Cols)
	case m.empty():
	case m.Stride < m.Cols:
		return invalid.Errorf("%s has stride %d, and rows of %d", name, m.Stride, m.Cols)
	case len(m.Data) < m.Cols || (len(m.Data)-m.Cols)/m.Stride < m.Rows-1:
		return invalid.Errorf("%s is %d x %d with stride %d: %d elements are too few", name, m.Rows, m.Cols,
			m.Stride, len(m.Data))
	}
	return nil
}

func (m *Dense) empty() bool { return m.Rows == 0 || m.Cols == 0 }

// end returns the index after the last element.
func (m *Dense) end() int { return (m.Rows-1)*m.Stride + m.Cols }

// Operand holds matrices as an operand of a batch.
type Operand struct {
	Data   []float32
	Places []planner.Matrix // of each matrix
	// Shared: the matrices lie in one array, and Data is that array. Otherwise Data is for copies, dense and
	// in order.
	Shared bool
}

// Lay places matrices that have passed Check. Views of one array stay where they are. Otherwise it allocates
// memory, which Load fills.
func Lay(all []Dense) Operand {
	if o, ok := share(all); ok {
		return o
	}
	o := Operand{Places: make([]planner.Matrix, len(all))}
	size := 0
	for i := range all {
		const align = 4 // elements: 16 bytes
		m := &all[i]
		o.Places[i] = planner.Matrix{Offset: size, LD: m.Cols}
		size += (m.Rows*m.Cols + align - 1) / align * align
	}
	o.Data = make([]float32, size)
	return o
}

// share finds the array that holds all matrices, from the first matrix to the end of that one's capacity.
func share(all []Dense) (Operand, bool) {
	first := -1
	for i := range all {
		if !all[i].empty() && (first < 0 || address(all[i].Data) < address(all[first].Data)) {
			first = i
		}
	}
	if first < 0 {
		return Operand{}, false
	}
	array := all[first].Data[:cap(all[first].Data)]
	o := Operand{Places: make([]planner.Matrix, len(all)), Shared: true}
	length := 0
	for i := range all {
		m := &all[i]
		if m.empty() {
			o.Places[i].LD = m.Cols
			continue
		}
		bytes := address(m.Data) - address(array)
		offset := int(bytes / unsafe.Sizeof(array[0]))
		if offset > len(array)-m.end() || unsafe.SliceData(array[offset:]) != unsafe.SliceData(m.Data) {
			return Operand{}, false
		}
		o.Places[i] = planner.Matrix{Offset: offset, LD: m.Stride}
		length = max(length, offset+m.end())
	}
	o.Data = array[:length]
	return o, true
}

func address(data []float32) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(data))) }

// Load copies a matrix to its place, unless it is there already.
func (o *Operand) Load(i int, m *Dense) {
	if !o.Shared {
		move(o.Data[o.Places[i].Offset:], m.Cols, m.Data, m.Stride, m)
	}
}

// Store copies a matrix from its place, unless it is the matrix itself.
func (o *Operand) Store(i int, m *Dense) {
	if !o.Shared {
		move(m.Data, m.Stride, o.Data[o.Places[i].Offset:], m.Cols, m)
	}
}

// move copies rows. to and from are the elements from one row to the next.
func move(dst []float32, to int, src []float32, from int, m *Dense) {
	if m.empty() {
		return
	}
	for row := range m.Rows {
		copy(dst[row*to:][:m.Cols], src[row*from:])
	}
}
