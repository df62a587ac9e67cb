// Package kernels lists the kernels of package native (list.go). It has their parameters beyond the tile
// table, and writes the lists from which they are compiled and the words of items that they read.
package kernels

import (
	"strings"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

const (
	// unitRegisters is the number of 32-bit registers of a compute unit (SM).
	unitRegisters = 65536
	// unitShared is its shared memory on 9.0 in bytes. The system takes reservedShared for each thread
	// group.
	unitShared, reservedShared = 228 << 10, 1 << 10
)

// wgmmaTile has the parameters of kernels of wgmma.cuh beyond the tile table: warpgroups that multiply (one
// more converts and one loads), thread groups that must fit in a compute unit, stages of B, and how many
// steps copies are ahead.
type wgmmaTile struct{ consumers, groups, stages, ahead int }

// wgmmaOf fills the shared memory with two thread groups, or with one.
func wgmmaOf(t *tile.Shape) wgmmaTile {
	w := wgmmaTile{consumers: t.Threads/128 - 2, groups: unitShared / (t.Shared + reservedShared), stages: 2,
		ahead: 2}
	switch {
	// two blocks of columns, or of rows if operands are swapped
	case w.groups > 1 || min(t.TM, t.TN) > 64:
	case w.consumers == 2:
		w.stages, w.ahead = 3, 3
	default:
		w.stages, w.ahead = 4, 4
	}
	return w
}

// alignedOf does the same for wgmma_aligned.cuh, where one warpgroup loads: as many stages of A and B as
// there is room for. 128 x 256 with four stages took 10 % longer on an H200 (512/1024/256), and as long for
// experts with 256 rows each.
func alignedOf(t *tile.Shape) wgmmaTile {
	const stageBytes = 128 // for a row of A or a column of B
	return wgmmaTile{consumers: t.Threads/128 - 1, groups: unitShared / (t.Shared + reservedShared),
		stages: t.Shared / (stageBytes * (t.TM + t.TN))}
}

// panelTile has the parameters of kernels of wgmma_int4.cuh beyond the tile table: warps that multiply,
// warps that load, thread groups that must fit in a compute unit, stages.
type panelTile struct {
	tile, function                 string // templates of wgmma_int4.cuh
	multiply, load, groups, stages int
}

// panelsOf returns as many stages as there is room for after `rest`: sums on their way to C, items and
// barriers.
func panelsOf(t *tile.Shape) panelTile {
	const rest = 12 << 10
	p := panelTile{tile: "PanelTile", function: "panelGemm", multiply: t.TN / 16,
		groups: unitShared / (t.Shared + reservedShared)}
	stage := Int4Stage(t) - linePad*t.TM // swizzled rows of A follow each other
	if t.TM < 32 {                       // see StreamTile
		p.tile, p.function, stage = "StreamTile", "streamGemm", Int4Stage(t)
	}
	p.load = t.Threads/32 - p.multiply
	p.stages = (t.Shared - rest) / stage
	return p
}

// Tensor has the parameters of kernels of tensor.cuh beyond the tile table: teams of warps that share K,
// stages of shared memory, thread groups whose registers must fit in a compute unit.
type Tensor struct{ Teams, Stages, Groups int }

// TensorStep is the depth of a step of a team, in words.
const TensorStep = 32

// TensorOf chooses them. Each warp computes 32 x 32, or all rows of a smaller tile. Measured on an H200:
// with four teams, two stages leave room for two groups, or three for small tiles; one team needs three
// stages.
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

// Int4Of does the same for int4.cuh, without teams. With 3 or 6 stages for few rows, more groups or twice
// the threads, experts took longer (H200).
func Int4Of(t *tile.Shape) Tensor {
	switch {
	case t.TM < 32:
		return Tensor{Stages: 4, Groups: 4}
	case t.TM < 64:
		return Tensor{Stages: 4, Groups: 3}
	}
	return Tensor{Stages: 3, Groups: 2}
}

// linePad is the padding of rows of A in a stage, in bytes.
const linePad = 16

// Int4Stage returns the bytes of a stage of int4.cuh: rows of A, columns of two panels of B, and words of
// their groups.
func Int4Stage(t *tile.Shape) int {
	const panels, words = 2 * element.Int4Panel / 2, 2 * 4
	return (2*t.TK+linePad)*t.TM + (panels+words)*t.TN
}

// Double has the parameters of kernels of f64.cuh: rows and columns of the block of a warp, sets of warps
// that share the k's of a step, stages of shared memory, thread groups whose registers must fit in a compute
// unit, and whether copies go between products.
type Double struct {
	Rows, Columns, Sets, Stages, Groups int
	Blends                              bool
}

// DoubleOf chooses them. Of tiles with deep steps all of 128 k's are under way at once, and sets of warps
// share them. Others have as many groups as registers allow, and blocks as large, so that warps read less of
// shared memory. A kernel that spills many registers takes twice as long (H200). The largest tile spills a
// few. It has so few warps that copies between products gain 6 %; 32 x 64 loses as much by them.
func DoubleOf(t *tile.Shape) Double {
	switch size := t.TM * t.TN; {
	case t.TK == 64:
		groups := map[int]int{256: 4, 512: 3, 1024: 2}
		return Double{Rows: 16, Columns: min(t.TN, 32), Sets: 4, Stages: 2, Groups: groups[size]}
	case size <= 1024:
		return Double{Rows: 16, Columns: 32, Sets: 1, Stages: 2, Groups: 8}
	case size <= 2048:
		return Double{Rows: 16, Columns: 32, Sets: 1, Stages: 4, Groups: 3}
	case size <= 4096:
		return Double{Rows: 32, Columns: 32, Sets: 1, Stages: 3, Groups: 3}
	}
	return Double{Rows: 32, Columns: 64, Sets: 1, Stages: 3, Groups: 2, Blends: true}
}

// DoubleShared returns the shared memory of a kernel of f64.cuh, in bytes: its stages, with padding, or sums,
// an item, and a list of rows.
func DoubleShared(t *tile.Shape) int {
	const pad, sumPad = 4, 8
	operand := func(length int) int { return length*t.TK + pad*max(length, t.TK) }
	d := DoubleOf(t)
	stages, sums := d.Stages*(operand(t.TM)+operand(t.TN)), d.Sets*t.TM*(t.TN+sumPad)
	return 8*max(stages, sums) + 4*encoding.EpilogueItemWords + 4*t.TM
}

// bigBlock is the register block from which on a thread has enough arithmetic to cover the loads of one
// step. The number of resident groups and the other costs of a step then matter.
const bigBlock = 32

// thin reports whether a tile has one row of such threads. It is for problems of few rows, which wait for B:
// the number of bytes of B in flight matters.
func thin(t *tile.Shape) bool { return t.RM*t.RN >= bigBlock && t.TM == t.RM }

// big reports whether a tile of more rows has such threads.
func big(t *tile.Shape) bool { return t.RM*t.RN >= bigBlock && t.TM > t.RM }

// step returns the depth of one K step. It may differ from the table's, which the planner uses to split K:
// 16 k for each K group, or 8 for thin tiles unless B is transposed (docs/rows.md).
func step(t *tile.Shape) int {
	switch {
	case thin(t):
		return 8 * t.Groups()
	case big(t):
		return 16 * t.Groups()
	}
	return t.TK
}

// stages returns the number of steps in shared memory: one is multiplied while the others are loaded.
func stages(t *tile.Shape) int {
	if big(t) {
		return 2
	}
	return 3
}

// stagesKMajor returns the stages of a thin tile if B is transposed. Measured on an H200: a fourth stage
// gains 8 % with 128 columns; with 64 it costs 10 to 20 %, because less of the L1 cache is left for rows at
// odd addresses.
func stagesKMajor(t *tile.Shape) int {
	if t.TN >= 128 {
		return 4
	}
	return 3
}

// MinGroups returns the number of thread groups whose registers must fit in a compute unit, so that the
// compiler uses at most 128 registers a thread, or 80 or 64 with few accumulators.
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

// groupsOf returns how many groups fit with that many registers a thread.
func groupsOf(t *tile.Shape, registers int) int { return unitRegisters / (t.Threads * registers) }

// AMD's compute units have a third of the shared memory of NVIDIA's, so steps are as short as K groups
// allow. Copies go through registers, which takes two stages.

// hipStep returns the depth of a step: 4 k for each K group, the 16 that copies load at once, or two words
// of A for each thread, which makes pairs of 16 bits from two rows, whichever is most.
func hipStep(t *tile.Shape) int { return max(16, 4*t.Groups(), 2*t.Threads/t.TM) }

// OnHIP reports whether there are plain FMA kernels for AMD: two thread groups must fit in a compute unit.
func OnHIP(t *tile.Shape) bool {
	const pitch = 4 // words of padding of a row
	return 4*hipStages*hipStep(t)*(t.TM+t.TN+2*pitch) <= hipShared/2
}

// DoubleOnHIP reports whether there are kernels of fp64 for AMD, to which two squares are enough: each tile
// takes 5 KB of products.
func DoubleOnHIP(t *tile.Shape) bool {
	return t.Unit == tile.F64 && t.TM == t.TN && t.TK == 16 && !t.Boxes
}

// hipWaves is the number of waves of a SIMD whose registers must fit, hipShared the bytes of LDS.
const hipWaves, hipStages, hipShared = 2, 2, 64 << 10

// HasMatrix reports whether the tile suits matrix cores, whose blocks are 16 x 16 and belong to waves of 64
// lanes.
func HasMatrix(t *tile.Shape) bool { return t.TM%16 == 0 && t.TN%16 == 0 && t.Threads%64 == 0 }

// Identifier returns the tile's name in kernel names.
func Identifier(t *tile.Shape) string { return strings.ReplaceAll(t.Name, "-", "_") }
