// RMSNorm and LayerNorm of rows, which read and write memory once.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "registry.h"
#include "shares.h"

#include "floats.h"

namespace onegraph {
namespace {

// The same partial sums on every CPU, so that the results have the same bits.
constexpr std::size_t LANES = 16, TOGETHER = 4;
typedef float Vector __attribute__((vector_size(LANES * sizeof(float))));

// The sum that `add` adds elements of a row to.
template <typename Add>
ONEGRAPH_INLINE float sum_of(const float *row, std::size_t width, const Add &add) {
    Vector sums[TOGETHER] = {}, part;
    std::size_t i = 0;
    for (; i + TOGETHER * LANES <= width; i += TOGETHER * LANES)
#pragma GCC unroll 4
        for (std::size_t j = 0; j < TOGETHER; j++) {
            std::memcpy(&part, row + i + j * LANES, sizeof part);
            add(sums[j], part);
        }
    for (; i + LANES <= width; i += LANES) {
        std::memcpy(&part, row + i, sizeof part);
        add(sums[0], part);
    }
    part = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    float total = 0;
    for (std::size_t lane = 0; lane < LANES; lane++)
        total += part[lane];
    for (; i < width; i++)
        add(total, row[i]);
    return total;
}

// Divides a row, for a LayerNorm less its mean, by the root of the mean of its squares. `gamma` and `beta` are null if there
// are none. `stats` gets the mean and the variance. The result may be the row.
template <bool IS_CENTERED>
ONEGRAPH_INLINE void normalize(const float *row, const float *gamma, const float *beta, float *result, std::size_t width,
        float epsilon, float *stats) {
    const auto count = static_cast<float>(width);
    const auto add = [](auto &sum, const auto &x) __attribute__((always_inline)) { sum += x; };
    const float mean = IS_CENTERED ? sum_of(row, width, add) / count : 0;
    const float squares = sum_of(row, width, [mean](auto &sum, const auto &x) __attribute__((always_inline)) {
        if constexpr (IS_CENTERED)
            sum += (x - mean) * (x - mean);
        else
            sum += x * x;
    });
    stats[0] = mean, stats[1] = squares / count;
    const float root = std::sqrt(stats[1] + epsilon);
    if (gamma && beta)
#pragma GCC ivdep
        for (std::size_t i = 0; i < width; i++)
            result[i] = (row[i] - mean) / root * gamma[i] + beta[i];
    else if (gamma)
#pragma GCC ivdep
        for (std::size_t i = 0; i < width; i++)
            result[i] = (row[i] - mean) / root * gamma[i];
    else
#pragma GCC ivdep
        for (std::size_t i = 0; i < width; i++)
            result[i] = (row[i] - mean) / root;
}

// A norm over the last axes of dense tensors of f32, f16 or bf16, computed in f32.
//
// src (rows, width), gamma (width) and beta (width) if there are any; dst, and of a LayerNorm the mean and the variance of
// each row in f32, or neither. The results are the same for any number of threads.
template <bool IS_CENTERED>
class RowNorm : public Runnable {
public:
    explicit RowNorm(const KernelArguments &arguments);
    void run(void *const *addresses, int threads) const override;

private:
    int level_;
    float epsilon_;
    bool has_stats_ = false;
    std::size_t width_, total_, last_; // the place of dst
    dnnl_data_type_t types_[4];
};

template <bool IS_CENTERED>
RowNorm<IS_CENTERED>::RowNorm(const KernelArguments &arguments)
    : level_(arguments.number("level")), epsilon_(arguments.real("epsilon")), width_(arguments.size("width")),
      last_(arguments.n_inputs) {
    const auto tensors = arguments.tensors;
    const std::size_t results = arguments.count - arguments.n_inputs;
    has_stats_ = results == 3;
    if (last_ < 1 || last_ > 2 + IS_CENTERED || (results != 1 && !(IS_CENTERED && has_stats_)))
        throw std::invalid_argument("other tensors than those of a norm");
    total_ = elements_of(*tensors[0]);
    bool is_whole = width_ > 0 && total_ % width_ == 0 && elements_of(*tensors[last_]) == total_;
    for (std::size_t i = 0; i <= last_; i++) {
        if (!is_float(types_[i] = tensors[i]->data_type)) throw std::invalid_argument("no kernel for these data types");
        is_whole = is_whole && (i == 0 || i == last_ || elements_of(*tensors[i]) == width_);
    }
    for (std::size_t i = last_ + 1; i < arguments.count; i++)
        is_whole = is_whole && tensors[i]->data_type == dnnl_f32 && elements_of(*tensors[i]) == total_ / width_;
    if (!is_whole) throw std::invalid_argument("other sizes than those of a norm");
}

template <bool IS_CENTERED>
void RowNorm<IS_CENTERED>::run(void *const *addresses, int threads) const {
    const bool is_fast = level_ > 0 && has_avx2();
    const auto function = ForCpu<normalize<IS_CENTERED>>::of(level_);
    const dnnl_data_type_t from = types_[0], to = types_[last_];
    const char *source = static_cast<const char *>(addresses[0]);
    char *target = static_cast<char *>(addresses[last_]);
    std::vector<float> wide[2];
    const float *vectors[2] = {};
    for (std::size_t i = 1; i < last_; i++) {
        vectors[i - 1] = static_cast<const float *>(addresses[i]);
        if (types_[i] == dnnl_f32) continue;
        wide[i - 1].resize(width_);
        cast(types_[i], static_cast<const char *>(addresses[i]), dnnl_f32, reinterpret_cast<char *>(wide[i - 1].data()),
                width_, is_fast);
        vectors[i - 1] = wide[i - 1].data();
    }
    share(total_, threads, width_, [&](std::size_t begin, std::size_t end) {
        std::vector<float> row(from == dnnl_f32 && to == dnnl_f32 ? 0 : width_);
        for (; begin < end; begin += width_) {
            const char *const read = source + begin * size_of(from);
            char *const written = target + begin * size_of(to);
            const float *given = reinterpret_cast<const float *>(read);
            float *const made = to == dnnl_f32 ? reinterpret_cast<float *>(written) : row.data();
            if (from != dnnl_f32) {
                cast(from, read, dnnl_f32, reinterpret_cast<char *>(row.data()), width_, is_fast);
                given = row.data();
            }
            float stats[2];
            function(given, vectors[0], vectors[1], made, width_, epsilon_, stats);
            for (std::size_t i = 0; i < 2 && has_stats_; i++)
                static_cast<float *>(addresses[last_ + 1 + i])[begin / width_] = stats[i];
            if (to != dnnl_f32)
                cast(dnnl_f32, reinterpret_cast<const char *>(made), to, written, width_, is_fast);
        }
    });
}

const Registered<RowNorm<false>> RMS_NORM {"rms_norm", "width, epsilon: f32, level"};
const Registered<RowNorm<true>> LAYER_NORM {"layer_norm", "width, epsilon: f32, level"};

} // namespace
} // namespace onegraph
