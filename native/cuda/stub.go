//go:build nocuda

package cuda

import "github.com/batchgemm/batchgemm/dispatch/driver"

// Driver returns a driver without devices.
func Driver() driver.Driver { return driver.Missing("cuda", "built with the tag nocuda") }

// Images gives code of kernels, which nothing runs in this build.
type Images func(major, minor int) (code []byte, kind string, err error)

// DriverWith returns a driver without devices.
func DriverWith(Images) driver.Driver { return Driver() }
