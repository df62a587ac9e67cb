// Package gonumgemm multiplies gonum matrices in batches: many products of any sizes in one call, on a GPU
// if there is one. Only programs that import this package depend on gonum.
package gonumgemm

import (
	"context"
	"runtime"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
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

// Gemm computes the products in one batch, like dispatch.GEMM. The CPU uses the matrices in place. So does a
// GPU if all A are views of one array, with any strides; likewise all B, and all C. Others are copied once
// more on the host. The matrices C must not overlap. On an error no C changes, unless ctx ends while the CPU
// computes: all C are incomplete then.
func Gemm(ctx context.Context, on dispatch.Host, products ...Product) error {
	batch := make(planner.Batch, len(products))
	var lists [3][]matrices.Dense
	for n := range lists {
		lists[n] = make([]matrices.Dense, len(products))
	}
	for i := range products {
		p := &products[i]
		for n, m := range [...]*blas32.General{&p.A, &p.B, &p.C} {
			dense := &lists[n][i]
			*dense = matrices.Dense{Rows: m.Rows, Cols: m.Cols, Stride: m.Stride, Data: m.Data}
			if wrong := dense.Wrong(); wrong != "" {
				return invalid.Errorf("%s of product %d %s", names[n], i, wrong)
			}
		}
		var err error
		if batch[i], err = p.problem(i); err != nil {
			return err
		}
	}
	defer runtime.KeepAlive(products)
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
	x := dispatch.Slices[float32, float32]{A: a.Data, B: b.Data, C: c.Data}
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
func (p *Product) problem(i int) (q planner.Problem, err error) {
	if q.TransA, err = transposed(i, p.TransA); err != nil {
		return q, err
	}
	if q.TransB, err = transposed(i, p.TransB); err != nil {
		return q, err
	}
	q.M, q.K = p.A.Rows, p.A.Cols
	if q.TransA {
		q.M, q.K = q.K, q.M
	}
	rows, cols := p.B.Rows, p.B.Cols
	if q.TransB {
		rows, cols = cols, rows
	}
	q.N, q.Alpha, q.Beta = cols, planner.Scale(float64(p.Alpha)), float64(p.Beta)
	if q.K != rows || q.M != p.C.Rows || q.N != p.C.Cols {
		return q, invalid.Errorf("product %d: op(A) is %d x %d, op(B) %d x %d, C %d x %d", i, q.M, q.K,
			rows, q.N, p.C.Rows, p.C.Cols)
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
	products, err := dispatch.Multiply(ctx, on, rounded(a), rounded(b))
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

// rounded returns the matrices as float32, one after the other.
func rounded(list []mat.Matrix) []dispatch.Dense {
	all := make([]dispatch.Dense, len(list))
	size := 0
	for i, m := range list {
		all[i].Rows, all[i].Cols = m.Dims()
		size += all[i].Rows * all[i].Cols
	}
	data := make([]float32, 0, size)
	for i, m := range list {
		first := len(data)
		for row := range all[i].Rows {
			for col := range all[i].Cols {
				data = append(data, float32(m.At(row, col)))
			}
		}
		all[i].Data = data[first:]
	}
	return all
}
