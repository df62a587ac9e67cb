// Package dispatch runs batches of matrix products on the best device there is.
//
// Open chooses a backend: cuda, hip, webgpu or cpu. A Device then works on two
// levels. GEMM takes slices and does everything in one call:
//
//	device, err := dispatch.Open(ctx)
//	...
//	err = device.GEMM(ctx, batch, a, b, c)
//
// For repeated use, Plan, Prepare and NewBuffer make a plan, its program and
// device memory once, and Program.Run executes without allocating, copying or
// waiting. Runs are queued in order; Buffer.Read and Device.Wait wait for them.
//
// OpenAll opens all devices of a backend. GEMM of the Group that it returns
// splits a large batch among them.
//
// Arguments are checked here, once for all backends, before anything is
// written. All types are safe for concurrent use. Closing a buffer or a program
// takes effect when the calls that use it have returned.
//
// Devices, programs and buffers hold memory of the device, and devices threads, which
// the garbage collector does not see: Close them. What is dropped without Close is
// closed when the collector happens to find it, which is logged (see SetLogger), and
// a device not before its programs and buffers. What belongs to a device of OnStream
// is logged, not closed.
package dispatch
