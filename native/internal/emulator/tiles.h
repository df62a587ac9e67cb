// Rows of tiles.inc of which whoever includes this makes nothing.
#pragma once

#ifndef BG_TILE
#define BG_TILE(...)
#endif
#ifndef BG_THIN
#define BG_THIN(...)
#endif
#ifndef BG_TILE_EPILOGUE
#define BG_TILE_EPILOGUE(...)
#endif
#ifndef BG_TENSOR
#define BG_TENSOR(...)
#endif
#ifndef BG_TENSOR_EPILOGUE
#define BG_TENSOR_EPILOGUE(...)
#endif
#ifndef BG_TENSOR_HALVES
#define BG_TENSOR_HALVES(...)
#endif
#ifndef BG_TENSOR_HALVES_EPILOGUE
#define BG_TENSOR_HALVES_EPILOGUE(...)
#endif
#ifndef BG_TENSOR_CLUSTER
#define BG_TENSOR_CLUSTER(...)
#endif
#ifndef BG_INT4
#define BG_INT4(...)
#endif
#ifndef BG_STREAM_INT4
#define BG_STREAM_INT4(...)
#endif
#ifndef BG_PANEL_INT4
#define BG_PANEL_INT4(...)
#endif
#ifndef BG_WGMMA
#define BG_WGMMA(...)
#endif
#ifndef BG_WGMMA_EPILOGUE
#define BG_WGMMA_EPILOGUE(...)
#endif
#ifndef BG_WGMMA_EXCHANGED
#define BG_WGMMA_EXCHANGED(...)
#endif
#ifndef BG_WGMMA_WIDE
#define BG_WGMMA_WIDE(...)
#endif
#ifndef BG_WGMMA_WIDE_EPILOGUE
#define BG_WGMMA_WIDE_EPILOGUE(...)
#endif
