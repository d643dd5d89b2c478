// Attention of bf16 tensors with the tiles of AMX.

#include "problem.h"

#include "../amx.h"
#include "../floats.h"
#pragma GCC optimize("fp-contract=fast")

#if defined(__x86_64__)
// gcc 12 warns of variables of its own intrinsics that are uninitialized on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,f16c,prefer-vector-width=512")
#define ONEGRAPH_PAIRS
#define ONEGRAPH_TILES
#define ONEGRAPH_LANES 16

namespace onegraph {
namespace {

constexpr long VECTORS = 2, ROWS = 8;
#include "../vectors.inc"
#include "tiles.inc"

} // namespace

const AttentionTiles AMX_TILES = TILES;

} // namespace onegraph
#endif
