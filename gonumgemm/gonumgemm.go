// Package gonumgemm multiplies gonum matrices in batches: many products of any sizes in one call, on a GPU
// if there is one. Only programs that import this package depend on gonum.
package gonumgemm

import (
	"context"
	"runtime"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/matrices"
	"github.com/batchgemm/batchgemm/planner"
)

// Product holds the arguments of one blas32.Gemm or blas64.Gemm:
//
//	C = Alpha*op(A)*op(B) + Beta*C
//
// op(X) is X, or its transpose for blas.Trans. A is M x K and B is K x N after op, and C is M x N. Unlike in
// planner.Problem, Alpha 0 means 0. Products of blas32.General round Alpha and Beta to float32.
type Product[M blas32.General | blas64.General] struct {
	TransA, TransB blas.Transpose // 0: blas.NoTrans
	Alpha          float64
	A, B           M
	Beta           float64
	C              M
}

// Gemm computes the products in one batch, like dispatch.GEMM. blas64.General needs a device that has
// element.F64: see dispatch.WithTypes. The CPU uses the matrices in place. So does a GPU if all A are views
// of one array, with any strides; likewise all B, and all C. Others are copied once more on the host. The
// matrices C must not overlap. On an error no C changes, unless ctx ends while the CPU computes: all C are
// incomplete then.
func Gemm[M blas32.General | blas64.General](ctx context.Context, on dispatch.Host,
	products ...Product[M]) error {
	defer runtime.KeepAlive(products)
	switch all := any(products).(type) {
	case []Product[blas32.General]:
		return gemm(ctx, on, all, func(m blas32.General) matrices.Dense[float32] {
			return matrices.Dense[float32]{Rows: m.Rows, Cols: m.Cols, Stride: m.Stride, Data: m.Data}
		})
	case []Product[blas64.General]:
		return gemm(ctx, on, all, func(m blas64.General) matrices.Dense[float64] {
			return matrices.Dense[float64]{Rows: m.Rows, Cols: m.Cols, Stride: m.Stride, Data: m.Data}
		})
	}
	return nil // there is no other type
}

func gemm[M blas32.General | blas64.General, T matrices.Real](ctx context.Context, on dispatch.Host,
	products []Product[M], dense func(M) matrices.Dense[T]) error {
	batch := make(planner.Batch, len(products))
	var lists [3][]matrices.Dense[T]
	for n := range lists {
		lists[n] = make([]matrices.Dense[T], len(products))
	}
	for i := range products {
		p := &products[i]
		abc := [...]matrices.Dense[T]{dense(p.A), dense(p.B), dense(p.C)}
		var sizes [len(abc)][2]int
		for n := range abc {
			if wrong := abc[n].Wrong(); wrong != "" {
				return invalid.Errorf("%s of product %d %s", names[n], i, wrong)
			}
			lists[n][i], sizes[n] = abc[n], [2]int{abc[n].Rows, abc[n].Cols}
		}
		var err error
		if batch[i], err = p.problem(i, sizes); err != nil {
			return err
		}
	}
	apart := inHost(on)
	a, b, c := matrices.Lay(lists[0], apart), matrices.Lay(lists[1], apart), matrices.Lay(lists[2], apart)
	for i := range batch {
		p := &batch[i]
		p.A, p.B, p.C = a.Places[i], b.Places[i], c.Places[i]
		a.Load(i, &lists[0][i])
		b.Load(i, &lists[1][i])
		if p.Beta != 0 {
			c.Load(i, &lists[2][i])
		}
	}
	x := dispatch.Slices[T, T]{A: a.Data, B: b.Data, C: c.Data}
	if err := dispatch.GEMM(ctx, on, batch, planner.Options{}, x); err != nil {
		return err
	}
	for i := range batch {
		if new(planner.Epilogue).Writes(&batch[i]) {
			c.Store(i, &lists[2][i])
		}
	}
	return nil
}

// inHost reports whether products are computed where the matrices lie.
func inHost(on dispatch.Host) bool {
	switch d := on.(type) {
	case *dispatch.Device:
		return d != nil && d.Info().Backend == "cpu"
	case *dispatch.Group:
		return d != nil && d.Devices()[0].Info().Backend == "cpu"
	}
	return false
}

var names = [...]string{"A", "B", "C"}

// problem returns the problem of a product with these rows and columns of A, B and C, if they fit together.
func (p *Product[M]) problem(i int, abc [3][2]int) (q planner.Problem, err error) {
	if q.TransA, err = transposed(i, p.TransA); err != nil {
		return q, err
	}
	if q.TransB, err = transposed(i, p.TransB); err != nil {
		return q, err
	}
	a, b, c := abc[0], abc[1], abc[2]
	if q.TransA {
		a[0], a[1] = a[1], a[0]
	}
	if q.TransB {
		b[0], b[1] = b[1], b[0]
	}
	q.M, q.N, q.K, q.Alpha, q.Beta = a[0], b[1], a[1], planner.Scale(p.Alpha), p.Beta
	if q.K != b[0] || c != [2]int{q.M, q.N} {
		return q, invalid.Errorf("product %d: op(A) is %d x %d, op(B) %d x %d, C %d x %d", i, q.M, q.K,
			b[0], q.N, c[0], c[1])
	}
	return q, nil
}

func transposed(i int, t blas.Transpose) (bool, error) {
	switch t {
	case 0, blas.NoTrans:
		return false, nil
	case blas.Trans, blas.ConjTrans:
		return true, nil
	}
	return false, invalid.Errorf("product %d: unknown transposition %c", i, t)
}

// Multiply returns the products a[i]*b[i], computed in T. Multiply[float64] computes as mat.Dense.Mul does,
// on a device that has element.F64: see dispatch.WithTypes. Multiply[float32] rounds each number of a and b
// to the nearest float32 (numbers beyond its range to infinity), sums in float32, and returns the sums as
// float64: relative errors are about 1e-7.
func Multiply[T float32 | float64](ctx context.Context, on dispatch.Host, a, b []mat.Matrix) ([]*mat.Dense,
	error) {
	products, err := dispatch.Multiply(ctx, on, rounded[T](a), rounded[T](b))
	if err != nil {
		return nil, err
	}
	all := make([]*mat.Dense, len(products))
	for i, p := range products {
		if len(p.Data) == 0 {
			all[i] = new(mat.Dense) // the only matrix of gonum without elements
			continue
		}
		data := make([]float64, len(p.Data))
		for j, x := range p.Data {
			data[j] = float64(x)
		}
		all[i] = mat.NewDense(p.Rows, p.Cols, data)
	}
	return all, nil
}

// rounded returns the matrices as numbers of T, one after the other.
func rounded[T matrices.Real](list []mat.Matrix) []dispatch.Dense[T] {
	all := make([]dispatch.Dense[T], len(list))
	size := 0
	for i, m := range list {
		all[i].Rows, all[i].Cols = m.Dims()
		size += all[i].Rows * all[i].Cols
	}
	data := make([]T, 0, size)
	for i, m := range list {
		first := len(data)
		for row := range all[i].Rows {
			for col := range all[i].Cols {
				data = append(data, T(m.At(row, col)))
			}
		}
		all[i].Data = data[first:]
	}
	return all
}
