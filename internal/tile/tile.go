// Package tile is the tile table: the shapes in which C is computed, and how fast the kernels of each run.
//
// A shape is one row of geometry, in table.go. Kernel text, launch sizes, limits and names are derived from
// that row. Programs write the rest: rates.go has rates fitted to measured times, and the table of package
// native has what compilers report of the kernels.
package tile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/batchgemm/batchgemm/internal/invalid"
)

// Shape is a row of the table: the piece of C that a workgroup computes at a time, and the threads that
// compute it. Rows are compared by address, and are not changed.
type Shape struct {
	Name       string
	TM, TN, TK int  // rows and columns of the C tile, depth of a K step; powers of two
	Threads    int  // work-items of the workgroup
	RM, RN     int  // register block: rows x columns of C that a thread accumulates; 0 except with FMA
	Zhang      bool // row of Zhang et al. 2025, Table 3; the others are ours
	Kind            // kind of its kernels
	// Few: one of the few shapes whose kernels a device compiles first. They are chosen by TestFewShapes of
	// package planner (docs/webgpu.md).
	Few bool
	// Clusters reports whether kernels exist in which the thread groups of a cluster share a tile (NVIDIA
	// 9.0).
	Clusters bool
	// Epilogues reports whether native kernels with an epilogue exist.
	Epilogues bool
	// Raw reports whether kernels exist that copy boxes of fp32, where that is emulated
	// (native/kernels/wgmma_raw.cuh).
	Raw bool
	// Shared is the workgroup memory, in bytes, of kernels for warpgroups: half of a compute unit's, or all
	// of it.
	Shared int

	// Rates come from rates.go.
	Rates Rates
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

// MaxSize bounds TM, TN and TK, and MaxBox those of tiles of boxes.
const MaxSize, MaxBox = 128, 256

// Check returns the first property of a row that kernels or planning cannot work with. The rows of the table
// pass.
func (s *Shape) Check() error {
	wrong := func(format string, args ...any) error {
		return invalid.Errorf("tile %s: %w", s.Name, fmt.Errorf(format, args...))
	}
	most := MaxSize
	if s.Boxes {
		most = MaxBox
	}
	for _, size := range [...]int{s.TM, s.TN, s.TK} {
		if size < 4 || size > most || size&(size-1) != 0 {
			return wrong("size %d is no power of two in [4, %d]", size, most)
		}
	}
	if s.Threads < 1 || s.Threads > 1024 {
		return wrong("%d threads are not in [1, 1024]", s.Threads)
	}
	if !slices.Contains(kinds[:], s.Kind) {
		return wrong("no kernels are of the kind %+v", s.Kind)
	}
	if s.Unit != FMA {
		return nil
	}
	blocks := s.RM > 0 && s.RN > 0 && s.TM%s.RM == 0 && s.TN%s.RN == 0
	if !blocks || s.Threads*s.RM*s.RN != s.Groups()*s.TM*s.TN || s.TK%s.Groups() != 0 {
		return wrong("%d threads of %d x %d do not cover it evenly", s.Threads, s.RM, s.RN)
	}
	return nil
}

// Groups returns the number of K groups: sets of threads that each accumulate the whole C tile over their
// own share of every K step.
func (s *Shape) Groups() int { return max(s.Threads*s.RM*s.RN/(s.TM*s.TN), 1) }

// KeepsGated reports whether native kernels keep the first product of a gated tile in registers, and not in
// the workspace, with elements of that many bytes. It matches WideTile in native/kernels/wgmma_aligned.cuh.
func (s *Shape) KeepsGated(bytes int) bool {
	return s.Aligned && (s.TN == 64 || s.TM == 128 && bytes == 2)
}

// Fraction returns the time of a tile relative to a whole one, if only that many rows and columns of the
// problem remain from its first element on: see Rates.HalfRows.
func (s *Shape) Fraction(rows, cols int) float64 {
	return s.fraction(rows, s.TM, s.Rates.HalfRows) * s.fraction(cols, s.TN, s.Rates.HalfCols)
}

// fraction is Fraction in one direction. Kernels of a CPU compute only the part of a tile that exists.
func (s *Shape) fraction(left, size int, half float64) float64 {
	if s.Unit == SIMD {
		return min(float64(left)/float64(size), 1)
	}
	if half > 0 && 2*left <= size {
		return half
	}
	return 1
}

// StepBytes returns the bytes of A and B in one K step.
func (s *Shape) StepBytes() int { return 4 * s.TK * (s.TM + s.TN) }

// Size returns TM x TN x TK / threads.
func (s *Shape) Size() string { return fmt.Sprintf("%dx%dx%d/%d", s.TM, s.TN, s.TK, s.Threads) }

func (s *Shape) String() string { return s.Name + " " + s.Size() }
