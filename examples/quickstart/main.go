// Quickstart multiplies three matrices of different sizes in one call, on the
// best device that this machine has.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/planner"
)

func main() {
	ctx := context.Background()
	dev, err := dispatch.Open(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()

	// C = A*B for 2x3x4, 100x50x30 and 1x7x64 (M x N x K), packed one after the other.
	batch, err := planner.Pack(planner.GEMM(2, 3, 4), planner.GEMM(100, 50, 30), planner.GEMM(1, 7, 64))
	if err != nil {
		log.Fatal(err)
	}
	lenA, lenB, lenC := batch.Extent()
	a, b, c := ones(lenA), ones(lenB), make([]float32, lenC)
	if err := dev.GEMM(ctx, batch, planner.Options{}, a, b, c); err != nil {
		log.Fatal(err)
	}
	for i, p := range batch {
		fmt.Printf("problem %d: C[0,0] = %g\n", i, c[p.C.Offset])
	}
}

func ones(n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = 1
	}
	return s
}
