//go:build nohip || js

package hip

import (
	"runtime"

	"github.com/batchgemm/batchgemm/dispatch/driver"
)

// Driver returns a driver without devices. In a browser kernels that nothing there could run would make
// most of a page's program.
func Driver() driver.Driver {
	if runtime.GOOS == "js" {
		return driver.Missing("hip", "browsers have WebGPU alone")
	}
	return driver.Missing("hip", "built with the tag nohip")
}
