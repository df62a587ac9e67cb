// The kernels of kernels.hip as functions of the CPU, and their names. Unlike
// shim.cpp this file is compiled with sanitizers.
#include "device.h"

#include "../../kernels.hip"
#include "kernels.h"

// This GPU has matrix cores, and also what those without have.
#undef BG_TILE
#undef BG_MATRIX_TILE
#define BG_TILE(...)
#define BG_MATRIX_TILE(name, ...)     \
  BG_GEMMS(name, , Accumulator<name>) \
  BG_HALVES(name, HalfAccumulator, )
#include "../../tiles_hip.inc"

#undef BG_GEMM
#undef BG_FIXUP
#undef BG_TILE
#undef BG_MATRIX_TILE
#undef BG_RAGGED_KERNEL
#define BG_RAGGED_KERNEL(name, ...) BG_NAME(name)
#define BG_NAME(name) {#name, reinterpret_cast<void (*)()>(name)},
#define BG_GEMM(name, suffix, ...) BG_NAME(bg_##name##_##suffix)
#define BG_FIXUP(name, end, ...) BG_NAME(bg_##name##_fixup##end)
#define BG_TILE(name, ...) BG_GEMMS(name, , ) BG_HALVES(name, , ) BG_FIXUPS(name)
#define BG_MATRIX_TILE(name, ...) BG_TILE(name) BG_GEMMS(name, _mfma, ) BG_HALVES(name, , _mfma)

const ShimKernel bg_shim_kernels[] = {
    BG_RAGGED_KERNELS
#include "../../tiles_hip.inc"
    {nullptr, nullptr},
};
