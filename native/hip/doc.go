// Package hip is the backend for AMD GPUs: CDNA (gfx908, gfx90a, gfx942) and RDNA
// (gfx1030, gfx1100). It opens HIP's runtime library, libamdhip64, at run time
// through cgo: neither building nor running needs the ROCm toolkit, and one
// binary works with and without a GPU. The kernels are those of package native,
// compiled for each architecture; package dl works with the library. ROCm 5.0 or
// newer is needed, for OnStream with a stream other than the default one 5.6.
//
// The backend was never run on AMD hardware. Its tests run the kernels, compiled
// for the CPU, behind a library that plays HIP.
//
// # Elements of 16 bits
//
// There are kernels for bf16 and fp16. On MI200 GPUs (gfx90a) matrix cores take such
// operands below the least normal number for 0, as AMD's own libraries have it there.
//
// # Architecture
//
// A code object runs on one architecture, and hipDeviceGetAttribute does not tell
// which one a GPU has. The properties do, in gcnArchName, but the struct changes
// from release to release (since 6.0 there are two entry points with a layout
// each). The backend therefore takes the one string in its bytes that is the name
// of an architecture, wherever it lies. Trying code objects until one loads is no
// alternative: some releases end the process when one does not fit.
//
// # Streams
//
// All work of a device goes to one stream, which keeps it in order; programs may
// therefore keep one workspace for all their runs. Launches go one by one: AMD
// calls HIP's graphs unfinished, and wrong results of replayed graphs are
// reported for releases up to 7.2.
//
// OnStream gives a device whose work goes to a stream of the caller, a
// hipStream_t of the GPU, where it is ordered with the caller's own work, and
// Wrap makes buffers of memory that other libraries allocated. Submit does
// nothing there but launch kernels.
//
// # Errors
//
// A kernel that reads or writes memory that is not there ends the process: that
// is what AMD's runtime does. Other failures of a kernel lose the device. Running
// out of memory changes nothing.
package hip
