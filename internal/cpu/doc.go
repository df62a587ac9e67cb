// Package cpu is the backend "cpu": it executes plans on the processor.
//
// It reads the same encoded plan as the kernels of the GPU backends, worker by
// worker and slot by slot, so that it checks the planner as well. Sums are
// accumulated in float64 and rounded to float32 once, when they are stored.
package cpu
