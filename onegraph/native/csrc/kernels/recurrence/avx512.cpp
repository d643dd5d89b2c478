// Recurrent networks with AVX-512.

#include "problem.h"

#include "../floats.h"
#pragma GCC optimize("fp-contract=fast")

#if defined(__x86_64__)
// gcc 12 warns of variables of its own intrinsics that are uninitialized on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma,f16c,prefer-vector-width=512")
#define ONEGRAPH_LANES 16

namespace onegraph {
namespace {

constexpr int SUMS = 24, SINGLE = 1;
#include "steps.inc"

} // namespace

RecurrenceStep recurrence_step_avx512(Cell cell, bool is_usual) {
    return is_usual ? step_of<true>(cell) : step_of<false>(cell);
}

} // namespace onegraph
#endif
