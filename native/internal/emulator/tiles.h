// Of the lines of lists/ those of tiles alone, which whoever includes this defines.
#pragma once

#define BG_GEMM(...)
#define BG_FIXUP(...)
#define BG_EPILOGUE_GEMM(...)
#define BG_EPILOGUE_FIXUP(...)
