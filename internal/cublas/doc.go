// Package cublas runs batches with NVIDIA's cuBLAS, for comparison in benchmarks, and times work in CUDA
// streams and graphs. It opens libcuda and libcublas at run time; building needs neither.
package cublas
