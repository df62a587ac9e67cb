// The kernels that kernels.cpp gives to shim.cpp.
#pragma once

struct ShimKernel {
  const char* name;
  void (*function)();
};
extern const ShimKernel bg_shim_kernels[];  // ends with a null name
