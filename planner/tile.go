package planner

import (
	"fmt"
	"strings"
)

// Tile is a row of the tile table: the piece of C that one workgroup computes
// at a time, and the threads that compute it. Everything that depends on a tile
// (kernel text, launch sizes, limits, names) is derived from this value.
type Tile struct {
	Name       string
	TM, TN, TK int  // rows and columns of the C tile; depth of one step along K
	Threads    int  // work-items of the workgroup
	RM, RN     int  // register block: rows x columns of C that one thread accumulates
	Zhang      bool // row of Zhang et al. 2025, Table 3; the others are ours
	Unit       Unit // what multiplies

	// Rows of tensor cores have no register blocks, RM and RN. What their kernels
	// take is given, as they were built for 9.0, not estimated (a test in package
	// native compares it): registers of a thread, bytes of workgroup memory.
	Registers, Shared int
	// What a tile takes of which at most half the rows, or columns, exist, relative to a
	// whole one; 0: as much. Measured on an H200 at K of 61 and 509, where warpgroups
	// leave out what does not exist.
	HalfRows, HalfCols float64
	// Clusters: there are kernels in which the thread groups of a cluster share a
	// tile (NVIDIA 9.0).
	Clusters bool
}

// Unit is the part of a compute unit that multiplies.
type Unit string

const (
	UnitFMA   Unit = ""      // fused multiply-adds of fp32
	UnitMMA   Unit = "mma"   // tensor cores, a warp at a time (NVIDIA from 8.0 on)
	UnitWGMMA Unit = "wgmma" // tensor cores, four warps at a time (NVIDIA 9.0)
)

// TileID is an index into Tiles().
type TileID uint8

// tiles is the tile table. Rows 0-4 are Table 3 of Zhang et al. 2025, in the
// order of Algorithm 1; their register blocks spread W_CP outputs per thread.
//
// The rows with register blocks after them are ours. In them a thread holds 16 or 32 outputs, because
// loads from workgroup memory and not FMAs limit the table's rows, and the
// threads left over split each K step among K groups of the workgroup, whose
// partial sums are added at the end. Such a small tile finishes a long K early.
//
// The last rows are for tensor cores. In tensor-32x32 each warp has a part of
// every K step. In the rows of warpgroups, 128 threads for each 64 rows multiply
// and the others bring the operands.
var tiles = [...]Tile{
	{Name: "small", TM: 16, TN: 16, TK: 16, Threads: 128, RM: 1, RN: 2, Zhang: true},
	{Name: "small-medium", TM: 16, TN: 32, TK: 16, Threads: 128, RM: 1, RN: 4, Zhang: true},
	{Name: "medium", TM: 32, TN: 32, TK: 16, Threads: 128, RM: 2, RN: 4, Zhang: true},
	{Name: "medium-large", TM: 32, TN: 64, TK: 16, Threads: 256, RM: 2, RN: 4, Zhang: true},
	{Name: "large", TM: 64, TN: 64, TK: 16, Threads: 256, RM: 4, RN: 4, Zhang: true},

	{Name: "tiny-k4", TM: 8, TN: 8, TK: 16, Threads: 32, RM: 2, RN: 4},
	{Name: "small-k8", TM: 16, TN: 16, TK: 64, Threads: 128, RM: 4, RN: 4},
	{Name: "medium-k2", TM: 32, TN: 32, TK: 16, Threads: 64, RM: 8, RN: 4},
	{Name: "medium-k4", TM: 32, TN: 32, TK: 32, Threads: 128, RM: 8, RN: 4},
	{Name: "tall-8x4", TM: 64, TN: 32, TK: 16, Threads: 64, RM: 8, RN: 4},
	{Name: "large-8x4", TM: 64, TN: 64, TK: 16, Threads: 128, RM: 8, RN: 4},
	{Name: "large-8x8", TM: 64, TN: 64, TK: 16, Threads: 64, RM: 8, RN: 8},
	{Name: "large-8x8-k2", TM: 64, TN: 64, TK: 16, Threads: 128, RM: 8, RN: 8},

	{Name: "tensor-32x32", TM: 32, TN: 32, TK: 32, Threads: 128, Unit: UnitMMA, Registers: 162, Shared: 86016, Clusters: true},
	{Name: "tensor-64x64", TM: 64, TN: 64, TK: 32, Threads: 128, Unit: UnitMMA, Registers: 128, Shared: 55296},
	{Name: "wgmma-64x64", TM: 64, TN: 64, TK: 32, Threads: 384, Unit: UnitWGMMA, Registers: 80, Shared: 109504, HalfCols: 0.88},
	{Name: "wgmma-64x64-deep", TM: 64, TN: 64, TK: 32, Threads: 384, Unit: UnitWGMMA, Registers: 168, Shared: 199680, HalfCols: 0.78},
	{Name: "wgmma-128x64", TM: 128, TN: 64, TK: 32, Threads: 512, Unit: UnitWGMMA, Registers: 128, Shared: 222176, HalfRows: 0.72, HalfCols: 0.82},
	{Name: "wgmma-128x128", TM: 128, TN: 128, TK: 32, Threads: 512, Unit: UnitWGMMA, Registers: 128, Shared: 218048, HalfRows: 0.74, HalfCols: 0.72},
}

// NumTiles is the length of the tile table. Rows for tensor cores come after the
// first NumFMATiles, which every device can have.
const (
	NumTiles    = len(tiles)
	NumFMATiles = 13
)

// Tiles returns a copy of the tile table. A TileID is an index into it.
func Tiles() []Tile { return append([]Tile(nil), tiles[:]...) }

// Tile returns the row with this index.
func (id TileID) Tile() Tile { return tiles[id] }

// TileByName finds a row of the tile table.
func TileByName(name string) (TileID, error) {
	for i := range tiles {
		if tiles[i].Name == name {
			return TileID(i), nil
		}
	}
	known := make([]string, len(tiles))
	for i := range tiles {
		known[i] = tiles[i].Name
	}
	return 0, fmt.Errorf("unknown tile %q (known: %s)", name, strings.Join(known, ", "))
}

// Groups is the number of K groups: sets of threads that each accumulate the
// whole C tile over their own part of every K step.
func (t Tile) Groups() int { return max(t.Threads*t.RM*t.RN/(t.TM*t.TN), 1) }

// SharedBytes is the workgroup memory that the tiles of A and B need once,
// without padding and without a second buffer.
func (t Tile) SharedBytes() int { return 4 * t.TK * (t.TM + t.TN) }

// shared is the least workgroup memory that a kernel of the tile can do with.
func (t *Tile) shared() int {
	if t.Unit != UnitFMA {
		return t.Shared
	}
	return t.SharedBytes()
}

// WCP is the computation of one thread in elements of C (Zhang et al., Eq 1).
func (t Tile) WCP() float64 { return float64(t.TM*t.TN) / float64(t.Threads) }

// WDL is the data that one thread loads in elements (Zhang et al., Eq 2). As in
// their Table 3 the tile of C counts with those of A and B.
func (t Tile) WDL() float64 {
	return float64(t.TM*t.TN+t.TM*t.TK+t.TK*t.TN) / float64(t.Threads)
}

// Shape is TM x TN x TK / threads.
func (t Tile) Shape() string { return fmt.Sprintf("%dx%dx%d/%d", t.TM, t.TN, t.TK, t.Threads) }

func (t Tile) String() string { return t.Name + " " + t.Shape() }
