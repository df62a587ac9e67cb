package planner_test

import (
	"fmt"
	"log"

	"github.com/batchgemm/batchgemm/planner"
)

// A plan for an AMD MI210, made on a machine without one, by the tiling
// algorithm of Zhang et al. 2025.
func Example() {
	device, err := planner.LookupDevice("mi210")
	if err != nil {
		log.Fatal(err)
	}
	batch, err := planner.Pack(planner.GEMM(784, 96, 192), planner.GEMM(49, 384, 192))
	if err != nil {
		log.Fatal(err)
	}
	plan, err := planner.New(device, batch, planner.Options{Rule: planner.RuleZhang2025, Threshold: 20000})
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
