// Recurrent networks with AVX2 and FMA.

#include "problem.h"

#include "../floats.h"
#pragma GCC optimize("fp-contract=fast")
// No vector is passed to a function that is called: all of them are inlined.
#pragma GCC diagnostic ignored "-Wpsabi"

#if defined(__x86_64__)
#pragma GCC target("avx2,fma,f16c")
#define ONEGRAPH_LANES 8

namespace onegraph {
namespace {

constexpr int SUMS = 12, SINGLE = 2;
#include "steps.inc"

} // namespace

RecurrenceStep recurrence_step_avx2(Cell cell, bool is_usual) {
    return is_usual ? step_of<true>(cell) : step_of<false>(cell);
}

} // namespace onegraph
#endif
