//go:build nocuda || js

package cuda

import (
	"runtime"

	"github.com/batchgemm/batchgemm/dispatch/driver"
)

// Driver returns a driver without devices. In a browser kernels that nothing there could run would make
// most of a page's program.
func Driver() driver.Driver {
	if runtime.GOOS == "js" {
		return driver.Missing("cuda", "browsers have WebGPU alone")
	}
	return driver.Missing("cuda", "built with the tag nocuda")
}

// Images gives code of kernels, which nothing runs in this build.
type Images func(major, minor int) (code []byte, kind string, err error)

// DriverWith returns a driver without devices.
func DriverWith(Images) driver.Driver { return Driver() }
