//go:build nohip

package hip

import "github.com/batchgemm/batchgemm/dispatch/driver"

// Driver returns a driver without devices.
func Driver() driver.Driver { return driver.Missing("hip", "built with the tag nohip") }
