package dispatch

import (
	"context"
	"runtime"

	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/matrices"
	"github.com/batchgemm/batchgemm/planner"
)

// Dense is a row-major matrix of fp32 or fp64: element (i, j) is Data[i*Stride+j].
type Dense[T float32 | float64] struct {
	Rows, Cols int
	Stride     int // elements from one row to the next; 0: Cols
	Data       []T
}

// Multiply returns the products a[i]*b[i] as new matrices without gaps. The sizes may all differ. Matrices
// may lie anywhere in host memory. The CPU uses them in place. For a GPU they are copied once more than by
// GEMM, unless all matrices of a list are views of one array. On an error it returns no matrices.
func Multiply[T float32 | float64](ctx context.Context, h Host, a, b []Dense[T]) ([]Dense[T], error) {
	if len(a) != len(b) {
		return nil, invalid.Errorf("%d matrices to multiply by %d", len(a), len(b))
	}
	as, err := listed("a", a)
	if err != nil {
		return nil, err
	}
	bs, err := listed("b", b)
	if err != nil {
		return nil, err
	}
	problems := make([]planner.Problem, len(a))
	for i := range a {
		if a[i].Cols != b[i].Rows {
			return nil, invalid.Errorf("a[%d] has %d columns, b[%d] has %d rows", i, a[i].Cols, i, b[i].Rows)
		}
		problems[i] = planner.GEMM(a[i].Rows, b[i].Cols, a[i].Cols)
	}
	batch, err := planner.Pack(problems...)
	if err != nil {
		return nil, err
	}
	apart := h != nil && inHost(h)
	operandA, operandB := matrices.Lay(as, apart), matrices.Lay(bs, apart)
	for i := range batch {
		operandA.Load(i, &as[i])
		operandB.Load(i, &bs[i])
		batch[i].A, batch[i].B = operandA.Places[i], operandB.Places[i]
	}
	need := batch.Lengths(planner.Epilogue{})
	x := Slices[T, T]{A: operandA.Data, B: operandB.Data, C: make([]T, need.C)}
	err = GEMM(ctx, h, batch, planner.Options{}, x)
	runtime.KeepAlive(a)
	runtime.KeepAlive(b)
	if err != nil {
		return nil, err
	}
	products := make([]Dense[T], len(batch))
	for i := range batch {
		p := &batch[i]
		products[i] = Dense[T]{Rows: p.M, Cols: p.N, Stride: p.N}
		if size := p.M * p.N; size > 0 {
			products[i].Data = x.C[p.C.Offset:][:size:size]
		}
	}
	return products, nil
}

// listed returns matrices with their strides, checked.
func listed[T float32 | float64](name string, list []Dense[T]) ([]matrices.Dense[T], error) {
	all := make([]matrices.Dense[T], len(list))
	for i, m := range list {
		if all[i] = matrices.Dense[T](m); m.Stride == 0 {
			all[i].Stride = m.Cols
		}
		if wrong := all[i].Wrong(); wrong != "" {
			return nil, invalid.Errorf("%s[%d] %s", name, i, wrong)
		}
	}
	return all, nil
}

// inHost reports whether a host computes where operands lie.
func inHost(h Host) bool {
	if d, ok := h.(*Device); ok && d == nil {
		return false
	}
	_, is := h.single().driver.(backend.InHost)
	return is
}
