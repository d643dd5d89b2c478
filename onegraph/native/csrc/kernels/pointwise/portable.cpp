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

void pointwise_portable(const PointwiseStage *begin, const PointwiseStage *end, const PointwiseRegister *registers,
        const PointwiseTarget *targets, std::size_t count) {
    compute_all(begin, end, registers, targets, count);
}

} // namespace onegraph
