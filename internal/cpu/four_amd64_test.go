package cpu

import (
	"golang.org/x/sys/cpu"

	"github.com/batchgemm/batchgemm/planner/element"
)

// panelsOf are the implementations that this processor runs.
func panelsOf(of element.Type) (all []func(*panel)) {
	if cpu.X86.HasAVX2 {
		all = append(all, panels2[of])
	}
	if cpu.X86.HasAVX512F && cpu.X86.HasBMI2 {
		all = append(all, panels512[of])
	}
	return all
}
