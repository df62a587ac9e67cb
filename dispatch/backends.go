package dispatch

import (
	"context"
	"fmt"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/cpu"
	"github.com/batchgemm/batchgemm/webgpu"
)

// backends are tried in this order. The last one is the fallback, which runs
// anywhere. Adding a backend is one line.
var backends = []driver.Driver{
	missing("cuda"),
	missing("hip"),
	webgpu.Driver(),
	cpu.Driver(),
}

// missing is a backend that is not in this build.
type missing string

func (m missing) Name() string { return string(m) }

func (m missing) Devices() ([]driver.Info, error) {
	return nil, fmt.Errorf("%w: not in this build", driver.ErrUnavailable)
}

func (m missing) Open(context.Context, int) (driver.Device, error) {
	_, err := m.Devices()
	return nil, err
}
