// Package hip is the backend for AMD GPUs: CDNA (gfx908, gfx90a, gfx942) and RDNA (gfx1030, gfx1100). It
// opens HIP's runtime library, libamdhip64, at run time through cgo: neither building nor running needs the
// ROCm toolkit, and one binary works with and without a GPU. The kernels are in package native, compiled for
// each architecture; package dl calls the library. It needs ROCm 5.0 or newer, or 5.6 for OnStream with a
// stream other than the default one.
//
// The backend has never run on AMD hardware. Its tests run the kernels, compiled for the CPU, with a library
// that emulates HIP.
//
// # Elements of 16 bits
//
// There are kernels for bf16 and fp16. On MI200 GPUs (gfx90a), matrix cores treat subnormal operands of
// these types as 0, also in AMD's own libraries.
//
// # Architecture
//
// A code object runs on one architecture, and hipDeviceGetAttribute does not return the architecture of a
// GPU. The properties have it in gcnArchName, but their struct changes from release to release (since 6.0
// there are two entry points with different layouts). The backend therefore searches the bytes of the struct
// for the one string that is the name of an architecture. Trying code objects until one loads is no
// alternative: some releases end the process if one does not fit.
//
// # Streams
//
// All work of a device goes to one stream, which keeps it in order, so all runs of a program share one
// workspace. Launches go one by one: AMD calls HIP's graphs unfinished, and there are reports of wrong
// results of replayed graphs for releases up to 7.2.
//
// OnStream returns a device whose work goes to the caller's stream, a hipStream_t of the GPU, in order with
// the caller's own work. Wrap makes buffers from memory of other libraries. Submit only launches kernels
// there.
//
// # Errors
//
// If a kernel accesses memory that does not exist, AMD's runtime ends the process. After other failures of a
// kernel the device is lost. Running out of memory has no such effect.
package hip
