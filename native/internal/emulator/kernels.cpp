// The kernels of kernels.hip as functions of the CPU, and their names. Unlike
// shim.cpp this file is compiled with sanitizers.
#include "device.h"

#include "../../kernels.hip"
#include "kernels.h"

#undef BG_TILE
#undef BG_GEMM
#undef BG_FIXUP
#undef BG_RAGGED
#undef BG_LAYER
#undef BG_GATE
#undef BG_EPILOGUE_GEMM
#undef BG_EPILOGUE_FIXUP
#undef BG_EPILOGUE_RAGGED
#define BG_TILE(...)
#define BG_GEMM(name, ...) {#name, reinterpret_cast<void (*)()>(name)},
#define BG_FIXUP BG_GEMM
#define BG_RAGGED BG_GEMM
#define BG_LAYER BG_GEMM
#define BG_GATE BG_GEMM
#define BG_EPILOGUE_GEMM BG_GEMM
#define BG_EPILOGUE_FIXUP BG_GEMM
#define BG_EPILOGUE_RAGGED BG_GEMM

const ShimKernel bg_shim_kernels[] = {
#include "../../lists/ragged.inc"
#include "../../lists/routing.inc"
#include "../../lists/hip.inc"
    {nullptr, nullptr},
};
