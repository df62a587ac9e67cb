package encoding

// The table of a launch with Kernel.Dynamic. Its workers take chunks of items when they are ready for more.
// A chunk is DynamicChunk consecutive items below DynamicEnd. Each worker starts with the chunk of its
// number. Then it increments a counter at DynamicNext. Result n is the chunk whose first item is
// DynamicFirst + n*DynamicChunk; the first chunks of the workers lie before DynamicFirst. A worker ends when
// its chunk has no items.
//
// In a run, every chunk with items makes its worker count once, so the counter reaches the number of chunks.
// It wraps to 0 after DynamicLast, the last count, so the next run finds the table unchanged. Tables that a
// run writes start with 0 anyway. If a run does not end, the device is unusable, so the table does not
// matter.
//
// With gated units, an item here is a tile, whose two items follow each other. Kernels that are not for
// warpgroups have one tile in a chunk.
const (
	DynamicNext  = iota // next chunk to take; 0 before and after each run
	DynamicEnd          // end of the items
	DynamicFirst        // first item of the first chunk to take
	DynamicChunk
	DynamicLast
	DynamicWords = iota
)

// DynamicMark is added to the address of a dynamic table. Native kernels recognise it by that: see
// Kernel.TableMark.
const DynamicMark = 1

// EarlyMark is added to the address of the table of a launch with PDL (Plan.Early), even if the launch has
// no table.
const EarlyMark = 2

// TableMark returns what is added to the address of a kernel's table.
func (k Kernel) TableMark() int {
	if k.Dynamic {
		return DynamicMark
	}
	return 0
}
