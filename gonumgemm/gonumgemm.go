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

// Product holds the arguments of one blas32.Gemm:
//
//	C = Alpha*op(A)*op(B) + Beta*C
//
// op(X) is X, or its transpose for blas.Trans. A is M x K and B is K x N after op, and C is M x N. Unlike in
// planner.Problem, Alpha 0 means 0.
type Product struct {
	TransA, TransB blas.Transpose // 0: blas.NoTrans
	Alpha          float32
	A, B           blas32.General
	Beta           float32
	C              blas32.General
}

// Product64 holds the arguments of one blas64.Gemm, like Product.
type Product64 struct {
	TransA, TransB blas.Transpose
	Alpha          float64
	A, B           blas64.General
	Beta           float64
	C              blas64.General
}

// Gemm computes the products in one batch, like dispatch.GEMM. The CPU uses the matrices in place. So does a
// GPU if all A are views of one array, with any strides; likewise all B, and all C. Others are copied once
// more on the host. The matrices C must not overlap. On an error no C changes, unless ctx ends while the CPU
// computes: all C are incomplete then.
func Gemm(ctx context.Context, on dispatch.Host, products ...Product) error {
	all := make([]product[float32], len(products))
	for i, p := range products {
		all[i] = product[float32]{p.TransA, p.TransB, float64(p.Alpha), float64(p.Beta),
			[3]matrices.Dense[float32]{dense32(p.A), dense32(p.B), dense32(p.C)}}
	}
	defer runtime.KeepAlive(products)
	return gemm(ctx, on, all)
}

// Gemm64 is Gemm in float64, for a device that has element.F64: see dispatch.WithTypes.
func Gemm64(ctx context.Context, on dispatch.Host, products ...Product64) error {
	all := make([]product[float64], len(products))
	for i, p := range products {
		all[i] = product[float64]{p.TransA, p.TransB, p.Alpha, p.Beta,
			[3]matrices.Dense[float64]{dense64(p.A), dense64(p.B), dense64(p.C)}}
	}
	defer runtime.KeepAlive(products)
	return gemm(ctx, on, all)
}

func dense32(m blas32.General) matrices.Dense[float32] {
	return matrices.Dense[float32]{Rows: m.Rows, Cols: m.Cols, Stride: m.Stride, Data: m.Data}
}

func dense64(m blas64.General) matrices.Dense[float64] {
	return matrices.Dense[float64]{Rows: m.Rows, Cols: m.Cols, Stride: m.Stride, Data: m.Data}
}

// product is a Product or a Product64, with A, B and C in abc.
type product[T matrices.Real] struct {
	transA, transB blas.Transpose
	alpha, beta    float64
	abc            [3]matrices.Dense[T]
}

func gemm[T matrices.Real](ctx context.Context, on dispatch.Host, products []product[T]) error {
	batch := make(planner.Batch, len(products))
	var lists [3][]matrices.Dense[T]
	for n := range lists {
		lists[n] = make([]matrices.Dense[T], len(products))
	}
	for i := range products {
		p := &products[i]
		for n := range p.abc {
			if wrong := p.abc[n].Wrong(); wrong != "" {
				return invalid.Errorf("%s of product %d %s", names[n], i, wrong)
			}
			lists[n][i] = p.abc[n]
		}
		var err error
		if batch[i], err = p.problem(i); err != nil {
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

// problem returns the sizes of a product, if they fit together.
func (p *product[T]) problem(i int) (q planner.Problem, err error) {
	if q.TransA, err = transposed(i, p.transA); err != nil {
		return q, err
	}
	if q.TransB, err = transposed(i, p.transB); err != nil {
		return q, err
	}
	a, b, c := &p.abc[0], &p.abc[1], &p.abc[2]
	q.M, q.K = a.Rows, a.Cols
	if q.TransA {
		q.M, q.K = q.K, q.M
	}
	rows, cols := b.Rows, b.Cols
	if q.TransB {
		rows, cols = cols, rows
	}
	q.N, q.Alpha, q.Beta = cols, planner.Scale(p.alpha), p.beta
	if q.K != rows || q.M != c.Rows || q.N != c.Cols {
		return q, invalid.Errorf("product %d: op(A) is %d x %d, op(B) %d x %d, C %d x %d", i, q.M, q.K,
			rows, q.N, c.Rows, c.Cols)
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

// Multiply returns the products a[i]*b[i], computed in float32. It rounds each number of a and b to the
// nearest float32 (numbers beyond its range to infinity), sums in float32, and returns the sums as float64.
// Relative errors are those of fp32, about 1e-7, not those of mat.Dense.Mul.
func Multiply(ctx context.Context, on dispatch.Host, a, b []mat.Matrix) ([]*mat.Dense, error) {
	return multiply[float32](ctx, on, a, b)
}

// Multiply64 is Multiply in float64, as mat.Dense.Mul computes, for a device that has element.F64: see
// dispatch.WithTypes.
func Multiply64(ctx context.Context, on dispatch.Host, a, b []mat.Matrix) ([]*mat.Dense, error) {
	return multiply[float64](ctx, on, a, b)
}

func multiply[T matrices.Real](ctx context.Context, on dispatch.Host, a, b []mat.Matrix) ([]*mat.Dense,
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
