// Several elementwise ops at once, on any CPU.

#include "problem.h"

#include <cmath>

#include "../floats.h"
// No vector is passed to a function that is called: all of them are inlined.
#pragma GCC diagnostic ignored "-Wpsabi"
#define ONEGRAPH_LANES 4

namespace onegraph {
namespace {

#include "stages.inc"

} // namespace

const PointwiseCompute pointwise_portable = compute_all;

} // namespace onegraph
