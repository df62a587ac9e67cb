//go:build nocuda

package cuda

import "github.com/batchgemm/batchgemm/dispatch/driver"

// Driver returns a driver without devices.
func Driver() driver.Driver { return driver.Missing("cuda", "built with the tag nocuda") }

// DriverWith returns a driver without devices.
func DriverWith(Builds) driver.Driver { return Driver() }
