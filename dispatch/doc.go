// Package dispatch runs batches of matrix products on the best device there is.
//
// Open chooses a backend: cuda, hip, webgpu or cpu. A Device then works on two levels. On slices of host
// memory one call does everything: Multiply takes lists of fp32 matrices, and GEMM any batch, of fp32, bf16,
// fp16, e4m3 or int8, with what epilogues have beside A, B and C:
//
//	device, err := dispatch.Open(ctx)
//	...
//	c, err := dispatch.Multiply(ctx, device, a, b) // []dispatch.Dense
//	err = dispatch.GEMM(ctx, device, batch, planner.Options{},
//		dispatch.Slices[float32, float32]{A: a, B: b, C: c})
//
// For repeated use, Plan, Prepare and NewBuffer make a plan, its program and device memory once. Program.Run
// then executes without allocating, copying or waiting. Runs are queued in order; Read and Device.Wait wait
// for them:
//
//	plan, err := device.Plan(ctx, batch, planner.Options{})
//	program, err := device.Prepare(ctx, plan)
//	a, err := dispatch.Upload(ctx, device, hostA) // so b
//	c, err := device.NewBuffer(element.F32, plan.ExtentC)
//	err = program.Run(ctx, dispatch.Operands{A: a, B: b, C: c})
//	err = dispatch.Read(ctx, c, 0, hostC)
//
// ReadAsync does not wait, Buffer.Slice is a part of a buffer, and Device.Copy copies on the device.
// Device.Warm compiles kernels before plans need them.
//
// OpenAll opens all devices of a backend. GEMM on the Group that it returns splits a large batch among them.
// WithDriver opens a driver of the caller's own. With it a program can test what it does when a device is
// lost.
//
// Arguments are checked here, once for all backends, before anything is written. An error that a caller can
// correct wraps ErrInvalid. All types are safe for concurrent use. Closing a buffer or a program takes
// effect when the calls that use it have returned.
//
// Devices, programs and buffers hold memory of the device, and devices hold threads. The garbage collector
// does not see these: Close them. If one is dropped without Close, the collector closes it when it happens
// to find it, and that is logged (see SetLogger). A device is not closed before its programs and buffers.
// What belongs to a device of OnStream is logged, not closed.
package dispatch
