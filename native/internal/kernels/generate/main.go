// Command generate writes to the working directory, or another one, the lists of kernels (lists/), the words
// of items and of what makes them (kernels/items.cuh), those that gates read (kernels/gates.cuh), and the
// resources of kernels (resources.go). go generate ./native runs it. Run it after a change of the tile table,
// of the list of kernels or of internal/encoding, and after a build of the products.
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/native/internal/kernels"
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
	files := map[string]string{
		"resources.go": resources, "kernels/items.cuh": kernels.Items(), "kernels/gates.cuh": kernels.Gates(),
	}
	for name, text := range kernels.Lists(tile.Table()) {
		files[filepath.Join("lists", name)] = text
	}
	for name, text := range files {
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
