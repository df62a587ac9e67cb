// Package ownrates distinguishes rates that were measured on a device from those of the package.
package ownrates

import (
	"slices"

	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
)

// Has reports whether a device has rates that were measured on it.
func Has(d *planner.Device) bool {
	return slices.ContainsFunc(d.Kernels, func(k planner.KernelFacts) bool {
		return k.Rate != (tile.Rate{}) || k.TF32 != (tile.Rate{})
	})
}

// Without returns the device without them.
func Without(d *planner.Device) *planner.Device {
	shipped := *d
	shipped.Kernels = slices.Clone(d.Kernels)
	for i := range shipped.Kernels {
		shipped.Kernels[i].Rate, shipped.Kernels[i].TF32 = tile.Rate{}, tile.Rate{}
	}
	return &shipped
}
