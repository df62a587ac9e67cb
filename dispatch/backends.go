package dispatch

import (
	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/cpu"
	"github.com/batchgemm/batchgemm/native/cuda"
	"github.com/batchgemm/batchgemm/native/hip"
	"github.com/batchgemm/batchgemm/webgpu"
)

// backends are tried in this order. The last one is the fallback, which runs
// anywhere. Adding a backend is one line.
var backends = []driver.Driver{
	cuda.Driver(),
	hip.Driver(),
	webgpu.Driver(),
	cpu.Driver(),
}
