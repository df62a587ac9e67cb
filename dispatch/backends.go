package dispatch

import (
	"slices"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/cpu"
	"github.com/batchgemm/batchgemm/native/cuda"
	"github.com/batchgemm/batchgemm/native/hip"
	"github.com/batchgemm/batchgemm/webgpu"
)

// Backends lists the package's backends in the order in which Open tries them. The last is the CPU, which is
// always there. It helps to write a driver that wraps one of them (see WithDriver).
func Backends() []driver.Driver { return slices.Clone(backends) }

// backends are tried in this order. The last one is the fallback and runs anywhere. To add a backend, add a
// line.
var backends = []driver.Driver{
	cuda.Driver(),
	hip.Driver(),
	webgpu.Driver(),
	cpu.Driver(),
}
