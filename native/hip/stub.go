//go:build !nohip && (!cgo || !linux || !(amd64 || arm64))

package hip

import (
	"runtime"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/dl"
)

// Driver returns a driver without devices. Kernels that nothing here could run would make most of a program.
func Driver() driver.Driver {
	if runtime.GOOS == "js" {
		return backend.Missing("hip", "browsers have WebGPU alone")
	}
	return dl.Driver(&dl.Vendor{Backend: "hip", API: "HIP"}) // which says what it lacks
}
