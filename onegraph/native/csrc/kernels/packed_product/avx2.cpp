// Packed products with AVX2.

#include <algorithm>
#include <type_traits>

#include "problem.h"

#include "../floats.h"
#pragma GCC optimize("fp-contract=fast")

#if defined(__x86_64__)
// gcc 12 warns of variables of its own intrinsics that are uninitialized on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC target("avx2,fma,f16c")
#define ONEGRAPH_LANES 8

namespace onegraph {
namespace {

constexpr long ROWS = 3, LINES = 4;
#include "tiles.inc"

} // namespace

const PackedTiles PACKED_AVX2 = TILES;

} // namespace onegraph
#endif
