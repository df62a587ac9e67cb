// Command generate writes the lists of tiles, tiles.inc and tiles_hip.inc, to the
// working directory. It is for go generate ./native, after a change of the tile table.
package main

import (
	"log"
	"os"

	"github.com/batchgemm/batchgemm/native/internal/tiles"
)

func main() {
	for name, text := range map[string]string{"tiles.inc": tiles.CUDA(), "tiles_hip.inc": tiles.HIP()} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
