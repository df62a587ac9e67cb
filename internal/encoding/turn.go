package encoding

// The table of a launch with Kernel.InTurn, whose workers take items when they can do more. A turn is TurnItems
// items, those below TurnEnd, one behind the other. Each worker begins with the turn of its number, and goes on
// with the one that it is given when it counts at TurnNext: number n is the one whose first item is
// TurnFirst + n*TurnItems, where those that workers begin with lie before TurnFirst. Who gets one that has no item ends.
//
// In a run each turn that has items makes its worker count once, so that as many are counted as there are turns.
// Counting wraps to 0 behind TurnLast, the last of these, and the next run finds what this one found. Tables that a
// run makes begin with 0 anyway. A run that did not end leaves a device that nobody can use.
//
// With gated units items are tiles, whose two items follow each other. Kernels of tiles that are not for warpgroups have one
// tile in a turn.
const (
	TurnNext  = iota // the turn that nobody has taken; 0 before and after each run
	TurnEnd          // the item behind the last
	TurnFirst        // the first item of the turn that is taken first
	TurnItems
	TurnLast
	TurnWords = iota
)

// TurnMark is added to the address of a table in turn, by which native kernels tell it from others: see Kernel.TableMark.
const TurnMark = 1

// EarlyMark is added to the address of a table of an early launch (Plan.Early), also where that has none.
const EarlyMark = 2

// TableMark is what is added to the address of a kernel's table.
func (k Kernel) TableMark() int {
	if k.InTurn {
		return TurnMark
	}
	return 0
}
