package planner

import "github.com/batchgemm/batchgemm/internal/occupancy"

// Resident returns how many workgroups of a kernel, of that many threads, a compute unit runs at once; 0 if
// no workgroup fits.
func (d *Device) Resident(threads int, r occupancy.Resources) occupancy.Resident {
	u := occupancy.Unit{Rule: d.Occupancy, WaveSize: d.WaveSize, SIMDs: d.SIMDs, MaxWaves: d.MaxWaves,
		MaxGroups: d.MaxGroups, MaxThreads: d.MaxThreads, Registers: d.Registers,
		RegisterGranule: d.RegisterGranule, MaxRegisters: d.MaxRegisters, Shared: d.Shared,
		SharedGranule: d.SharedGranule, SharedReserved: d.SharedReserved, GroupShared: d.GroupShared}
	return u.Resident(threads, r)
}

// resident returns how many workgroups of a kernel the whole device runs at once. It is at least one for
// each compute unit, so that estimates stay finite.
func (d *Device) resident(k *KernelFacts) int {
	return max(d.Resident(k.Tile.Threads, k.Resources).Groups, 1) * max(d.ComputeUnits, 1)
}

func ceilDiv[T int | int64](a, b T) T { return (a + b - 1) / b }

func roundUp(a, unit int) int { return ceilDiv(a, max(unit, 1)) * max(unit, 1) }
