// Several elementwise ops at once, with AVX-512.

#include "problem.h"

#include <cmath>

#include "../floats.h"

#if defined(__x86_64__)
// gcc 12 warns of variables of its own intrinsics that are uninitialized on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma,prefer-vector-width=512")
#define ONEGRAPH_LANES 16

namespace onegraph {
namespace {

#include "stages.inc"

} // namespace

const PointwiseCompute pointwise_avx512 = compute_all;

} // namespace onegraph
#endif
