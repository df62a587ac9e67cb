// Package cpu is the backend "cpu": it executes plans on the processor.
//
// It reads the same encoded plan as the kernels of the GPU backends, worker by
// worker and slot by slot, so that it checks the planner as well. Sums are
// accumulated in float64 and rounded to float32 once, when they are stored.
//
// Runs are queued as on a GPU, and a crew of goroutines that end with their launch
// does one at a time. A device has as many threads as Go has processors, or as
// BATCHGEMM_THREADS says; devices that are in use at the same time share them. Who runs
// gives way to other goroutines, so that a call returns within a millisecond or two of the end
// of its context though all processors are busy. Memory comes from internal/hostmem: what does not fit is an
// error, and what is closed goes back to the system at once.
package cpu
