//go:build nowebgpu

package webgpu

import (
	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
)

// Driver returns a driver without devices.
func Driver() driver.Driver { return backend.Missing("webgpu", "built with the tag nowebgpu") }
