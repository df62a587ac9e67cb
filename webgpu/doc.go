// Package webgpu is the portable backend: it runs plans as WGSL compute shaders
// on any GPU with a Vulkan, Metal or Direct3D 12 driver, on Mesa's software
// rasterizer lavapipe, and in a browser (GOOS=js). It is the only package that imports go-webgpu.
//
// The common part uses a device by the names that library.go and library_js.go both define.
//
// # The binding
//
// go-webgpu v0.17.1 wraps wgpu-native 0.17.0.2. Six of its faults shape this
// package:
//
//   - Poll(true) waits 5 s at most and then reports unfinished work as done.
//     Waits are loops of Poll(false) and a pause (poll.go).
//   - MapAsync and OnSubmittedWorkDone hand C a pointer to a Go variable and
//     return. The shim calls the C functions with its own memory (shim.c).
//   - Error scopes are one stack per device. A mutex is held around every call.
//   - Errors in Submit, Poll and GetMappedRange, zero binding sizes and empty
//     shaders abort the process. Everything is validated before such a call, so
//     only the loss of the GPU remains, see below.
//   - A shader with more workgroup memory than the limit is accepted and never
//     ends. It is refused here. Every wait has a deadline: after it the device is
//     lost for good, and its memory is abandoned, not freed.
//   - Memory that was never written is filled with zeros on first use, and on
//     NVIDIA a fill that starts off a 16-byte boundary hits the wrong bytes.
//     Buffers are multiples of 16 bytes and are initialised whole.
//
// Each device has its own instance, because the binding destroys a device only together with its instance.
//
// # Kernels
//
// wgpu 0.17 has no pipeline cache that a program could keep (wgpu has one since version 22), and makes one
// pipeline at a time in an instance. Drivers have persistent caches: Mesa in ~/.cache/mesa_shader_cache,
// NVIDIA in ~/.cache/nvidia, Metal and Direct3D in the system. Compile uses them (compile.go). For Direct3D
// 12, FXC compiles Shader Model 5 text each time and caches nothing, so Vulkan is preferred there.
//
// # A GPU that is lost
//
// A driver may crash, hang for seconds or be updated, and a laptop may switch off its GPU. The driver
// reports that in the middle of a submission or a wait, and wgpu panics, which would abort the process.
//
// On Linux the shim catches the panic (guard_linux.c). The call returns dispatch.ErrDeviceLost, and so do
// all later calls on that device; its memory is abandoned. Other devices continue to work, and the GPU can
// be opened again. wgpu first writes a few lines to stderr; no setting turns these off.
//
// On macOS and Windows the process ends. On Linux it also ends if the driver itself crashes, or if it
// reports the loss in a call where its specification allows none, such as an allocation. A program that must
// survive this runs its batches in another process.
//
// # In a browser
//
// A program with GOOS=js uses the WebGPU of its page or worker (navigator.gpu), which pages of https and of
// localhost have. The sections above about wgpu do not apply there. Instead:
//
//   - Calls wait for promises while other goroutines and the event loop run. A callback of JavaScript
//     (js.FuncOf) must not make such a call, because it would wait for the loop that it blocks: start a
//     goroutine.
//   - Browsers check queued work later. If they refuse it, its results are missing and the device is lost:
//     calls that wait for the work return dispatch.ErrDeviceLost with the browser's message. Refused kernels
//     and memory are errors of the calls that ask for them.
//   - Info has what the browser does not hide: often only the maker and the architecture, and no memory.
//     Of two adapters, the high-performance one is assumed to be discrete, the low-power one integrated.
//   - Time uses timestamps, which browsers round to 0.1 ms. It uses the wall clock if there are none or
//     the time is too short.
//
// # The log
//
// Warnings and errors of wgpu go to backend.Logger, which is silent unless the program sets one. So do
// messages of libwayland if there is no display. Output that a Vulkan driver or loader writes to stderr by
// itself (Mesa with MESA_DEBUG, the loader with VK_LOADER_DEBUG) stays there.
package webgpu
