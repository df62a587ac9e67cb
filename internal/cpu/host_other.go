//go:build !linux

package cpu

import "runtime"

func processor() string { return runtime.GOARCH }

// memory returns 0: unknown.
func memory() int64 { return 0 }
