package wgsl

import (
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// LimitsOf returns the limits of a device's shaders. The caller may know Components and Short.
func LimitsOf(d *planner.Device) Limits {
	return Limits{Threads: d.MaxThreads, SharedBytes: d.GroupShared, Subgroup: d.WaveSize}
}

// Describe sets which shaders run within a device's limits, and their resources: for each tile those of the
// largest shader. Only drivers know the registers.
func Describe(d *planner.Device) {
	d.KernelKind, d.Kernels = encoding.KernelsWGSL, nil
	for _, s := range tile.Table() {
		if facts, ok := describe(s, LimitsOf(d)); ok {
			d.Kernels = append(d.Kernels, facts)
		}
	}
}

// describe fails if a tile has no shader within the limits.
func describe(s *tile.Shape, lim Limits) (facts planner.KernelFacts, ok bool) {
	facts.Tile = s
	if s.Unit != tile.FMA {
		return facts, false
	}
	for variant := range 8 {
		k := encoding.Kernel{Tile: s, TransA: variant&1 != 0, TransB: variant&2 != 0, Vector: variant&4 != 0,
			TypeC: element.BF16}
		g, err := newGeometry(k, lim)
		if err != nil {
			return facts, false
		}
		facts.Shared = max(facts.Shared, g.sharedBytes())
	}
	// Steps of int4 may be longer: see directSteps.
	if g, err := newGeometry(encoding.Kernel{Tile: s, TypeA: element.BF16, TypeC: element.BF16,
		Epilogue: encoding.Epilogue{ScaleB: encoding.PerGroup128}}, lim); err == nil {
		facts.Shared = max(facts.Shared, g.sharedBytes())
	}
	return facts, true
}
