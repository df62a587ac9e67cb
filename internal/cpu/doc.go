// Package cpu is the backend "cpu": it executes plans on the processor.
//
// It reads the same encoded plan as the GPU backends, worker by worker and slot by slot, so it also checks
// the planner.
//
// Its kernels compute in float32 with fused multiply-adds of AVX-512, AVX2 or NEON, if the processor has
// them, or in plain Go. A kernel holds a block of C in registers and reads A and B in place, except a
// transposed B, which it first copies to columns, and with AVX-512 a transposed A whose rows are 2 KiB or
// more apart. The copies take 64 KiB and 144 KiB of a thread. The program in folder asm writes the assembly:
// go generate ./internal/cpu. It is a separate module, so that only generating needs its imports.
//
// Elements of BF16 and Int8 stay narrow where the processor has units for them: AMX, on Linux, or VDPBF16PS
// and VPDPBUSD (dot.go). Products of BF16 are exact, and each sum is rounded to the nearest float32. These
// units replace operands, products and sums below 2^-126 by 0. Sums of Int8 are exact. In other cases
// elements become float32. The environment variable BATCHGEMM_CPU selects instructions (amx,
// avx512-dot, avx512, avx2, neon, generic).
//
// Runs are queued as on a GPU. A crew of goroutines does one at a time, and ends soon after the last. A
// device has as many threads as Go has processors, or as BATCHGEMM_THREADS says; concurrent devices share
// them. Crews yield to other goroutines, so a call returns within a millisecond or two after its context
// ends, even if all processors are busy. Memory comes from internal/hostmem: if it does not fit, that is an
// error, and closed buffers return it to the system at once.
package cpu
