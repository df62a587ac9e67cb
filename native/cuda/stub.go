//go:build !nocuda && (!cgo || !linux || !(amd64 || arm64))

package cuda

import (
	"runtime"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/dl"
	"github.com/batchgemm/batchgemm/native"
)

// Driver returns a driver without devices. A program that cannot run the kernels should not carry them,
// because they would be most of it.
func Driver(...func(native.Arch) backend.Build) driver.Driver {
	if runtime.GOOS == "js" {
		return backend.Missing("cuda", "browsers have WebGPU alone")
	}
	return dl.Driver(&dl.Vendor{Backend: "cuda", API: "CUDA"}) // it says what the build lacks
}
