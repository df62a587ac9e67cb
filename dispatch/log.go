package dispatch

import (
	"log/slog"

	"github.com/batchgemm/batchgemm/internal/backend"
)

// SetLogger sets the logger of the whole process for events that no error can report, such as objects
// dropped without Close. Package dispatch and its backends use it. The default, nil, logs nothing: stderr
// belongs to the program. The logger is called in the middle of other calls, so it must not call this
// package. SetLogger is safe for concurrent use.
func SetLogger(l *slog.Logger) { backend.SetLogger(l) }
