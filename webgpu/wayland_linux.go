//go:build cgo && !nowebgpu && amd64

package webgpu

// #include "shim.h"
import "C"

import "sync"

// quiet keeps Mesa from printing errors where there is no display.
var quiet = sync.OnceFunc(func() { C.gpu_quiet() })
