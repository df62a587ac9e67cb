// Package kernels lists the kernels of package native (list.go), has what they have beside the tile table,
// and writes the lists from which they are compiled and the words of items that they read.
package kernels

import (
	"strings"

	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

const (
	// unitRegisters is the register file of a compute unit (SM) in 32-bit registers.
	unitRegisters = 65536
	// unitShared is its shared memory on 9.0 in bytes, of which the system takes
	// reservedShared for each thread group.
	unitShared, reservedShared = 228 << 10, 1 << 10
)

// wgmmaTile is what kernels of wgmma.cuh have beside the tile table: warpgroups
// that multiply (one more splits and one loads), thread groups that must fit in a
// compute unit, stages of B and steps that copies are ahead.
type wgmmaTile struct{ consumers, groups, stages, ahead int }

// wgmmaOf fills the shared memory: of two thread groups, or of one.
func wgmmaOf(t *tile.Shape) wgmmaTile {
	w := wgmmaTile{consumers: t.Threads/128 - 2, groups: unitShared / (t.Shared + reservedShared), stages: 2,
		ahead: 2}
	switch {
	// two blocks of columns, which are rows where operands are swapped
	case w.groups > 1 || min(t.TM, t.TN) > 64:
	case w.consumers == 2:
		w.stages, w.ahead = 3, 3
	default:
		w.stages, w.ahead = 4, 4
	}
	return w
}

// alignedOf is the same of wgmma_aligned.cuh, where one warpgroup loads: stages of A and B, as many as there
// is room for. 128 x 256 with four took 10 % longer on an H200 (512/1024/256), and as long where experts have
// 256 rows each.
func alignedOf(t *tile.Shape) wgmmaTile {
	const stageBytes = 128 // of a row of A or a column of B
	return wgmmaTile{consumers: t.Threads/128 - 1, groups: unitShared / (t.Shared + reservedShared),
		stages: t.Shared / (stageBytes * (t.TM + t.TN))}
}

// panelTile is what kernels of wgmma_int4.cuh have beside the tile table: warps that multiply, and load,
// thread groups that must fit in a compute unit, stages.
type panelTile struct {
	tile, function                 string // templates of wgmma_int4.cuh
	multiply, load, groups, stages int
}

// panelsOf gives as many stages as there is room for after `rest`: sums on their way to C, items and
// barriers.
func panelsOf(t *tile.Shape) panelTile {
	const rest = 12 << 10
	p := panelTile{tile: "PanelTile", function: "panelGemm", multiply: t.TN / 16,
		groups: unitShared / (t.Shared + reservedShared)}
	stage := Int4Stage(t) - linePad*t.TM // swizzled rows of A follow each other
	if t.TM < 32 {                       // see StreamTile
		p.tile, p.function, p.multiply, stage = "StreamTile", "streamGemm", t.TN/32, Int4Stage(t)
	}
	p.load = t.Threads/32 - p.multiply
	p.stages = (t.Shared - rest) / stage
	return p
}

// Tensor is what kernels of tensor.cuh have beside the tile table: teams of
// warps that share K, stages of shared memory, thread groups whose registers must
// fit in a compute unit.
type Tensor struct{ Teams, Stages, Groups int }

// TensorStep is the depth of a step of a team, in words.
const TensorStep = 32

// TensorOf chooses them. Each warp computes 32 x 32, or all rows of a tile that has less. Measured
// on an H200: with four teams two stages let two groups reside, of small tiles three do; one
// team wants three stages.
func TensorOf(t *tile.Shape) Tensor {
	teams := t.Threads / (32 * max(t.TM/32, 1) * (t.TN / 32))
	switch {
	case teams == 1:
		return Tensor{Teams: 1, Stages: 3, Groups: 4}
	case t.TM < 32:
		return Tensor{Teams: teams, Stages: 3, Groups: 2}
	}
	return Tensor{Teams: teams, Stages: 2, Groups: 2}
}

// Int4Of is the same of int4.cuh, without teams. With 3 or 6 stages of few rows, more groups or twice the
// threads, experts took longer (H200).
func Int4Of(t *tile.Shape) Tensor {
	switch {
	case t.TM < 32:
		return Tensor{Stages: 4, Groups: 4}
	case t.TM < 64:
		return Tensor{Stages: 4, Groups: 3}
	}
	return Tensor{Stages: 3, Groups: 2}
}

// linePad are the bytes by which rows of A are further apart in a stage than they are long.
const linePad = 16

// Int4Stage is the bytes of a stage of int4.cuh: rows of A, columns of two panels of B, and words of their
// groups.
func Int4Stage(t *tile.Shape) int {
	const panels, words = 2 * element.Int4Panel / 2, 2 * 4
	return (2*t.TK+linePad)*t.TM + (panels+words)*t.TN
}

// bigBlock is the register block from which on a thread has enough arithmetic
// to cover the loads of one step, so that what counts is how many groups are
// resident and how much else a step costs.
const bigBlock = 32

// thin reports whether a tile has one row of such threads. It is for problems of few rows,
// which wait for B: what counts is how much of it is under way.
func thin(t *tile.Shape) bool { return t.RM*t.RN >= bigBlock && t.TM == t.RM }

// big reports whether a tile of more rows has such threads.
func big(t *tile.Shape) bool { return t.RM*t.RN >= bigBlock && t.TM > t.RM }

// step is the depth of one step along K. Kernels may take another than the
// table's, which the planner uses to cut K: 16 k's for each K group, of thin tiles 8, but where B is
// transposed (docs/rows.md).
func step(t *tile.Shape) int {
	switch {
	case thin(t):
		return 8 * t.Groups()
	case big(t):
		return 16 * t.Groups()
	}
	return t.TK
}

// stages is the number of steps in shared memory: one is multiplied while the
// others are on their way.
func stages(t *tile.Shape) int {
	if big(t) {
		return 2
	}
	return 3
}

// stagesKMajor is those of a thin tile where B is transposed. Measured on an H200: a fourth stage gains 8 %
// with 128 columns; with 64 it costs 10 to 20 %, because less is left of the L1 cache for rows at odd
// addresses.
func stagesKMajor(t *tile.Shape) int {
	if t.TN >= 128 {
		return 4
	}
	return 3
}

// MinGroups is the number of thread groups whose registers must fit in a
// compute unit, so that the compiler takes no more than 128 a thread, or 80 or 64
// where there are few accumulators.
func MinGroups(t *tile.Shape) int {
	registers := 64
	switch {
	case t.RM*t.RN >= bigBlock:
		registers = 128
	case t.RM*t.RN >= 16:
		registers = 80
	}
	return groupsOf(t, registers)
}

// groupsOf is how many have room with so many registers a thread.
func groupsOf(t *tile.Shape, registers int) int { return unitRegisters / (t.Threads * registers) }

// AMD's compute units have a third of the shared memory of NVIDIA's, so that steps are as short as K groups
// allow. Copies land from registers, which takes two stages.

// hipStep is the depth of a step: 4 k's for each K group, and the 16 that copies bring at once, but two words
// of A for each thread, which makes pairs of 16 bits of two rows.
func hipStep(t *tile.Shape) int { return max(16, 4*t.Groups(), 2*t.Threads/t.TM) }

// OnHIP reports whether there are kernels of plain FMA for AMD: two thread groups must fit in a compute unit.
func OnHIP(t *tile.Shape) bool {
	const pitch = 4 // words that rows may be longer by
	return 4*hipStages*hipStep(t)*(t.TM+t.TN+2*pitch) <= hipShared/2
}

// hipWaves is the number of waves of a SIMD whose registers must fit, hipShared the bytes of LDS.
const hipWaves, hipStages, hipShared = 2, 2, 64 << 10

// HasMatrix reports whether the tile suits matrix cores, whose blocks are 16 x 16
// and belong to waves of 64 lanes.
func HasMatrix(t *tile.Shape) bool { return t.TM%16 == 0 && t.TN%16 == 0 && t.Threads%64 == 0 }

// Identifier is the tile's name in kernel names.
func Identifier(t *tile.Shape) string { return strings.ReplaceAll(t.Name, "-", "_") }
