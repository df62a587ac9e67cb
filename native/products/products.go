// Package products has the compiled kernels of package native, in builds that can use them. scripts/cuda.sh
// and scripts/hip.sh made them, scripts/pack.sh packed them.
package products

import "github.com/batchgemm/batchgemm/internal/kernelfile"

// CUDA and HIP are the products for GPUs of NVIDIA and of AMD. cuda.go and hip.go say which builds have
// them.
var CUDA, HIP = kernelfile.New(nil), kernelfile.New(nil)
