// Attention with AVX2 and FMA.

#include "problem.h"

#include "../floats.h"
#pragma GCC optimize("fp-contract=fast")

#if defined(__x86_64__)
#pragma GCC target("avx2,fma,f16c")
#define ONEGRAPH_LANES 8

namespace onegraph {
namespace {

constexpr long VECTORS = 2, ROWS = 4;
#include "../vectors.inc"
#include "tiles.inc"

} // namespace

const AttentionTiles AVX2_TILES = TILES;

} // namespace onegraph
#endif
