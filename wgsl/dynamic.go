package wgsl

import (
	"fmt"

	"github.com/batchgemm/batchgemm/internal/encoding"
)

// takenBytes is the workgroup memory of the word for the next tile (WebGPU counts in 16 bytes).
const takenBytes = 16

// noTile is the number that stands for no tile.
const noTile = "0xffffffffu"

// bindTable declares the table of a launch with several items for each worker. That of dynamic tiles has a
// counter, so all of its words are atomics.
func (r *renderer) bindTable() {
	switch {
	case r.kernel.Dynamic:
		r.bindWritten(encoding.BindTable, "table", "atomic<u32>")
		r.line("var<workgroup> taken: u32;")
	case r.kernel.Loop:
		r.bind(encoding.BindTable, "table", "u32")
	}
}

// loop writes the work on all items of a worker.
func (r *renderer) loop() {
	r.line("let end = table[worker.x + 1u];")
	r.block("for (var item = table[worker.x]; item < end; item = item + 1u)", func() {
		r.item()
		r.line("workgroupBarrier();") // the next item overwrites workgroup memory
	})
}

// dynamic writes the work on dynamic tiles (encoding.DynamicNext). The first thread increments the counter
// before the work on a tile and reads the result after it, when it has arrived. The thread that counts last
// in a run resets the counter. All threads get the next tile by workgroupUniformLoad, which waits for them,
// so they meet at barriers as usual.
func (r *renderer) dynamic() {
	r.block(fmt.Sprintf("for (var tile = worker.x; tile != %s;)", noTile), func() {
		r.line("var counted = 0u;")
		r.block("if (t == 0u)", func() {
			r.line("counted = atomicAdd(&table[%du], 1u);", encoding.DynamicNext)
		})
		r.products()
		r.block("if (t == 0u)", func() {
			r.block(fmt.Sprintf("if (counted == atomicLoad(&table[%du]))", encoding.DynamicLast), func() {
				r.line("atomicStore(&table[%du], 0u);", encoding.DynamicNext)
			})
			r.line("let next = atomicLoad(&table[%du]) + counted;", encoding.DynamicFirst)
			r.line("taken = select(%s, next, next < atomicLoad(&table[%du]));", noTile, encoding.DynamicEnd)
		})
		r.line("tile = workgroupUniformLoad(&taken);")
	})
}

// products writes the work on the items of a tile.
func (r *renderer) products() {
	n := r.kernel.Epilogue.Products()
	if n == 1 {
		r.line("let item = tile;")
		r.item()
		return
	}
	r.block(fmt.Sprintf("for (var item = %du * tile; item < %du * tile + %du; item = item + 1u)", n, n, n),
		func() {
			r.item()
			r.line("workgroupBarrier();") // the next item overwrites workgroup memory
		})
}
