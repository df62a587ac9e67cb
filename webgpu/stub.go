//go:build !cgo || !((linux && amd64) || darwin || (windows && amd64))

package webgpu

import (
	"context"
	"fmt"
	"runtime"

	"github.com/batchgemm/batchgemm/dispatch/driver"
)

// Driver returns a driver without devices: the binding needs cgo, and has
// libraries for linux/amd64, darwin and windows/amd64 only.
func Driver() driver.Driver { return stub{} }

type stub struct{}

var errStub = fmt.Errorf("%w: WebGPU is not in this build (%s/%s, or built without cgo)",
	driver.ErrUnavailable, runtime.GOOS, runtime.GOARCH)

func (stub) Name() string                                         { return "webgpu" }
func (stub) Devices() ([]driver.Info, error)                      { return nil, errStub }
func (stub) Open(_ context.Context, _ int) (driver.Device, error) { return nil, errStub }
