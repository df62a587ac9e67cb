package dispatch

import (
	"context"

	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner"
)

// Dense is a row-major matrix of fp32: element (i, j) is Data[i*Stride+j].
type Dense struct {
	Rows, Cols int
	Stride     int // elements between two rows; 0: Cols
	Data       []float32
}

// Multiply returns the products a[i]*b[i], each of any sizes, as new matrices without gaps. It is GEMM of
// matrices that lie anywhere in host memory, which it copies once more: large operands are better off in one
// slice, with GEMM, or on the device.
func Multiply(ctx context.Context, h Host, a, b []Dense) ([]Dense, error) {
	if len(a) != len(b) {
		return nil, invalid.Errorf("%d matrices to multiply by %d", len(a), len(b))
	}
	problems := make([]planner.Problem, len(a))
	for i := range a {
		if err := a[i].check("a", i); err != nil {
			return nil, err
		}
		if err := b[i].check("b", i); err != nil {
			return nil, err
		}
		if a[i].Cols != b[i].Rows {
			return nil, invalid.Errorf("a[%d] has %d columns, b[%d] has %d rows", i, a[i].Cols, i, b[i].Rows)
		}
		problems[i] = planner.GEMM(a[i].Rows, b[i].Cols, a[i].Cols)
	}
	batch, err := planner.Pack(problems...)
	if err != nil {
		return nil, err
	}
	lenA, lenB, lenC := batch.Extent()
	x := Slices[float32, float32]{A: make([]float32, lenA), B: make([]float32, lenB),
		C: make([]float32, lenC)}
	for i := range batch {
		if p := &batch[i]; p.Reads() {
			a[i].store(x.A[p.A.Offset:])
			b[i].store(x.B[p.B.Offset:])
		}
	}
	if err := GEMM(ctx, h, batch, planner.Options{}, x); err != nil {
		return nil, err
	}
	products := make([]Dense, len(batch))
	for i := range batch {
		p := &batch[i]
		products[i] = Dense{Rows: p.M, Cols: p.N, Stride: p.N}
		if size := p.M * p.N; size > 0 {
			products[i].Data = x.C[p.C.Offset:][:size:size]
		}
	}
	return products, nil
}

// stride is the elements between two rows.
func (m *Dense) stride() int {
	if m.Stride == 0 {
		return m.Cols
	}
	return m.Stride
}

func (m *Dense) check(list string, i int) error {
	switch stride := m.stride(); {
	case m.Rows < 0 || m.Cols < 0:
		return invalid.Errorf("%s[%d] is %d x %d: negative size", list, i, m.Rows, m.Cols)
	case stride < m.Cols:
		return invalid.Errorf("%s[%d] has stride %d, and rows of %d", list, i, stride, m.Cols)
	case m.Rows > 0 && m.Cols > 0 && (len(m.Data) < m.Cols || (len(m.Data)-m.Cols)/stride < m.Rows-1):
		return invalid.Errorf("%s[%d] is %d x %d with stride %d: %d elements are too few", list, i, m.Rows,
			m.Cols, stride, len(m.Data))
	}
	return nil
}

// store copies the rows without gaps.
func (m *Dense) store(dst []float32) {
	for row := range m.Rows {
		copy(dst[row*m.Cols:], m.Data[row*m.stride():][:m.Cols])
	}
}
