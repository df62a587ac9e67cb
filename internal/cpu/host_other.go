//go:build !linux

package cpu

import "runtime"

func memory() int64 { return maxMemory }

func processor() string { return runtime.GOARCH }
