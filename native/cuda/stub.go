//go:build !cgo || !linux || !(amd64 || arm64)

package cuda

import "github.com/batchgemm/batchgemm/dispatch/driver"

// Driver returns a driver without devices.
func Driver() driver.Driver {
	return driver.Missing("cuda", "CUDA needs cgo, and Linux on amd64 or arm64")
}
