package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/drivertest"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/planner/element"
)

// TestConformance runs the suite with each instruction set of this processor.
func TestConformance(t *testing.T) {
	for i, with := range available() {
		t.Run(with.name, func(t *testing.T) {
			t.Setenv(variable, with.name)
			var options []drivertest.Option
			if i > 0 && with.bf16 == nil {
				options = append(options,
					drivertest.OneType("others are made of these in front of all instructions, the best of "+
						"which run them", element.F64))
			}
			drivertest.Run(t, Driver(), options...)
		})
	}
}

func TestChoose(t *testing.T) {
	for _, with := range available() {
		t.Setenv(variable, with.name)
		d := openDevice(t)
		require.Same(t, with, d.crew.own.instructions)
		require.Contains(t, d.Info().Driver, with.name)
	}
	t.Setenv(variable, "")
	require.Same(t, available()[0], openDevice(t).crew.own.instructions)
	t.Setenv(variable, "sse9")
	_, err := Driver().Open(t.Context(), 0)
	require.ErrorContains(t, err, `BATCHGEMM_CPU=sse9: no such instructions here (there are: `)
	require.NotErrorIs(t, err, hardware.ErrUnavailable)
	_, err = Driver().Devices(t.Context())
	require.ErrorContains(t, err, "BATCHGEMM_CPU=sse9")
}
