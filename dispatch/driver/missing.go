package driver

import (
	"context"
	"fmt"
)

// Missing is the driver of a backend that this build lacks, for the reason
// given, such as "needs cgo".
func Missing(name, reason string) Driver {
	return missing{name, reason, fmt.Errorf("%w: not in this build: %s", ErrUnavailable, reason)}
}

// WhyMissing is the reason that Missing was given for a driver, or "" where this build has it.
func WhyMissing(d Driver) string {
	m, _ := d.(missing)
	return m.reason
}

type missing struct {
	name, reason string
	err          error
}

func (m missing) Name() string                              { return m.name }
func (m missing) Devices(context.Context) ([]Info, error)   { return nil, m.err }
func (m missing) Open(context.Context, int) (Device, error) { return nil, m.err }
