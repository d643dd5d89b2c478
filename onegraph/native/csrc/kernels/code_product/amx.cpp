// Products of codes with the tiles of AMX.

#include <algorithm>
#include <cstring>

#include "problem.h"

#include "../amx.h"

#if defined(__x86_64__)
// gcc 12 warns of variables of its own intrinsics that are uninitialized on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,prefer-vector-width=512")
#define ONEGRAPH_LANES 16
#define ONEGRAPH_TILES

namespace onegraph {
namespace {

#include "tiles.inc"

} // namespace

const CodeTiles CODES_AMX {multiply, multiply_channels};

} // namespace onegraph
#endif
