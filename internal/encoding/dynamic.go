package encoding

// The table of a launch with Kernel.Dynamic, whose workers take chunks of items when they can do more. A
// chunk is DynamicChunk items, those below DynamicEnd, that follow each other. Each worker begins with the
// chunk of its number. Then it increments a counter at DynamicNext. Result n is the chunk whose first item is
// DynamicFirst + n*DynamicChunk; the chunks that workers begin with lie before DynamicFirst. A worker ends
// when its chunk has no item.
//
// In a run each chunk that has items makes its worker count once, so that as many are counted as there are
// chunks. The counter wraps to 0 after DynamicLast, the last of these, and the next run finds what this one
// found. Tables that a run makes begin with 0 anyway. A run that did not end leaves a device that nobody can
// use.
//
// With gated units items are tiles, whose two items follow each other. Kernels of tiles that are not for
// warpgroups have one tile in a chunk.
const (
	DynamicNext  = iota // the chunk that nobody has taken; 0 before and after each run
	DynamicEnd          // the item after the last
	DynamicFirst        // the first item of the chunk that is taken first
	DynamicChunk
	DynamicLast
	DynamicWords = iota
)

// DynamicMark is added to the address of a dynamic table, by which native kernels tell it from others: see
// Kernel.TableMark.
const DynamicMark = 1

// EarlyMark is added to the address of a table of a launch with PDL (Plan.Early), also where that has none.
const EarlyMark = 2

// TableMark is what is added to the address of a kernel's table.
func (k Kernel) TableMark() int {
	if k.Dynamic {
		return DynamicMark
	}
	return 0
}
