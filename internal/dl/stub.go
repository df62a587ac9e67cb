//go:build !cgo || !linux || !(amd64 || arm64)

package dl

import (
	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
)

// Driver returns a driver without devices.
func Driver(v *Vendor) driver.Driver {
	return backend.Missing(v.Backend, v.API+" needs cgo, and Linux on amd64 or arm64")
}
