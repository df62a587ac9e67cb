// What the lines of lists/ are here: functions of kernels of warpgroups, or, once BG_NAMES is defined, rows
// of kWarpgroupKernels.
#define BG_SM90
#undef BG_TILE
#undef BG_GEMM
#undef BG_FIXUP
#undef BG_EPILOGUE_GEMM
#undef BG_EPILOGUE_FIXUP
#undef BG_ROW
#ifndef BG_NAMES
#define BG_PARAMETERS                                                                                      \
  const uint4 *items, [[maybe_unused]] const uint32_t *table, [[maybe_unused]] const float *A,             \
      [[maybe_unused]] const float *B, float *C, float *workspace, [[maybe_unused]] const void *B2,        \
      [[maybe_unused]] const void *bias, [[maybe_unused]] const uint32_t *rows, \
          [[maybe_unused]] uint32_t flags
#define BG_TILE(name, ...) using name = __VA_ARGS__;
#define BG_GEMM(name, tile, function, ...) \
  void name(BG_PARAMETERS) { function<tile, __VA_ARGS__>(items, table, A, B, C, workspace); }
#define BG_EPILOGUE_GEMM(name, tile, function, ...) \
  void name(BG_PARAMETERS) { function<tile __VA_OPT__(, ) __VA_ARGS__>(items, table, A, B, C, workspace, \
      Epilogue{B2, bias, rows, flags}); }
#define BG_FIXUP(name, tile, Element) \
  void name(BG_PARAMETERS) { fixup<tile, Element>(items, C, workspace); }
#define BG_EPILOGUE_FIXUP(name, tile, Element) \
  void name(BG_PARAMETERS) { fixup<tile, Element, Epilogue>(items, C, workspace, \
      Epilogue{nullptr, bias, rows, flags}); }
#else
#define BG_TILE(...)
#define BG_ROW(name, minGroups) {#name, name, minGroups},
#define BG_GEMM(name, tile, ...) BG_ROW(name, tile::kMinGroups)
#define BG_EPILOGUE_GEMM(name, tile, ...) BG_ROW(name, tile::kMinGroups)
#define BG_FIXUP(name, ...) BG_ROW(name, 1)
#define BG_EPILOGUE_FIXUP(name, ...) BG_ROW(name, 1)
#endif
