//go:build nocuda || js

package cuda

import (
	"runtime"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/native"
	"github.com/batchgemm/batchgemm/planner/encoding"
)

// Driver returns a driver without devices. In a browser kernels that nothing there could run would make
// most of a page's program.
func Driver() driver.Driver {
	if runtime.GOOS == "js" {
		return driver.Missing("cuda", "browsers have WebGPU alone")
	}
	return driver.Missing("cuda", "built with the tag nocuda")
}

// Build is code of kernels, which nothing runs in this build.
type Build struct {
	Image func(encoding.Kernel) string
	Read  func(image string) (code []byte, err error)
}

// Builds gives that for an architecture.
type Builds func(native.Arch) Build

// DriverWith returns a driver without devices.
func DriverWith(Builds) driver.Driver { return Driver() }
