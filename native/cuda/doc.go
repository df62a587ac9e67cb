// Package cuda is the backend for NVIDIA GPUs of compute capability 8.0 and newer. It opens the driver's
// library, libcuda.so.1, at run time through cgo: neither building nor running needs the CUDA toolkit, and
// one binary works with and without a GPU. The kernels are in package native; package dl calls the library.
//
// # Streams
//
// All work of a device goes to one stream, which keeps it in order, so all runs of a program share one
// workspace. A plan that runs again on the same buffers becomes a CUDA graph: launching a graph takes the
// host 0.9 us for any number of launches, and a single launch takes 2.3 us (H200).
//
// OnStream returns a device whose work goes to the caller's stream, a CUstream of the GPU's primary context,
// in order with the caller's own work. Wrap makes buffers from memory of other libraries. Submit only
// launches kernels there, so the caller can capture it in a graph. While the stream is capturing, call no
// other method. As long as such a graph is used, the program must stay open and its other runs must stay on
// that stream, because the graph uses the program's workspace.
//
// # Errors
//
// After a kernel fails, the whole process cannot use its GPU any more; that is a rule of CUDA. The device is
// lost, and opening it again needs a new process. Running out of memory has no such effect.
package cuda
