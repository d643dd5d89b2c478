// Several elementwise ops at once, with AVX2 and FMA.

#include "problem.h"

#include <cmath>

#include "../floats.h"
// No vector is passed to a function that is called: all of them are inlined.
#pragma GCC diagnostic ignored "-Wpsabi"

#if defined(__x86_64__)
#pragma GCC target("avx2,fma,f16c")
#define ONEGRAPH_LANES 8

namespace onegraph {
namespace {

#include "stages.inc"

} // namespace

const PointwiseCompute pointwise_avx2 = compute_all;

} // namespace onegraph
#endif
