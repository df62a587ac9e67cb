//go:build !nohip && (!cgo || !linux || !(amd64 || arm64))

package hip

import (
	"runtime"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/dl"
)

// Driver returns a driver without devices. A program that cannot run the kernels should not carry them,
// because they would be most of it.
func Driver() driver.Driver {
	if runtime.GOOS == "js" {
		return backend.Missing("hip", "browsers have WebGPU alone")
	}
	return dl.Driver(&dl.Vendor{Backend: "hip", API: "HIP"}) // it says what the build lacks
}
