package gonumgemm_test

import (
	"context"
	"fmt"
	"log"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/mat"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/gonumgemm"
)

// C = A*B and D = A*B with other sizes, in one call.
func ExampleGemm() {
	ctx := context.Background()
	device, err := dispatch.Open(ctx, dispatch.WithBackend("cpu")) // without the option: the best device
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	matrix := func(rows, cols int, data ...float32) blas32.General {
		return blas32.General{Rows: rows, Cols: cols, Stride: cols, Data: data}
	}
	c, d := matrix(1, 1, 0), matrix(2, 2, 0, 0, 0, 0)
	err = gonumgemm.Gemm(ctx, device,
		gonumgemm.Product[blas32.General]{Alpha: 1, A: matrix(1, 2, 3, 4), B: matrix(2, 1, 5, 6), C: c},
		gonumgemm.Product[blas32.General]{Alpha: 2, A: matrix(2, 1, 1, 2), B: matrix(1, 2, 1, 10), C: d})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(c.Data, d.Data)
	// Output: [39] [2 20 4 40]
}

// Matrices of float64, multiplied in float32.
func ExampleMultiply() {
	ctx := context.Background()
	device, err := dispatch.Open(ctx, dispatch.WithBackend("cpu"))
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	a := []mat.Matrix{mat.NewDense(1, 2, []float64{1, 2}), mat.NewDense(1, 1, []float64{10})}
	b := []mat.Matrix{mat.NewDense(2, 1, []float64{3, 4}), mat.NewDense(1, 2, []float64{5, 6})}
	c, err := gonumgemm.Multiply[float32](ctx, device, a, b)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(mat.Formatted(c[0]), mat.Formatted(c[1]))
	// Output: [11] [50  60]
}
