// Package webgpu is the portable backend: it runs plans as WGSL compute shaders
// on any GPU with a Vulkan, Metal or Direct3D 12 driver, on Mesa's software
// rasterizer lavapipe, and in a browser (GOOS=js). It is the only package that imports go-webgpu.
//
// What both have in common knows a device by the names of library.go and library_js.go.
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
//     shaders abort the process. Everything is validated before such a call; what
//     is left is the loss of the GPU, see below.
//   - A shader with more workgroup memory than the limit is accepted and never
//     ends. It is refused here, and every wait has a deadline after which the
//     device is lost for good and its memory is abandoned, not freed.
//   - Memory that was never written is filled with zeros on first use, and on
//     NVIDIA a fill that starts off a 16-byte boundary hits the wrong bytes.
//     Buffers are multiples of 16 bytes and are initialised as a whole.
//
// Devices live in an instance of their own, because the binding destroys a
// device only together with its instance.
//
// # Kernels
//
// wgpu 0.17 has no cache of pipelines that a program could keep (wgpu has one since version 22), and
// makes one pipeline at a time in an instance. Drivers have caches of their own, which last: Mesa's
// in ~/.cache/mesa_shader_cache, NVIDIA's in ~/.cache/nvidia, those of Metal and Direct3D with the
// system. Compile makes use of them (compile.go). Shader Model 5 text for Direct3D 12 is compiled each
// time by FXC, which keeps nothing: Vulkan is preferred there.
//
// # A GPU that is lost
//
// A driver that crashed, hung for seconds or was updated, a laptop's GPU that was
// switched off: the driver says so in the middle of a submission or a wait, and
// wgpu panics, which would abort the process.
//
// On Linux the shim takes the panic (guard_linux.c). The call returns
// dispatch.ErrDeviceLost, and so do all later ones on that device; its memory is
// abandoned. Other devices work on, and the GPU can be opened again. wgpu writes a
// few lines to stderr before, which it has no setting for.
//
// On macOS and Windows the process ends. So it does on Linux if a driver reports the
// loss where its specification knows of none, such as an allocation, and if the
// driver itself crashes. A program that must outlive that runs its batches in
// another process.
//
// # In a browser
//
// A program of GOOS=js has the WebGPU of the page, or worker, that it runs in (navigator.gpu), which pages of
// https and of localhost have. What the sections above say of wgpu does not apply there, but:
//
//   - Calls wait for promises while other goroutines and the event loop go on. A callback of JavaScript
//     (js.FuncOf) must not make such a call itself, as it would wait for the loop that it holds up:
//     it starts a goroutine.
//   - Browsers check what is queued later. If they refuse work then, its results are not there, and the
//     device is lost: whoever waits for the work gets dispatch.ErrDeviceLost with the browser's words, as for
//     a GPU that is lost. Kernels and memory that are refused are errors of the calls that ask for them.
//   - Info knows what the browser does not hide: often the maker and the architecture alone, and no memory.
//     Of two adapters the one for speed is taken to be discrete, and the thrifty one to be integrated.
//   - Time is by timestamps, which browsers round to 0.1 ms, and by the wall clock where there are none or
//     the time is too short.
//
// # The log
//
// What wgpu logs, its warnings and errors, goes to backend.Logger, which is silent
// unless the program sets one, and so does what libwayland says where there is no
// display. What a Vulkan driver or loader writes to stderr by
// itself (Mesa with MESA_DEBUG, the loader with VK_LOADER_DEBUG) stays there.
package webgpu
