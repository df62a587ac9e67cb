package planner

// Resources is what a kernel takes of a compute unit.
type Resources struct {
	Registers       int // vector registers per thread (CDNA2: VGPR + AGPR)
	ScalarRegisters int // per wave; 0: not a limit
	Shared          int // bytes of workgroup memory
}

// Occupancy says how many workgroups of a kernel are resident on one compute unit.
type Occupancy struct {
	Groups  int     // resident workgroups
	Waves   int     // resident waves: Groups * waves of a workgroup
	Active  float64 // Waves / Device.MaxWaves (Zhang et al., Eq 12)
	Limiter string  // what ends it: "workgroups", "registers", "scalar registers", "shared memory", "waves", "threads"
}

// Resident computes the resident workgroups of a kernel of the given thread
// count, or 0 when one workgroup does not fit.
//
// OccupancyCDNA is Eq 5-9 of Zhang et al. 2025 with corrections checked against
// LLVM's resource remarks: registers and shared memory are allocated in
// granules, and only whole workgroups run, so that the result is
// W*floor(min(...)/W) for workgroups of W waves. OccupancyNVIDIA is the rule of
// NVIDIA's occupancy calculator.
func (d *Device) Resident(threads int, r Resources) Occupancy {
	simds, lanes := max(d.SIMDs, 1), max(d.WaveSize, 1)
	waves := max(ceilDiv(threads, lanes), 1)
	o := Occupancy{Groups: d.MaxGroups, Limiter: "workgroups"}
	if waves == 1 && (d.Occupancy == OccupancyCDNA || d.Occupancy == OccupancyRDNA) {
		o.Groups = d.MaxWaves // the limit of 16 workgroups is one of barriers
	}
	limit := func(groups int, by string) {
		if groups < o.Groups {
			o.Groups, o.Limiter = groups, by
		}
	}
	if threads > d.MaxThreads {
		limit(0, "threads")
	}
	limit(d.MaxWaves/waves, "waves")
	limit(d.sharedGroups(r), "shared memory")
	switch d.Occupancy {
	case OccupancyCDNA, OccupancyRDNA:
		perSIMD := d.Registers / simds / lanes / roundUp(max(r.Registers, 1), d.RegisterGranule)
		limit(simds*min(perSIMD, d.MaxWaves/simds)/waves, "registers")
		if d.Occupancy == OccupancyCDNA {
			limit(simds*scalarWaves(r.ScalarRegisters, d.MaxWaves/simds)/waves, "scalar registers")
		}
	case OccupancyNVIDIA:
		perWave := roundUp(roundUp(max(r.Registers, 1), 8)*lanes, d.RegisterGranule)
		// Each of the SIMDs (sub-partitions) has its own share of the registers.
		limit(simds*(d.Registers/simds/perWave)/waves, "registers")
	}
	if d.MaxRegisters > 0 && r.Registers > d.MaxRegisters {
		limit(0, "registers")
	}
	o.Waves = o.Groups * waves
	o.Active = float64(o.Waves) / float64(max(d.MaxWaves, 1))
	return o
}

// sharedGroups is the limit by workgroup memory (Eq 8).
func (d *Device) sharedGroups(r Resources) int {
	if r.Shared > d.GroupShared {
		return 0
	}
	taken := roundUp(r.Shared+d.SharedReserved, max(d.SharedGranule, 1))
	return d.Shared / max(taken, 1)
}

// scalarWaves is the limit by scalar registers per SIMD of gfx908 and gfx90a
// (Eq 7), as LLVM's table has it: allocation is in steps that leave 10 waves up
// to 80 registers, 9 up to 88, 8 up to 100, else 7. No more than most fit anyway.
func scalarWaves(used, most int) int {
	switch {
	case used <= 80:
		return most
	case used <= 88:
		return min(9, most)
	case used <= 100:
		return min(8, most)
	}
	return min(7, most)
}

// resident is the number of workgroups of a kernel that the whole device runs at
// once, at least one a compute unit, so that estimates stay finite.
func (d *Device) resident(k *KernelFacts) int {
	return max(d.Resident(k.Tile.Threads, k.Resources).Groups, 1) * max(d.ComputeUnits, 1)
}

func ceilDiv[T int | int64](a, b T) T { return (a + b - 1) / b }

func roundUp(a, unit int) int { return ceilDiv(a, max(unit, 1)) * max(unit, 1) }
