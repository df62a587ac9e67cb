// What device text needs of the language that it is compiled as. Tests that run it on the CPU as kernels of
// CUDA (internal/emulator/host.h) have that themselves, and include it first.
#pragma once

#if defined(__CUDACC__) || defined(__CUDA__)
#define BG_CUDA
#include "ptx/dialect_cuda.h"
#elif defined(__HIP__) || defined(BG_SHIM)
#include "amd/dialect_hip.h"
#endif

// BG_INLINE is for lambdas. For AMD, clang calls large ones, with what they capture in scratch memory.
#ifdef __AMDGCN__
#define BG_INLINE __attribute__((always_inline))
#else
#define BG_INLINE
#endif
