// Package cublas runs batches through NVIDIA's own library, for benchmarks to
// compare with, and times work in CUDA streams and graphs. It opens libcuda and
// libcublas at run time and needs neither to build.
package cublas
