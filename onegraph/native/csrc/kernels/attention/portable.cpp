// Attention on any CPU.

#include "problem.h"

#include "../floats.h"
#pragma GCC optimize("fp-contract=fast")
#define ONEGRAPH_LANES 4

namespace onegraph {
namespace {

constexpr long VECTORS = 2, ROWS = 4;
#include "../vectors.inc"
#include "tiles.inc"

} // namespace

const AttentionTiles PORTABLE_TILES = TILES;

} // namespace onegraph
