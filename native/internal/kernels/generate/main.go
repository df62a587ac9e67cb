// Command generate writes the lists of tiles, tiles.inc and tiles_hip.inc, the words of
// items and of what makes them, items.cuh, epilogue_items.cuh and bounds.cuh, and what kernels take, resources.go, to the working directory, or
// another one. It is for go generate ./native, after a change of the tile table or of
// planner/encoding and after a build of the products.
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/batchgemm/batchgemm/native/internal/kernels"
	"github.com/batchgemm/batchgemm/planner/tile"
)

func main() {
	dir := "."
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	resources, err := table()
	if err != nil {
		log.Fatal(err)
	}
	for name, text := range map[string]string{
		"tiles.inc": kernels.CUDA(tile.Table()), "tiles_hip.inc": kernels.HIP(tile.Table()), "resources.go": resources,
		"items.cuh": kernels.Items(), "bounds.cuh": kernels.Bounds(), "epilogue_items.cuh": kernels.EpilogueItems(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
