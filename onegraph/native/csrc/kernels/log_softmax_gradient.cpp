// The part of the gradient of LogSoftmax that does not depend on the place in a row of diff.

#include <cmath>
#include <stdexcept>

#include "registry.h"
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
    constexpr float least = -87.0f, most = 88.7228f; // exp of less is no normal number, that of more is infinite
#pragma GCC ivdep
    for (std::size_t i = 0; i < width; i++) {
        const float x = row[i], above = x > least ? x : least, power = exp_of(above < most ? above : most);
        const float found = x > most ? INFINITY : power;
        result[i] = -sum * (x >= least ? found : x < least ? 0.0f : x); // NaN stays NaN
    }
}

// -exp(src) * sums, for the gradient of LogSoftmax: src (rows, width), sums (rows, 1), dst, which may be src. All are dense
// f32.
class LogSoftmaxGradient : public Runnable {
public:
    explicit LogSoftmaxGradient(const KernelArguments &arguments);
    void run(void *const *addresses, int threads) const override;

private:
    int level_;
    std::size_t width_, total_;
};

LogSoftmaxGradient::LogSoftmaxGradient(const KernelArguments &arguments) : level_(arguments.number("level")) {
    const std::size_t count = arguments.count;
    const auto tensors = arguments.tensors;
    if (count != 3) throw std::invalid_argument("other tensors than log-probabilities, sums and a result");
    total_ = elements_of(*tensors[0]);
    const std::size_t rows = elements_of(*tensors[1]);
    if (rows == 0 || total_ % rows || elements_of(*tensors[2]) != total_) throw std::invalid_argument("no rows");
    width_ = total_ / rows;
    for (std::size_t i = 0; i < count; i++)
        if (tensors[i]->data_type != dnnl_f32) throw std::invalid_argument("no kernel for these data types");
}

void LogSoftmaxGradient::run(void *const *addresses, int threads) const {
    const auto function = ForCpu<spread>::of(level_);
    const auto *source = static_cast<const float *>(addresses[0]), *sums = static_cast<const float *>(addresses[1]);
    auto *target = static_cast<float *>(addresses[2]);
    share(total_, threads, width_, [&](std::size_t begin, std::size_t end) {
        for (; begin < end; begin += width_)
            function(source + begin, sums[begin / width_], target + begin, width_);
    });
}

const Registered<LogSoftmaxGradient> LOG_SOFTMAX_GRADIENT {"log_softmax_gradient", "level"};

} // namespace
} // namespace onegraph
