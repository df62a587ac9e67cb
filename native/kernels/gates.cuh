// Generated from internal/encoding: what kernels of gates read.
#pragma once

#include "../dialect.h"

constexpr uint32_t kLayerAlpha = 7, kLayerLimit = 8, kLayerScales = 9;
constexpr uint32_t kGELUExact = 4, kReLU2 = 5, kSwiGLUClamped = 6, kGateActivations = 7;
constexpr uint32_t kGateActivation = 7, kGateGated = 8, kGateInterleaved = 16, kGateBlocks = 32;
constexpr uint32_t kQuantizedLeast = 0x1f800000;  // bits
constexpr float kErfP = 0.3275911, kErfA0 = 0.2548296, kErfA1 = -0.28449672, kErfA2 = 1.4214138,
    kErfA3 = -1.4531521, kErfA4 = 1.0614054, kErfMost = 14;
