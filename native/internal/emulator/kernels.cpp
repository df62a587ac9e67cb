// The kernels of kernels.hip as functions of the CPU, and their names. Unlike
// shim.cpp this file is compiled with sanitizers.
#include "device.h"

#include "../../kernels.hip"
#include "kernels.h"

// This GPU has matrix cores, and also what those without have.
#undef BG_TILE
#undef BG_TILE_EPILOGUE
#undef BG_MATRIX_TILE
#undef BG_MATRIX_TILE_EPILOGUE
#define BG_TILE(...)
#define BG_TILE_EPILOGUE(...)
#define BG_MATRIX_TILE(name, ...) BG_FMAS(BG_GEMM, name)
#define BG_MATRIX_TILE_EPILOGUE(name) BG_FMAS(BG_DRESSED, name) BG_FMA_BYTES(BG_GEMM, name) BG_FMA_BYTES(BG_DRESSED, name) BG_INT4(name, GroupedAccumulator, )
#include "../../tiles_hip.inc"

#undef BG_GEMM
#undef BG_DRESSED
#undef BG_GROUPED
#undef BG_FIXUP
#undef BG_DRESSED_FIXUP
#undef BG_TILE
#undef BG_TILE_EPILOGUE
#undef BG_MATRIX_TILE
#undef BG_MATRIX_TILE_EPILOGUE
#undef BG_RAGGED_KERNEL
#undef BG_RAGGED_DRESSED
#define BG_RAGGED_DRESSED(name, ...) BG_NAME(name)
#define BG_RAGGED_KERNEL(name, ...) BG_NAME(name)
#define BG_NAME(name) {#name, reinterpret_cast<void (*)()>(name)},
#define BG_GEMM(name, suffix, ...) BG_NAME(bg_##name##_##suffix)
#define BG_DRESSED(name, suffix, ...) BG_NAME(bg_##name##_##suffix##_e)
#define BG_GROUPED BG_DRESSED
#define BG_FIXUP(name, end, ...) BG_NAME(bg_##name##_fixup##end)
#define BG_DRESSED_FIXUP(name, end, ...) BG_NAME(bg_##name##_fixup##end##_e)
#undef BG_PARTS
#define BG_PART(name, suffix, end) {"bg_" #name "_" #suffix "_parts" #end, reinterpret_cast<void (*)()>(bg_##name##_##suffix##end)},
#define BG_PARTS(name, end) BG_PART(name, nn, end) BG_PART(name, nt, end) BG_PART(name, tn, end) BG_PART(name, tt, end)
#define BG_TILE(name, ...) BG_FMAS(BG_GEMM, name) BG_PARTS(name, ) BG_FIXUPS(BG_FIXUP, name)
#define BG_TILE_EPILOGUE(name) BG_FMAS(BG_DRESSED, name) BG_FMA_BYTES(BG_GEMM, name) BG_FMA_BYTES(BG_DRESSED, name) BG_INT4(name, GroupedAccumulator, ) BG_FIXUPS(BG_DRESSED_FIXUP, name)
#define BG_MATRIX_TILE(name, ...) BG_TILE(name) BG_MATRICES(BG_GEMM, name) BG_PARTS(name, _mfma)
#define BG_MATRIX_TILE_EPILOGUE(name) BG_TILE_EPILOGUE(name) BG_MATRICES(BG_DRESSED, name) BG_MATRIX_BYTES(BG_GEMM, name) BG_MATRIX_BYTES(BG_DRESSED, name) BG_INT4(name, GroupedMatrixAccumulator, _mfma)

const ShimKernel bg_shim_kernels[] = {
    BG_RAGGED_KERNELS
    BG_RAGGED_DRESSED_KERNELS
#include "../../tiles_hip.inc"
    {nullptr, nullptr},
};
