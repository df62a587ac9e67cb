//go:build !linux

package cpu

import "runtime"

func processor() string { return runtime.GOARCH }
