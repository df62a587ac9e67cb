// Package webgpu is the portable backend: it runs plans as WGSL compute shaders
// on any GPU with a Vulkan, Metal or Direct3D 12 driver, and on Mesa's software
// rasterizer lavapipe. It is the only package that imports go-webgpu.
//
// # The binding
//
// go-webgpu v0.17.1 wraps wgpu-native 0.17.0.2. Six of its faults shape this
// package:
//
//   - Poll(true) waits 5 s at most and then reports unfinished work as done.
//     Waits are loops on Poll(false) with a pause between turns (poll.go).
//   - MapAsync and OnSubmittedWorkDone hand C a pointer to a Go variable and
//     return. The shim calls the C functions with memory of its own (shim.c).
//   - Error scopes are one stack a device. A mutex is held around every call.
//   - Errors in Submit, Poll and GetMappedRange, zero binding sizes and empty
//     shaders abort the process. Everything is validated before such a call. A
//     GPU that the driver declares lost in the middle of a submission still
//     aborts: that error cannot be caught.
//   - A shader with more workgroup memory than the limit is accepted and never
//     ends. It is refused here, and every wait has a deadline after which the
//     device is lost for good and its memory is abandoned, not freed.
//   - Memory that was never written is filled with zeros on first use, and on
//     NVIDIA a fill that starts off a 16-byte boundary hits the wrong bytes.
//     Buffers are multiples of 16 bytes and are initialised as a whole.
//
// Devices live in an instance of their own, because the binding destroys a
// device only together with its instance.
package webgpu
