package backend

import (
	"log/slog"
	"sync/atomic"
)

var logger atomic.Pointer[slog.Logger]

func init() { SetLogger(nil) }

// SetLogger sets the logger of the whole process for events that no error can report. nil, the default, logs
// nothing: stderr belongs to the program. The logger is called in the middle of other calls, so it must not
// call the library. SetLogger is safe for concurrent use.
func SetLogger(l *slog.Logger) {
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	logger.Store(l)
}

// Logger returns what SetLogger set, never nil. Call it for each record, because it may have changed.
func Logger() *slog.Logger { return logger.Load() }
