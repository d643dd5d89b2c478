// Packed products on any CPU.

#include <algorithm>
#include <type_traits>

#include "problem.h"

#include "../floats.h"
#define ONEGRAPH_LANES 4

namespace onegraph {
namespace {

constexpr long ROWS = 3, LINES = 3;
#include "tiles.inc"

} // namespace

const PackedTiles PACKED_PORTABLE = TILES;

} // namespace onegraph
