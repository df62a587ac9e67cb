//go:build cgo && !nowebgpu && ((linux && amd64) || darwin || (windows && amd64))

package webgpu

// #include "shim.h"
import "C"

import (
	"context"
	"log/slog"

	"github.com/batchgemm/batchgemm/internal/backend"
)

// The library's log goes to backend.Logger. By default package wgpu prints it to stderr; its own init, which
// runs before this one, sets that.
func init() { C.gpu_log() }

// logLevels are wgpu-native's, from 1 on: error, warn, info, debug, trace.
var logLevels = [...]slog.Level{slog.LevelError, slog.LevelWarn, slog.LevelInfo, slog.LevelDebug,
	slog.LevelDebug}

// webgpuLogged takes a line of the library's log, during a call of the library.
//
//export webgpuLogged
func webgpuLogged(level C.uint32_t, message *C.char) {
	at := min(max(int(level), 1), len(logLevels)) - 1
	backend.Logger().Log(context.Background(), logLevels[at], C.GoString(message), "backend", "webgpu")
}
