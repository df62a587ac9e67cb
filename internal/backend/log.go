package backend

import (
	"log/slog"
	"sync/atomic"
)

var logger atomic.Pointer[slog.Logger]

func init() { SetLogger(nil) }

// SetLogger sets where this library and its backends log what no error can tell,
// in the whole process. nil, as at first, is nowhere: stderr belongs to the
// program. It is called in the middle of other calls, and must not call the library
// itself. Safe for concurrent use.
func SetLogger(l *slog.Logger) {
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	logger.Store(l)
}

// Logger returns what SetLogger set, never nil. Ask again for each record: it may
// have changed.
func Logger() *slog.Logger { return logger.Load() }
