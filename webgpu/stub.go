//go:build !nowebgpu && !js && (!cgo || !((linux && amd64) || darwin || (windows && amd64)))

package webgpu

import (
	"fmt"
	"runtime"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
)

// Driver returns a driver without devices.
func Driver() driver.Driver { return backend.Missing("webgpu", missing(runtime.GOOS, runtime.GOARCH)) }

// missing says why a build for a system lacks the backend: without cgo, or without the library.
func missing(system, arch string) string {
	switch system + "/" + arch {
	case "linux/amd64", "windows/amd64", "darwin/amd64", "darwin/arm64":
		return "built without cgo, which takes CGO_ENABLED=1 and a C compiler"
	}
	return fmt.Sprintf("there is no WebGPU library for %s/%s, but for linux/amd64, windows/amd64 and darwin",
		system, arch)
}
