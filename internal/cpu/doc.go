// Package cpu is the backend "cpu": it executes plans on the processor.
//
// It reads the same encoded plan as the kernels of the GPU backends, worker by
// worker and slot by slot, so that it checks the planner as well. Sums are
// accumulated in float64 and rounded to float32 once, when they are stored.
//
// Runs are queued as on a GPU, and a crew of goroutines that end with their launch
// does one at a time. Memory comes from internal/hostmem: what does not fit is an
// error, and what is closed goes back to the system at once.
package cpu
