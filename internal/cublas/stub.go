//go:build nocuda || !cgo || !linux || !(amd64 || arm64)

package cublas

import (
	"fmt"
	"time"

	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Open always fails in this build.
func Open(int) (*Stream, error) {
	return nil, fmt.Errorf("cuBLAS: %w: needs a build with cgo on Linux, without the tag nocuda",
		hardware.ErrUnavailable)
}

// Stream, Graph, Handle and Batch cannot exist in this build.
type (
	Stream struct{}
	Graph  struct{}
	Handle struct{}
	Batch  struct{}
)

func (*Stream) Native() uintptr            { return 0 }
func (*Stream) Close() error               { return nil }
func (*Stream) Alloc(int) (uintptr, error) { return 0, nil }
func (*Stream) Free(uintptr) error         { return nil }
func (*Stream) Time(int, func(int) error) (device, host time.Duration, err error) {
	return 0, 0, nil
}
func (*Stream) Capture(int, func(int) error) (*Graph, error) { return nil, nil }
func (*Stream) CuBLAS() (*Handle, error)                     { return nil, nil }
func (*Graph) Time() (time.Duration, error)                  { return 0, nil }
func (*Graph) Close() error                                  { return nil }
func (*Handle) String() string                               { return "" }
func (*Handle) HasGrouped() bool                             { return false }
func (*Handle) Close() error                                 { return nil }
func (*Handle) Batch(planner.Batch, element.Type, uintptr, uintptr, uintptr) (*Batch, error) {
	return nil, nil
}
func (*Batch) Loop() error    { return nil }
func (*Batch) Grouped() error { return nil }
func (*Batch) Close() error   { return nil }
