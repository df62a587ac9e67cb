// Package dispatch runs batches of matrix products on the best device of the machine.
//
// Open chooses a backend: cuda, hip, webgpu or cpu. A Device works on two levels. For slices of host memory,
// one call does everything. Multiply takes lists of fp32 or fp64 matrices. GEMM takes any batch of fp32,
// bf16, fp16, e4m3 or int8, with the operands of its epilogue:
//
//	device, err := dispatch.Open(ctx)
//	...
//	c, err := dispatch.Multiply(ctx, device, a, b) // []dispatch.Dense[float32]
//	err = dispatch.GEMM(ctx, device, batch, planner.Options{},
//		dispatch.Slices[float32, float32]{A: a, B: b, C: c})
//
// For repeated use, make a plan, its program and device memory once, with Plan, Prepare and NewBuffer.
// Program.Run then executes without allocating, copying or waiting. Runs are queued in order; Read and
// Device.Wait wait for them:
//
//	plan, err := device.Plan(ctx, batch, planner.Options{})
//	program, err := device.Prepare(ctx, plan)
//	a, err := dispatch.Upload(ctx, device, hostA) // so b
//	c, err := device.NewBuffer(element.F32, plan.ExtentC)
//	err = program.Run(ctx, dispatch.Operands{A: a, B: b, C: c})
//	err = dispatch.Read(ctx, c, 0, hostC)
//
// ReadAsync reads without waiting. Buffer.Slice returns a part of a buffer. Device.Copy copies on the
// device. Device.Warm compiles kernels before plans need them.
//
// OpenAll opens all devices of a backend as a Group, and GEMM splits a large batch among them. WithDriver
// opens the caller's own driver, for example to test what a program does when a device is lost.
//
// All arguments are checked before anything is written. An error that the caller can correct wraps
// ErrInvalid. All types are safe for concurrent use. Closing a buffer or a program takes effect when the
// calls that use it have returned.
//
// Devices, programs and buffers hold device memory, and devices hold threads. The garbage collector does not
// know these resources, so Close them. An object that is dropped without Close is closed and logged (see
// SetLogger) whenever the collector finds it, a device after its programs and buffers. Objects of a device
// of OnStream are only logged.
package dispatch
