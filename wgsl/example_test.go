package wgsl_test

import (
	"fmt"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/wgsl"
)

func ExampleRender() {
	tile, err := tile.ByName("large-8x4")
	if err != nil {
		panic(err)
	}
	s, err := wgsl.Render(encoding.Kernel{Tile: tile}, wgsl.Limits{Threads: 256, SharedBytes: 16384,
		Subgroup: 32})
	if err != nil {
		panic(err)
	}
	fmt.Println(s.Threads, "threads,", s.SharedBytes, "bytes of workgroup memory")
	// Output: 128 threads, 8448 bytes of workgroup memory
}
