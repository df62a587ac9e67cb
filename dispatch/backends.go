package dispatch

import (
	"slices"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/cpu"
	"github.com/batchgemm/batchgemm/native/cuda"
	"github.com/batchgemm/batchgemm/native/hip"
	"github.com/batchgemm/batchgemm/webgpu"
)

// Backends lists the backends that come with the package, in the order in which Open
// tries them; the last, the CPU, is always there. It serves drivers of a caller's own
// that wrap one of them (see WithDriver).
func Backends() []driver.Driver { return slices.Clone(backends) }

// backends are tried in this order. The last one is the fallback, which runs
// anywhere. Adding a backend is one line.
var backends = []driver.Driver{
	cuda.Driver(),
	hip.Driver(),
	webgpu.Driver(),
	cpu.Driver(),
}
