// RMSNorm of rows, which reads and writes memory once.

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

ONEGRAPH_INLINE float sum_of_squares(const float *row, std::size_t width) {
    Vector sums[TOGETHER] = {}, part;
    std::size_t i = 0;
    for (; i + TOGETHER * LANES <= width; i += TOGETHER * LANES)
#pragma GCC unroll 4
        for (std::size_t j = 0; j < TOGETHER; j++) {
            std::memcpy(&part, row + i + j * LANES, sizeof part);
            sums[j] += part * part;
        }
    for (; i + LANES <= width; i += LANES) {
        std::memcpy(&part, row + i, sizeof part);
        sums[0] += part * part;
    }
    part = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    float total = 0;
    for (std::size_t lane = 0; lane < LANES; lane++)
        total += part[lane];
    for (; i < width; i++)
        total += row[i] * row[i];
    return total;
}

// `gamma` is null if there is none. The result may be the row.
ONEGRAPH_INLINE void normalize(const float *row, const float *gamma, float *result, std::size_t width, float epsilon) {
    const float root = std::sqrt(sum_of_squares(row, width) / static_cast<float>(width) + epsilon);
    if (gamma)
#pragma GCC ivdep
        for (std::size_t i = 0; i < width; i++)
            result[i] = row[i] / root * gamma[i];
    else
#pragma GCC ivdep
        for (std::size_t i = 0; i < width; i++)
            result[i] = row[i] / root;
}

// RMSNorm over the last axes of dense tensors of f32, f16 or bf16, computed in f32.
//
// src (rows, width), gamma (width) if there is one; dst. The results are the same for any number of threads.
class RmsNorm : public Runnable {
public:
    explicit RmsNorm(const KernelArguments &arguments);
    void run(void *const *addresses, int threads) const override;

private:
    bool has_gamma_;
    int level_;
    float epsilon_;
    std::size_t width_, total_;
    dnnl_data_type_t types_[3];
};

RmsNorm::RmsNorm(const KernelArguments &arguments)
    : level_(arguments.number("level")), epsilon_(arguments.real("epsilon")), width_(arguments.size("width")) {
    const std::size_t count = arguments.count;
    const auto tensors = arguments.tensors;
    if (count != 2 && count != 3) throw std::invalid_argument("other tensors than those of an RMSNorm");
    has_gamma_ = count == 3;
    std::size_t sizes[3];
    for (std::size_t i = 0; i < count; i++) {
        if (!is_float(types_[i] = tensors[i]->data_type)) throw std::invalid_argument("no kernel for these data types");
        sizes[i] = elements_of(*tensors[i]);
    }
    total_ = sizes[0];
    const bool is_whole = width_ > 0 && total_ % width_ == 0 && sizes[count - 1] == total_;
    if (!is_whole || (has_gamma_ && sizes[1] != width_))
        throw std::invalid_argument("other sizes than those of an RMSNorm");
}

void RmsNorm::run(void *const *addresses, int threads) const {
    const bool is_fast = level_ > 0 && has_avx2();
    const auto function = ForCpu<normalize>::of(level_);
    const dnnl_data_type_t from = types_[0], to = types_[has_gamma_ ? 2 : 1];
    const char *source = static_cast<const char *>(addresses[0]);
    char *target = static_cast<char *>(addresses[has_gamma_ ? 2 : 1]);
    std::vector<float> wide;
    const float *gamma = has_gamma_ ? static_cast<const float *>(addresses[1]) : nullptr;
    if (has_gamma_ && types_[1] != dnnl_f32) {
        wide.resize(width_);
        cast(types_[1], static_cast<const char *>(addresses[1]), dnnl_f32, reinterpret_cast<char *>(wide.data()), width_,
                is_fast);
        gamma = wide.data();
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
            function(given, gamma, made, width_, epsilon_);
            if (to != dnnl_f32)
                cast(dnnl_f32, reinterpret_cast<const char *>(made), to, written, width_, is_fast);
        }
    });
}

const Registered<RmsNorm> RMS_NORM {"rms_norm", "width, epsilon: f32, level"};

} // namespace
} // namespace onegraph
