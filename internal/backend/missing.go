package backend

import (
	"context"
	"fmt"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/hardware"
)

// Missing returns the driver of a backend that this build lacks, with a reason such as "needs cgo".
func Missing(name, reason string) driver.Driver {
	return missing{name, reason, fmt.Errorf("%w: not in this build: %s", hardware.ErrUnavailable, reason)}
}

// WhyMissing returns the reason that Missing was given for a driver, or "" if this build has it.
func WhyMissing(d driver.Driver) string {
	m, _ := d.(missing)
	return m.reason
}

type missing struct {
	name, reason string
	err          error
}

func (m missing) Name() string                                     { return m.name }
func (m missing) Devices(context.Context) ([]driver.Info, error)   { return nil, m.err }
func (m missing) Open(context.Context, int) (driver.Device, error) { return nil, m.err }
