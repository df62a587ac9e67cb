// The kernels of wgmma.cuh, and the fix-ups of their tiles, as functions of the CPU. This
// file is compiled with -fsanitize=thread, so that warpgroup.cpp is called for each load
// and store.
#include "warpgroup.h"

#include <type_traits>

#include "../../gemm.cuh"
#include "../../fixup.cuh"
#include "../../epilogue.cuh"
#include "../../half.cuh"
#include "../../fragment.cuh"
#include "../../tensor.cuh"
#include "../../wgmma_operand.cuh"
#include "../../wgmma_items.cuh"
#include "../../wgmma_store.cuh"
#include "../../wgmma_epilogue.cuh"
#include "../../wgmma_exchanged.cuh"
#include "../../wgmma_tile.cuh"
#include "../../wgmma.cuh"
#include "../../wgmma_half.cuh"
#include "../../wgmma_wide.cuh"
#include "../../wgmma_bytes.cuh"

namespace {

using BytesE4M3 = Bytes<E4M3, BF16, F16>;
using BytesInt8 = Bytes<Int8, BF16, F16>;

#define BG_WGMMA_EPILOGUE(name, ...)                                             \
  using name##_e = WgmmaTile<__VA_ARGS__, true, Floats, Epilogue>;               \
  using name##_bf16_e = WgmmaTile<__VA_ARGS__, false, Halves<BF16>, Epilogue>;   \
  using name##_f16_e = WgmmaTile<__VA_ARGS__, false, Halves<F16>, Epilogue>;     \
  using name##_e4m3_e = WgmmaTile<__VA_ARGS__, false, BytesE4M3, Epilogue>;     \
  using name##_int8_e = WgmmaTile<__VA_ARGS__, false, BytesInt8, Epilogue>;
#define BG_WGMMA(name, ...)                            \
  using name = WgmmaTile<__VA_ARGS__, true>;           \
  using name##_tf32 = WgmmaTile<__VA_ARGS__, false>;   \
  using name##_bf16 = WgmmaTile<__VA_ARGS__, false, Halves<BF16>>; \
  using name##_f16 = WgmmaTile<__VA_ARGS__, false, Halves<F16>>;   \
  using name##_e4m3 = WgmmaTile<__VA_ARGS__, false, BytesE4M3>;    \
  using name##_int8 = WgmmaTile<__VA_ARGS__, false, BytesInt8>;
#define BG_WGMMA_EXCHANGED(name, TM, TN, ...)                                \
  using name = WgmmaTile<TN, TM, __VA_ARGS__, true, Floats, Exchanged>;      \
  using name##_tf32 = WgmmaTile<TN, TM, __VA_ARGS__, false, Floats, Exchanged>;
#define BG_WGMMA_WIDE(name, ...)                         \
  using name##_bf16 = WideTile<__VA_ARGS__, Halves<BF16>>; \
  using name##_f16 = WideTile<__VA_ARGS__, Halves<F16>>; \
  using name##_e4m3 = WideTile<__VA_ARGS__, BytesE4M3>;  \
  using name##_int8 = WideTile<__VA_ARGS__, BytesInt8>;
#define BG_WGMMA_WIDE_EPILOGUE(name, ...)                            \
  using name##_bf16_e = WideTile<__VA_ARGS__, Halves<BF16>, Epilogue>; \
  using name##_f16_e = WideTile<__VA_ARGS__, Halves<F16>, Epilogue>;   \
  using name##_e4m3_e = WideTile<__VA_ARGS__, BytesE4M3, Epilogue>;    \
  using name##_int8_e = WideTile<__VA_ARGS__, BytesInt8, Epilogue>;    \
  using name##_bf16_gated_e = WideTile<__VA_ARGS__, Halves<BF16>, Epilogue, true>; \
  using name##_f16_gated_e = WideTile<__VA_ARGS__, Halves<F16>, Epilogue, true>;   \
  using name##_e4m3_gated_e = WideTile<__VA_ARGS__, BytesE4M3, Epilogue, true>;    \
  using name##_int8_gated_e = WideTile<__VA_ARGS__, BytesInt8, Epilogue, true>;
#include "tiles.h"
#include "../../tiles.inc"
#undef BG_WGMMA
#undef BG_WGMMA_EPILOGUE
#undef BG_WGMMA_EXCHANGED
#undef BG_WGMMA_WIDE
#undef BG_WGMMA_WIDE_EPILOGUE

// IsWide tells the tiles of wgmma_wide.cuh, which load no steps ahead.
template <class T, class = void>
struct IsWide : std::true_type {};
template <class T>
struct IsWide<T, std::void_t<decltype(T::kAhead)>> : std::false_type {};

template <class T, bool kTransA, bool kTransB, bool kInTurn, bool kParts = false>
void gemmOf(const uint4* items, const uint32_t* table, const float* A, const float* B, float* C, float* workspace,
            const void* B2, const void* bias, const uint32_t* rows, uint32_t flags) {
  typename T::More more{};
  if constexpr (T::More::kIs) more = {B2, bias, rows, flags};
  if constexpr (IsWide<T>::value) wgmmaWide<T, kTransA, kTransB, kInTurn>(items, table, A, B, C, workspace, more);
  else if constexpr (T::kExchanged) wgmmaExchanged<T, kTransA, kTransB, kInTurn, kParts>(items, table, A, B, C, workspace, more);
  else wgmmaGemm<T, kTransA, kTransB, kInTurn, kParts>(items, table, A, B, C, workspace, more);
}

template <class T, class Element = Floats>
void fixupOf(const uint4* items, const uint32_t*, const float*, const float*, float* C, float* workspace, const void*, const void*, const uint32_t*, uint32_t) {
  fixup<T, Element>(items, C, workspace);
}
template <class T, class Element>
void dressedFixupOf(const uint4* items, const uint32_t*, const float*, const float*, float* C, float* workspace, const void*, const void* bias,
                    const uint32_t* rows, uint32_t flags) {
  fixup<T, Element, Epilogue>(items, C, workspace, Epilogue{nullptr, bias, rows, flags});
}

}  // namespace

#define BG_MODE(name, mode, suffix, ...)                                                               \
  {"bg_" #name "_nn" #mode #suffix, gemmOf<name##mode, false, false, __VA_ARGS__>, name##mode::kMinGroups},    \
  {"bg_" #name "_nt" #mode #suffix, gemmOf<name##mode, false, true, __VA_ARGS__>, name##mode::kMinGroups},     \
  {"bg_" #name "_tn" #mode #suffix, gemmOf<name##mode, true, false, __VA_ARGS__>, name##mode::kMinGroups},     \
  {"bg_" #name "_tt" #mode #suffix, gemmOf<name##mode, true, true, __VA_ARGS__>, name##mode::kMinGroups},
// Of bytes along K.
#define BG_LINES(name, type, suffix, inTurn) {"bg_" #name "_nt" #suffix, gemmOf<name##type, false, true, inTurn>, name##type::kMinGroups},
#define BG_WGMMA_FLOATS(name, ofC)     \
  BG_MODE(name, , , false)             \
  BG_MODE(name, , _parts, false, true) \
  BG_MODE(name, _tf32, , false)        \
  BG_WGMMA_TURNS(name)                 \
  {"bg_" #name "_fixup", fixupOf<ofC>, 1},
#define BG_WGMMA_EXCHANGED(name, ...) BG_WGMMA_FLOATS(name, TileOfC<name>)
#ifdef BG_MUTANT  // what its jobs use, which compiles soon
#define BG_WGMMA_TURNS(name)
#define BG_WGMMA(name, ...) BG_WGMMA_FLOATS(name, name)
#else
#define BG_WGMMA_TURNS(name)   \
  BG_MODE(name, , _turn, true) \
  BG_MODE(name, _tf32, _turn, true)
#define BG_WGMMA(name, ...)            \
  BG_WGMMA_FLOATS(name, name)          \
  BG_MODE(name, _bf16, , false)                                 \
  BG_MODE(name, _f16, , false)                                  \
  BG_MODE(name, _bf16, _turn, true)                             \
  BG_MODE(name, _f16, _turn, true)                              \
  BG_MODE(name, _e4m3, , false)                                 \
  BG_MODE(name, _int8, , false)                                 \
  BG_MODE(name, _e4m3, _turn, true)                             \
  BG_MODE(name, _int8, _turn, true)                             \
  {"bg_" #name "_fixup_bf16", fixupOf<name, Halves<BF16>>, 1},  \
  {"bg_" #name "_fixup_f16", fixupOf<name, Halves<F16>>, 1},
#endif
#ifdef BG_MUTANT
#define BG_WGMMA_WIDE(name, ...)                                \
  BG_MODE(name, _bf16, , false)                                 \
  BG_LINES(name, _e4m3, _e4m3, false)                           \
  BG_LINES(name, _int8, _int8, false)                           \
  {"bg_" #name "_fixup", fixupOf<name##_bf16>, 1},              \
  {"bg_" #name "_fixup_bf16", fixupOf<name##_bf16, Halves<BF16>>, 1}, \
  {"bg_" #name "_fixup_f16", fixupOf<name##_bf16, Halves<F16>>, 1},
#else
#define BG_WGMMA_WIDE(name, ...)                                \
  BG_MODE(name, _bf16, , false)                                 \
  BG_MODE(name, _f16, , false)                                  \
  BG_MODE(name, _bf16, _turn, true)                             \
  BG_MODE(name, _f16, _turn, true)                              \
  BG_LINES(name, _e4m3, _e4m3, false)                           \
  BG_LINES(name, _int8, _int8, false)                           \
  BG_LINES(name, _e4m3, _e4m3_turn, true)                       \
  BG_LINES(name, _int8, _int8_turn, true)                       \
  {"bg_" #name "_fixup", fixupOf<name##_bf16>, 1},              \
  {"bg_" #name "_fixup_bf16", fixupOf<name##_bf16, Halves<BF16>>, 1}, \
  {"bg_" #name "_fixup_f16", fixupOf<name##_f16, Halves<F16>>, 1},
#endif
#define BG_DRESSED(name, type, suffix, inTurn)                                                               \
  {"bg_" #name "_nn" #suffix "_e", gemmOf<name##type##_e, false, false, inTurn>, name##type##_e::kMinGroups},          \
  {"bg_" #name "_nt" #suffix "_e", gemmOf<name##type##_e, false, true, inTurn>, name##type##_e::kMinGroups},           \
  {"bg_" #name "_tn" #suffix "_e", gemmOf<name##type##_e, true, false, inTurn>, name##type##_e::kMinGroups},           \
  {"bg_" #name "_tt" #suffix "_e", gemmOf<name##type##_e, true, true, inTurn>, name##type##_e::kMinGroups},
#define BG_WGMMA_EPILOGUE(name, ...)                                         \
  BG_DRESSED(name, , , false)                                                \
  BG_DRESSED(name, , _turn, true)                                            \
  BG_DRESSED(name, _bf16, _bf16, false)                                      \
  BG_DRESSED(name, _f16, _f16, false)                                        \
  BG_DRESSED(name, _bf16, _bf16_turn, true)                                  \
  BG_DRESSED(name, _f16, _f16_turn, true)                                    \
  BG_DRESSED(name, _e4m3, _e4m3, false)                                      \
  BG_DRESSED(name, _int8, _int8, false)                                      \
  BG_DRESSED(name, _e4m3, _e4m3_turn, true)                                  \
  BG_DRESSED(name, _int8, _int8_turn, true)                                  \
  {"bg_" #name "_fixup_e", dressedFixupOf<name##_e, Floats>, 1},             \
  {"bg_" #name "_fixup_bf16_e", dressedFixupOf<name##_e, Halves<BF16>>, 1},  \
  {"bg_" #name "_fixup_f16_e", dressedFixupOf<name##_e, Halves<F16>>, 1},

#define BG_WIDE_DRESSED(name, type)                                          \
  BG_DRESSED(name, type, type, false)                                        \
  BG_DRESSED(name, type, type##_turn, true)                                  \
  BG_DRESSED(name, type##_gated, type##_gated, false)                        \
  BG_DRESSED(name, type##_gated, type##_turn_gated, true)
#define BG_WIDE_LINES(name, type)                                            \
  BG_LINES(name, type##_e, type##_e, false)                                  \
  BG_LINES(name, type##_e, type##_turn_e, true)                              \
  BG_LINES(name, type##_gated_e, type##_gated_e, false)                      \
  BG_LINES(name, type##_gated_e, type##_turn_gated_e, true)
#define BG_WGMMA_WIDE_EPILOGUE(name, ...)                                    \
  BG_WIDE_DRESSED(name, _bf16)                                               \
  BG_WIDE_DRESSED(name, _f16)                                                \
  BG_WIDE_LINES(name, _e4m3)                                                 \
  BG_WIDE_LINES(name, _int8)                                                 \
  {"bg_" #name "_fixup_e", dressedFixupOf<name##_bf16_e, Floats>, 1},        \
  {"bg_" #name "_fixup_bf16_e", dressedFixupOf<name##_bf16_e, Halves<BF16>>, 1}, \
  {"bg_" #name "_fixup_f16_e", dressedFixupOf<name##_f16_e, Halves<F16>>, 1},

const WarpgroupKernel kWarpgroupKernels[] = {
#include "../../tiles.inc"
    {nullptr, nullptr, 0},
};
