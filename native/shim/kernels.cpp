// The kernels of kernels.hip as functions of the CPU, and their names. Unlike
// shim.cpp this file is compiled with sanitizers.
#include "device.h"

#include "../kernels.hip"
#include "kernels.h"

#undef BG_GEMM
#undef BG_KERNEL
#undef BG_TILE
#undef BG_MATRIX_TILE
#define BG_NAME(name) {#name, reinterpret_cast<void (*)()>(name)},
#define BG_TILE(name, ...) \
  BG_NAME(bg_##name##_nn)  \
  BG_NAME(bg_##name##_nt)  \
  BG_NAME(bg_##name##_tn)  \
  BG_NAME(bg_##name##_tt)  \
  BG_NAME(bg_##name##_fixup)
#define BG_MATRIX_TILE(name)    \
  BG_NAME(bg_##name##_nn_mfma)  \
  BG_NAME(bg_##name##_nt_mfma)  \
  BG_NAME(bg_##name##_tn_mfma)  \
  BG_NAME(bg_##name##_tt_mfma)

const ShimKernel bg_shim_kernels[] = {
#include "../tiles_hip.inc"
    {nullptr, nullptr},
};
