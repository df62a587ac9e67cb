package native

import (
	"fmt"
	"strings"

	"github.com/batchgemm/batchgemm/planner"
)

// unitRegisters is the register file of a compute unit (SM) in 32-bit registers.
const unitRegisters = 65536

// tileList is the text of tiles.inc, the list of tiles for which kernels.cu
// makes kernels: the tile table and what was measured to be best beside it. After
// a change of the table, write it with go test ./native -update.
func tileList() string {
	var b strings.Builder
	b.WriteString("// Generated from the tile table: name, TM, TN, step along K, threads, RM, RN, stages, groups per unit\n")
	for _, t := range planner.Tiles() {
		fmt.Fprintf(&b, "BG_TILE(%s, %d, %d, %d, %d, %d, %d, %d, %d)\n",
			identifier(t), t.TM, t.TN, step(t), t.Threads, t.RM, t.RN, stages(t), minGroups(t))
	}
	return b.String()
}

// bigBlock is the register block from which on a thread has enough arithmetic
// to cover the loads of one step, so that what counts is how many groups are
// resident and how much else a step costs.
const bigBlock = 32

// step is the depth of one step along K. Kernels may take another than the
// table's, which the planner uses to cut K: 16 k's for each K group.
func step(t planner.Tile) int {
	if t.RM*t.RN >= bigBlock {
		return 16 * t.Groups()
	}
	return t.TK
}

// stages is the number of steps in shared memory: one is multiplied while the
// others are on their way.
func stages(t planner.Tile) int {
	if t.RM*t.RN >= bigBlock {
		return 2
	}
	return 3
}

// minGroups is the number of thread groups whose registers must fit in a
// compute unit, so that the compiler takes no more than 128 a thread, or 80 or 64
// where there are few accumulators.
func minGroups(t planner.Tile) int {
	registers := 64
	switch block := t.RM * t.RN; {
	case block >= bigBlock:
		registers = 128
	case block >= 16:
		registers = 80
	}
	return unitRegisters / (t.Threads * registers)
}

// identifier is the tile's name in kernel names.
func identifier(t planner.Tile) string { return strings.ReplaceAll(t.Name, "-", "_") }
