//go:build nowebgpu

package webgpu

import "github.com/batchgemm/batchgemm/dispatch/driver"

// Driver returns a driver without devices.
func Driver() driver.Driver { return driver.Missing("webgpu", "built with the tag nowebgpu") }
