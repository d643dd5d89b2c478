// Panel products with AVX2.

#include <algorithm>
#include <cstring>

#include "problem.h"

#include "../floats.h"
#pragma GCC optimize("fp-contract=fast")

#if defined(__x86_64__)
#pragma GCC target("avx2,f16c,fma")
#define ONEGRAPH_LANES 8

namespace onegraph {
namespace {

#include "tiles.inc"

} // namespace

const Panels PANELS_AVX2 {add, convolve, convolve_channels};

} // namespace onegraph
#endif
