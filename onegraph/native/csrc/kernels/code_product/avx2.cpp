// Products of codes with AVX2.

#include <algorithm>
#include <cstring>

#include "problem.h"

#include "../amx.h"

#if defined(__x86_64__)
// gcc 12 warns of variables of its own intrinsics that are uninitialized on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC target("avx2,f16c,fma")
#define ONEGRAPH_LANES 8

namespace onegraph {
namespace {

#include "tiles.inc"

} // namespace

const CodeTiles CODES_AVX2 {multiply, multiply_channels};

} // namespace onegraph
#endif
