// The part of the gradient of LogSoftmax that does not depend on the place in a row of diff.

#include <stdexcept>

#include "shares.h"

#include "floats.h"

namespace onegraph {
namespace {

using Number = float;
using Bits = Word;

ONEGRAPH_INLINE float splat(float number) {
    return number;
}

ONEGRAPH_INLINE float fused(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}

#include "exponential.inc"

// -exp(x) * sum for each x of a row. The result may be the row.
ONEGRAPH_INLINE void spread(const float *row, float sum, float *result, std::size_t width) {
    constexpr float least = -87.0f; // exp of less is no normal number
#pragma GCC ivdep
    for (std::size_t i = 0; i < width; i++) {
        const float x = row[i], power = exp_of(x >= least ? x : least);
        result[i] = -sum * (x >= least ? power : x < least ? 0.0f : x); // NaN stays NaN
    }
}

void spread_portable(const float *row, float sum, float *result, std::size_t width) {
    spread(row, sum, result, width);
}

ONEGRAPH_AVX2 void spread_avx2(const float *row, float sum, float *result, std::size_t width) {
    spread(row, sum, result, width);
}

ONEGRAPH_AVX512 void spread_avx512(const float *row, float sum, float *result, std::size_t width) {
    spread(row, sum, result, width);
}

} // namespace

LogSoftmaxGradient::LogSoftmaxGradient(
        std::size_t count, dnnl_graph_logical_tensor_t *const *tensors, const int *code)
    : level_(code[0]) {
    if (count != 3) throw std::invalid_argument("other tensors than log-probabilities, sums and a result");
    total_ = elements_of(*tensors[0]);
    const std::size_t rows = elements_of(*tensors[1]);
    if (rows == 0 || total_ % rows || elements_of(*tensors[2]) != total_) throw std::invalid_argument("no rows");
    width_ = total_ / rows;
    for (std::size_t i = 0; i < count; i++)
        if (tensors[i]->data_type != dnnl_f32) throw std::invalid_argument("no kernel for these data types");
}

void LogSoftmaxGradient::run(void *const *addresses, int threads) const {
    const bool is_fast = level_ > 0 && has_avx2();
    const auto function = level_ > 1 && has_avx512() ? spread_avx512 : is_fast ? spread_avx2 : spread_portable;
    const auto *source = static_cast<const float *>(addresses[0]), *sums = static_cast<const float *>(addresses[1]);
    auto *target = static_cast<float *>(addresses[2]);
    share(total_, threads, width_, [&](std::size_t begin, std::size_t end) {
        for (; begin < end; begin += width_)
            function(source + begin, sums[begin / width_], target + begin, width_);
    });
}

} // namespace onegraph
