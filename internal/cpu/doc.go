// Package cpu is the backend "cpu": it executes plans on the processor.
//
// It reads the same encoded plan as the kernels of the GPU backends, worker by
// worker and slot by slot, so that it checks the planner as well.
//
// Its kernels compute in float32 by fused multiply-adds of AVX-512, AVX2 or NEON,
// whichever the processor has, and in plain Go elsewhere; the environment variable
// BATCHGEMM_CPU fixes one (avx512, avx2, neon, generic). A kernel holds a block of C in
// registers and reads A and B where they are, but B transposed, which is turned around
// first. The assembly is written by the program in folder asm, a module of its
// own so that nobody else needs what it imports: go generate ./internal/cpu.
//
// Runs are queued as on a GPU, and a crew of goroutines that end soon after the last
// does one at a time. A device has as many threads as Go has processors, or as
// BATCHGEMM_THREADS says; devices that are in use at the same time share them. Who
// runs gives way to other goroutines, so that a call returns within a millisecond or
// two of the end of its context though all processors are busy. Memory comes from
// internal/hostmem: what does not fit is an error, and what is closed goes back to
// the system at once.
package cpu
