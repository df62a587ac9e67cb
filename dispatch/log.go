package dispatch

import (
	"log/slog"

	"github.com/batchgemm/batchgemm/internal/backend"
)

// SetLogger sets where the package and its backends log what no error can tell,
// such as objects that were dropped without Close, in the whole process. nil, as
// at first, is nowhere: stderr belongs to the program. It is called in the middle of
// other calls, and must not call the package itself. Safe for concurrent use.
func SetLogger(l *slog.Logger) { backend.SetLogger(l) }
