//go:build nocuda

package cuda

import (
	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/native"
)

// Driver returns a driver without devices.
func Driver(...func(native.Arch) backend.Build) driver.Driver {
	return backend.Missing("cuda", "built with the tag nocuda")
}
