// Package occupancy computes how many workgroups of a kernel a compute unit runs at once.
package occupancy

// Rule selects the formula that bounds the workgroups of a compute unit.
type Rule string

const (
	CDNA   Rule = "cdna"   // Zhang et al. Eq 5-9, corrected
	RDNA   Rule = "rdna"   // the same without scalar registers, of which RDNA has enough
	NVIDIA Rule = "nvidia" // threads, registers, shared memory and blocks per SM
	Limits Rule = "limits" // memory and waves only: registers are unknown
)

// Unit has the limits of a compute unit: fields of planner.Device, with the same meaning.
type Unit struct {
	Rule                                               Rule
	WaveSize, SIMDs, MaxWaves, MaxGroups, MaxThreads   int
	Registers, RegisterGranule, MaxRegisters           int
	Shared, SharedGranule, SharedReserved, GroupShared int
}

// Resources is what a kernel needs of a compute unit.
type Resources struct {
	Registers       int // vector registers per thread (CDNA2: VGPR + AGPR)
	ScalarRegisters int // per wave; 0: not a limit
	Shared          int // bytes of workgroup memory
}

// Resident describes the workgroups of a kernel that are resident on one compute unit.
type Resident struct {
	Groups int     // resident workgroups
	Waves  int     // resident waves: Groups * waves of a workgroup
	Active float64 // Waves / Unit.MaxWaves (Zhang et al., Eq 12)
	// Limiter names the limit: "workgroups", "registers", "scalar registers", "shared memory", "waves" or
	// "threads".
	Limiter string
}

// Resident computes the resident workgroups of a kernel with that many threads. Groups is 0 if one workgroup
// does not fit.
//
// CDNA is Eq 5-9 of Zhang et al. 2025 with corrections checked against LLVM's resource remarks: registers
// and shared memory are allocated in granules, and only whole workgroups run, so the result is
// W*floor(min(...)/W) for workgroups of W waves. NVIDIA is the rule of NVIDIA's occupancy calculator.
func (u *Unit) Resident(threads int, r Resources) Resident {
	simds, lanes := max(u.SIMDs, 1), max(u.WaveSize, 1)
	waves := max(ceilDiv(threads, lanes), 1)
	o := Resident{Groups: u.MaxGroups, Limiter: "workgroups"}
	if waves == 1 && (u.Rule == CDNA || u.Rule == RDNA) {
		o.Groups = u.MaxWaves // the limit of 16 workgroups is that of barriers
	}
	limit := func(groups int, by string) {
		if groups < o.Groups {
			o.Groups, o.Limiter = groups, by
		}
	}
	if threads > u.MaxThreads {
		limit(0, "threads")
	}
	limit(u.MaxWaves/waves, "waves")
	limit(u.sharedGroups(r), "shared memory")
	switch u.Rule {
	case CDNA, RDNA:
		perSIMD := u.Registers / simds / lanes / roundUp(max(r.Registers, 1), u.RegisterGranule)
		limit(simds*min(perSIMD, u.MaxWaves/simds)/waves, "registers")
		if u.Rule == CDNA {
			limit(simds*scalarWaves(r.ScalarRegisters, u.MaxWaves/simds)/waves, "scalar registers")
		}
	case NVIDIA:
		perWave := roundUp(roundUp(max(r.Registers, 1), 8)*lanes, u.RegisterGranule)
		// Each of the SIMDs (sub-partitions) has its own share of the registers.
		limit(simds*(u.Registers/simds/perWave)/waves, "registers")
	}
	if u.MaxRegisters > 0 && r.Registers > u.MaxRegisters {
		limit(0, "registers")
	}
	o.Waves = o.Groups * waves
	o.Active = float64(o.Waves) / float64(max(u.MaxWaves, 1))
	return o
}

// sharedGroups returns the limit by workgroup memory (Eq 8).
func (u *Unit) sharedGroups(r Resources) int {
	if r.Shared > u.GroupShared {
		return 0
	}
	taken := roundUp(r.Shared+u.SharedReserved, max(u.SharedGranule, 1))
	return u.Shared / max(taken, 1)
}

// scalarWaves returns the limit by scalar registers per SIMD of gfx908 and gfx90a (Eq 7), according to
// LLVM's table: up to 80 registers allow 10 waves, up to 88 allow 9, up to 100 allow 8, more allow 7. It is
// at most `most`.
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

func ceilDiv(a, b int) int { return (a + b - 1) / b }

func roundUp(a, unit int) int { return ceilDiv(a, max(unit, 1)) * max(unit, 1) }
