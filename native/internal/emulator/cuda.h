// What clang needs of CUDA's headers to read device text for NVIDIA, where there are none
// (compile_alone_test.go).
#pragma once

#include <stddef.h>
#include <stdint.h>

#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __align__(n) __attribute__((aligned(n)))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))

struct dim3 {
  unsigned x, y, z;
};
extern const __device__ dim3 threadIdx, blockIdx, gridDim;

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
__device__ float4 make_float4(float, float, float, float);
__device__ float2 make_float2(float, float);
__device__ uint4 make_uint4(unsigned, unsigned, unsigned, unsigned);
__device__ uint2 make_uint2(unsigned, unsigned);
__device__ unsigned min(unsigned, unsigned);
__device__ unsigned max(unsigned, unsigned);
__device__ int min(int, int);
__device__ int max(int, int);
__device__ float fabsf(float);
__device__ double fma(double, double, double);
__device__ double exp(double);
__device__ double __hiloint2double(int, int);
__device__ float fmaf(float, float, float);
__device__ float __uint_as_float(unsigned);
__device__ unsigned __float_as_uint(float);
__device__ void __syncthreads();
__device__ void __syncwarp(unsigned mask = 0xffffffff);
__device__ int __syncthreads_or(int);
__device__ unsigned __reduce_add_sync(unsigned, unsigned);
__device__ unsigned __match_any_sync(unsigned, unsigned);
__device__ int __any_sync(unsigned, int);
__device__ unsigned __funnelshift_l(unsigned, unsigned, unsigned);
template <class T>
__device__ T __shfl_sync(unsigned, T, int, int width = 32);
template <class T>
__device__ T __shfl_up_sync(unsigned, T, unsigned);
template <class T>
__device__ T __shfl_xor_sync(unsigned, T, int);
__device__ int __popc(unsigned);
__device__ unsigned __byte_perm(unsigned, unsigned, unsigned);
__device__ unsigned atomicMin(unsigned*, unsigned);
__device__ unsigned atomicAdd(unsigned*, unsigned);
__device__ float rintf(float);
__device__ size_t __cvta_generic_to_shared(const void*);
__device__ size_t __cvta_generic_to_global(const void*);
__device__ bool __isGlobal(const void*);
__device__ void* memcpy(void*, const void*, size_t);
