// Package tile is the tile table: the shapes in which C is computed, and how fast the
// kernels of each run. A shape is one row; all that depends on it (kernel text, launch
// sizes, limits, names) is derived from that row, except what compilers report of its
// kernels, which stands in the generated table of package native.
package tile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/batchgemm/batchgemm/internal/invalid"
)

// Shape is a row of the table: the piece of C that one workgroup computes at a time, and
// the threads that compute it. Rows are known by their address, and are not changed.
type Shape struct {
	Name       string
	TM, TN, TK int  // rows and columns of the C tile; depth of one step along K; powers of two
	Threads    int  // work-items of the workgroup
	RM, RN     int  // register block: rows x columns of C that one thread accumulates; 0 but with FMA
	Zhang      bool // row of Zhang et al. 2025, Table 3; the others are ours
	Kind            // which kernels compute it
	// Clusters: there are kernels in which the thread groups of a cluster share a
	// tile (NVIDIA 9.0).
	Clusters bool
	// Epilogues: there are native kernels with an epilogue.
	Epilogues bool
	// Shared is the bytes of workgroup memory that kernels for warpgroups are built with:
	// half of a compute unit's, or all of it.
	Shared int
	// What a tile takes of which at most half the rows, or columns, exist, relative to a whole one;
	// 0: as much. Measured on an H200 at K of 61 and 509, where warpgroups leave out what does not
	// exist; of the rows called wide, and of exchanged ones, what fits best with their rates.
	HalfRows, HalfCols float64
	Rates              Rates
}

// Rate is how fast the kernels of a shape run, as the planner's cost model has it.
type Rate struct {
	Efficiency float64 `json:"efficiency"` // of the peak fp32 rate, when the device is saturated
	Step       float64 `json:"step"`       // microseconds of one K step, alone on a compute unit
	Fixed      float64 `json:"fixed"`      // microseconds of a worker besides its steps: item, first load, store
	Worker     float64 `json:"worker"`     // microseconds of a saturated compute unit that a worker takes besides its steps
	// Stream is the bytes of A and B that come to a compute unit from device memory in a microsecond,
	// where caches have nothing: what is under way over memory's latency. 0: not measured, as much as
	// memory gives.
	Stream float64 `json:"stream,omitempty"`
	// Along is Stream where B is transposed, which rows of plain FMA wait for in part where caches
	// have B, too. 0: the same.
	Along float64 `json:"along,omitempty"`
	// Rounds is the part of data-parallel's time that LPT takes of uneven tiles which begin a second
	// round on the device, and no third. 0: not less.
	Rounds float64 `json:"rounds,omitempty"`
}

// Rates are those that came with the package, by kind of kernel.
type Rates struct {
	WGSL   Rate
	Words  float64 // that much more is WGSL's Worker with C of 16 bits
	Direct float64 // where B goes from memory to registers WGSL's steps are so many times as fast; 0: not known to be faster
	Native Rate    // CUDA, and HIP, whose kernels come from the same text: fp32, or emulating it
	TF32   Rate    // the same with one tf32 product; tensor cores only
	// Elements of 16 bits, two a word, and the same where rows begin with 16 bytes; tensor cores
	// only: planner.KernelFacts has others. Bytes are elements of 8 bits, whose rows run along K too
	// to be wide, and rows called wide have no kernels for others.
	Halves, WideHalves, Bytes, WideBytes Rate
	Int4                                 Rate // B of 4 bits
	CPU                                  Rate
}

// Table returns the rows, in the order in which the planner tries them.
func Table() []*Shape {
	all := make([]*Shape, len(table))
	for i := range table {
		all[i] = &table[i]
	}
	return all
}

// Of returns the rows of a unit.
func Of(unit Unit) []*Shape {
	return slices.DeleteFunc(Table(), func(s *Shape) bool { return s.Unit != unit })
}

// ByName finds a row of the table.
func ByName(name string) (*Shape, error) {
	known := make([]string, len(table))
	for i := range table {
		if table[i].Name == name {
			return &table[i], nil
		}
		known[i] = table[i].Name
	}
	return nil, invalid.Errorf("unknown tile %q (known: %s)", name, strings.Join(known, ", "))
}

// MaxSize bounds TM, TN and TK: planning has a table of what cuts of all sizes up to it
// give.
const MaxSize = 128

// Check names the first thing about a row that kernels or planning cannot work with. The
// rows of the table pass.
func (s *Shape) Check() error {
	for _, size := range [...]int{s.TM, s.TN, s.TK} {
		if size < 4 || size > MaxSize || size&(size-1) != 0 {
			return invalid.Errorf("tile %s: size %d is no power of two in [4, %d]", s.Name, size, MaxSize)
		}
	}
	if s.Threads < 1 || s.Threads > 1024 {
		return invalid.Errorf("tile %s: %d threads are not in [1, 1024]", s.Name, s.Threads)
	}
	if !slices.Contains(kinds[:], s.Kind) {
		return invalid.Errorf("tile %s: no kernels are of the kind %+v", s.Name, s.Kind)
	}
	if s.Unit != FMA {
		return nil
	}
	if s.RM < 1 || s.RN < 1 || s.TM%s.RM != 0 || s.TN%s.RN != 0 || s.Threads*s.RM*s.RN != s.Groups()*s.TM*s.TN || s.TK%s.Groups() != 0 {
		return invalid.Errorf("tile %s: %d threads of %d x %d do not cover it evenly", s.Name, s.Threads, s.RM, s.RN)
	}
	return nil
}

// Groups is the number of K groups: sets of threads that each accumulate the
// whole C tile over their own part of every K step.
func (s *Shape) Groups() int { return max(s.Threads*s.RM*s.RN/(s.TM*s.TN), 1) }

// KeepsGated: native kernels keep the first product of a gated tile, of elements of so many bytes, in
// registers, not in the workspace. It is what WideTile in native/wgmma_wide.cuh has room for.
func (s *Shape) KeepsGated(bytes int) bool {
	return s.AlignedOnly && (s.TN == 64 || s.TM == 128 && bytes == 2)
}

// StepBytes is the memory of the elements of A and B that one K step needs.
func (s *Shape) StepBytes() int { return 4 * s.TK * (s.TM + s.TN) }

// Size is TM x TN x TK / threads.
func (s *Shape) Size() string { return fmt.Sprintf("%dx%dx%d/%d", s.TM, s.TN, s.TK, s.Threads) }

func (s *Shape) String() string { return s.Name + " " + s.Size() }
