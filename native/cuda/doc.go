// Package cuda is the backend for NVIDIA GPUs of compute capability 8.0 and
// newer. It opens the driver's own library, libcuda.so.1, at run time through
// cgo: neither building nor running needs the CUDA toolkit, and one binary works
// with and without a GPU. The kernels are those of package native; package dl
// works with the library.
//
// # Streams
//
// All work of a device goes to one stream, which keeps it in order; programs may
// therefore keep one workspace for all their runs. A plan that runs again on the
// same buffers becomes a CUDA graph, because launching a graph takes the host
// 0.9 us however many launches it has, and a single launch 2.3 us (H200).
//
// OnStream gives a device whose work goes to a stream of the caller, a CUstream
// of the GPU's primary context, where it is ordered with the caller's own work,
// and Wrap makes buffers of memory that other libraries allocated. Submit does
// nothing there but launch kernels, so that the caller can capture it into a
// graph; while the stream is capturing, no other method may be called. The
// program must stay open, and its other runs must stay on that stream, as long
// as such a graph is used, because the graph works in the program's workspace.
//
// # Errors
//
// A kernel that fails leaves the whole process unable to use its GPU: that is
// how CUDA reports it. The device is lost then, and opening it again needs a new
// process. Running out of memory changes nothing.
package cuda
