//go:build !cgo || !linux

package openblas

import (
	"context"
	"fmt"

	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Open always fails in this build.
func Open(name string) (*Library, error) {
	return nil, fmt.Errorf("%s: %w: needs a build with cgo on Linux", name, hardware.ErrUnavailable)
}

// Spin is how long threads of the library may wait for more work in a loop.
const Spin = 0

// Library and Batch cannot exist in this build.
type (
	Library struct{}
	Batch   struct{}
)

func (*Library) String() string                                                 { return "" }
func (*Library) Threads() int                                                   { return 0 }
func (*Library) SetThreads(int)                                                 {}
func (*Library) Batch(planner.Batch, element.Type) *Batch                       { return nil }
func (*Batch) Loop(context.Context, []float32, []float32, []float32) error      { return nil }
func (*Batch) Deal(context.Context, int, []float32, []float32, []float32) error { return nil }
