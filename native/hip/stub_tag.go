//go:build nohip

package hip

import (
	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
)

// Driver returns a driver without devices.
func Driver() driver.Driver { return backend.Missing("hip", "built with the tag nohip") }
