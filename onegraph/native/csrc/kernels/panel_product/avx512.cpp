// Panel products with AVX-512.

#include <algorithm>
#include <cstring>

#include "problem.h"

#include "../floats.h"
#pragma GCC optimize("fp-contract=fast")

#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma,prefer-vector-width=512")
#define ONEGRAPH_LANES 16

namespace onegraph {
namespace {

#include "tiles.inc"

} // namespace

const Panels PANELS_AVX512 {add, convolve, convolve_channels};

} // namespace onegraph
#endif
