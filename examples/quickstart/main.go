// Quickstart multiplies two lists of matrices of different sizes in one call, on the best device of this
// machine.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/batchgemm/batchgemm/dispatch"
)

func main() {
	ctx := context.Background()
	dev, err := dispatch.Open(ctx) // the best device of this machine
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()

	a := []dispatch.Dense[float32]{{Rows: 2, Cols: 2, Data: []float32{1, 2, 3, 4}},
		{Rows: 1, Cols: 1, Data: []float32{6}}}
	b := []dispatch.Dense[float32]{{Rows: 2, Cols: 1, Data: []float32{1, 1}},
		{Rows: 1, Cols: 3, Data: []float32{7, 8, 9}}}
	c, err := dispatch.Multiply(ctx, dev, a, b) // any number of products, with their own sizes
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(c[0].Data, c[1].Data) // [3 7] [42 48 54]
}
