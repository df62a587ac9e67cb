//go:build !nowebgpu && (!cgo || !((linux && amd64) || darwin || (windows && amd64)))

package webgpu

import "github.com/batchgemm/batchgemm/dispatch/driver"

// Driver returns a driver without devices.
func Driver() driver.Driver {
	return driver.Missing("webgpu", "the WebGPU library needs cgo, and exists for linux/amd64, darwin and windows/amd64")
}
