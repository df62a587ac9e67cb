package planner_test

import (
	"context"
	"fmt"
	"log"

	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/devices"
)

// A plan for an AMD MI210, made on a machine without one, by the tiling
// algorithm of Zhang et al. 2025.
func Example() {
	device, err := devices.Lookup("mi210")
	if err != nil {
		log.Fatal(err)
	}
	batch, err := planner.Pack(planner.GEMM(784, 96, 192), planner.GEMM(49, 384, 192))
	if err != nil {
		log.Fatal(err)
	}
	plan, err := planner.New(device).Plan(context.Background(), batch,
		planner.Options{Rule: planner.RuleZhang2025, Threshold: 20000})
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range plan.Explain().Problems {
		fmt.Printf("%dx%dx%d: %d tiles %s\n", p.M, p.N, p.K, p.Tiles, p.Tile)
	}
	fmt.Printf("%.0f threads at once\n", plan.TLP)
	// Output:
	// 784x96x192: 147 tiles small-medium
	// 49x384x192: 12 tiles medium-large
	// 21888 threads at once
}

// One worker has the tiles that read the same columns of B, one after the other, so that these columns stay
// in its cache.
func ExampleCustomSchedule() {
	byColumns := &planner.CustomSchedule{Name: "by-columns",
		Deal: func(w planner.Work) (workers [][]planner.Part) {
			type columns struct{ problem, col int }
			owner := map[columns]int{}
			for _, t := range w.Tiles {
				of := columns{t.Problem, t.Col}
				if _, ok := owner[of]; !ok {
					owner[of] = len(workers)
					workers = append(workers, nil)
				}
				workers[owner[of]] = append(workers[owner[of]], planner.Part{Tile: t.Index, To: t.Steps})
			}
			return workers
		}}
	device, err := devices.Lookup("mi210")
	if err != nil {
		log.Fatal(err)
	}
	batch, err := planner.Pack(planner.GEMM(48, 32, 64), planner.GEMM(32, 16, 100))
	if err != nil {
		log.Fatal(err)
	}
	// tiles of 16 x 16
	plan, err := planner.New(device).Plan(context.Background(), batch,
		planner.Options{Tile: "small", Custom: byColumns})
	if err != nil {
		log.Fatal(err)
	}
	for worker, end := range plan.Workers[1:] {
		fmt.Printf("worker %d:", worker)
		for _, s := range plan.Segments[plan.Workers[worker]:end] {
			fmt.Printf(" problem %d row %d column %d;", s.Problem, s.Row, s.Col)
		}
		fmt.Println()
	}
	// Output:
	// worker 0: problem 1 row 0 column 0; problem 1 row 1 column 0;
	// worker 1: problem 0 row 0 column 0; problem 0 row 1 column 0; problem 0 row 2 column 0;
	// worker 2: problem 0 row 0 column 1; problem 0 row 1 column 1; problem 0 row 2 column 1;
}

// Column-major matrices, as in Fortran and most BLAS: C = A*B of 2 x 3 and 3 x 1. B is the first buffer of
// the run, A the second.
func ExampleColumnMajor() {
	p := planner.ColumnMajor(planner.Problem{
		M: 2, N: 1, K: 3,
		A: planner.Matrix{LD: 2}, B: planner.Matrix{LD: 3}, C: planner.Matrix{LD: 2},
	})
	fmt.Printf("%d x %d x %d, A %+v, B %+v\n", p.M, p.N, p.K, p.A, p.B)
	fmt.Println(planner.Batch{p}.Check(context.Background(), planner.Epilogue{}, planner.Lengths{A: 3, B: 6,
		C: 2}))
	// Output:
	// 1 x 2 x 3, A {Offset:0 LD:3}, B {Offset:0 LD:2}
	// <nil>
}
