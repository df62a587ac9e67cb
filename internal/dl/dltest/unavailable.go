package dltest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/dl"
	"github.com/batchgemm/batchgemm/internal/hardware"
)

// At returns a vendor's backend with other libraries.
func At(v dl.Vendor, paths ...string) driver.Driver {
	v.Libraries = paths
	return dl.Driver(&v)
}

// Reason is why there is no usable GPU, and what the error says about it.
type Reason struct {
	Name    string
	Paths   []string // of libraries
	Env     map[string]string
	Message string
}

// Unavailable requires that both calls that find devices report each reason.
func Unavailable(t *testing.T, v dl.Vendor, reasons []Reason) {
	for _, c := range reasons {
		t.Run(c.Name, func(t *testing.T) {
			for key, value := range c.Env {
				t.Setenv(key, value)
			}
			d := At(v, c.Paths...)
			_, err := d.Devices(t.Context())
			require.ErrorIs(t, err, hardware.ErrUnavailable)
			require.ErrorContains(t, err, c.Message)
			_, err = d.Open(t.Context(), 0)
			require.ErrorIs(t, err, hardware.ErrUnavailable)
		})
	}
}
