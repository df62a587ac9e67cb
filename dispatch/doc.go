// Package dispatch runs batches of matrix products on the best device there is.
//
// Open chooses a backend: cuda, hip, webgpu or cpu. A Device then works on two
// levels. GEMM takes slices of host memory and does everything in one call:
//
//	device, err := dispatch.Open(ctx)
//	...
//	err = device.GEMM(ctx, batch, planner.Options{}, a, b, c)
//
// GEMMOf is the same for bf16, fp16, e4m3 and int8, the numbers of package planner/element, and GEMMOperands
// takes what epilogues have beside A, B and C.
//
// For repeated use, Plan, Prepare and NewBuffer make a plan, its program and
// device memory once, and Program.Run executes without allocating, copying or
// waiting. Runs are queued in order; Buffer.Read and Device.Wait wait for them:
//
//	plan, err := device.Plan(ctx, batch, planner.Options{})
//	program, err := device.Prepare(ctx, plan)
//	a, err := device.NewBuffer(plan.ExtentA) // so b and c
//	err = a.Write(ctx, 0, hostA)             // so b
//	err = program.Run(ctx, a, b, c)
//	err = c.Read(ctx, 0, hostC)
//
// Buffer.ReadAsync does not wait, Buffer.Slice is a part of a buffer, and Device.Copy copies on the
// device. Device.Warm compiles kernels before plans need them.
//
// OpenAll opens all devices of a backend. GEMM of the Group that it returns
// splits a large batch among them. WithDriver opens a driver of the caller's own,
// with which a program can test what it does when a device is lost.
//
// Arguments are checked here, once for all backends, before anything is
// written; what a caller can correct wraps ErrInvalid. All types are safe for
// concurrent use. Closing a buffer or a program takes effect when the calls that
// use it have returned.
//
// Devices, programs and buffers hold memory of the device, and devices threads, which
// the garbage collector does not see: Close them. What is dropped without Close is
// closed when the collector happens to find it, which is logged (see SetLogger), and
// a device not before its programs and buffers. What belongs to a device of OnStream
// is logged, not closed.
package dispatch
