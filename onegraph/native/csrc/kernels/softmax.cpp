// LogSoftmax, x - max - log(sum(exp(x - max))), and SoftMax, exp(x - max) / sum(exp(x - max)), along one axis.

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

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

constexpr std::size_t LANES = 64; // elements that are computed side by side
constexpr std::size_t PIECE = 16; // of so many elements each lane adds f32 numbers, then all add up in f64

// NaN is larger than every number.
ONEGRAPH_INLINE float larger(float x, float most) {
    return x > most || x != x ? x : most;
}

// exp of a number up to 0, or NaN.
ONEGRAPH_INLINE float power_of(float x) {
    constexpr float least = -87.0f; // exp of less is no normal number
    const float power = exp_of(x >= least ? x : least);
    return x >= least ? power : x < least ? 0.0f : x;
}

using Floats = float __attribute__((vector_size(32)));
using Integers = int __attribute__((vector_size(32)));
using Doubles = double __attribute__((vector_size(64)));
using Longs = long long __attribute__((vector_size(64)));
constexpr std::size_t PART = 8, PARTS = LANES / PART; // of the lanes

ONEGRAPH_INLINE Floats larger_ones(Floats x, Floats most) {
    return ((x > most) | (x != x)) ? x : most;
}

// The largest number, or the sum in f64, of all lanes: half of them at a time, in registers.
ONEGRAPH_INLINE float largest_of(const float *lanes) {
    Floats parts[PARTS];
    __builtin_memcpy(parts, lanes, sizeof parts);
    for (std::size_t half = PARTS / 2; half > 0; half /= 2)
        for (std::size_t j = 0; j < half; j++)
            parts[j] = larger_ones(parts[j + half], parts[j]);
    Floats most = parts[0];
    most = larger_ones(__builtin_shuffle(most, Integers {4, 5, 6, 7, 4, 5, 6, 7}), most);
    most = larger_ones(__builtin_shuffle(most, Integers {2, 3, 2, 3, 2, 3, 2, 3}), most);
    return larger(most[1], most[0]);
}

ONEGRAPH_INLINE double sum_of(const float *lanes) {
    Doubles sums[PARTS];
    for (std::size_t j = 0; j < PARTS; j++) {
        Floats part;
        __builtin_memcpy(&part, lanes + j * PART, sizeof part);
        sums[j] = __builtin_convertvector(part, Doubles);
    }
    for (std::size_t half = PARTS / 2; half > 0; half /= 2)
        for (std::size_t j = 0; j < half; j++)
            sums[j] += sums[j + half];
    Doubles sum = sums[0];
    sum += __builtin_shuffle(sum, Longs {4, 5, 6, 7, 4, 5, 6, 7});
    sum += __builtin_shuffle(sum, Longs {2, 3, 2, 3, 2, 3, 2, 3});
    return sum[0] + sum[1];
}

// The result may be the row.
template <bool is_log>
ONEGRAPH_INLINE void row_of(const float *row, float *result, std::size_t width) {
    float most[LANES], sums[LANES] = {};
    std::fill_n(most, LANES, -INFINITY);
    const std::size_t whole = width / LANES * LANES, rest = width - whole;
    for (std::size_t i = 0; i < whole; i += LANES)
        for (std::size_t j = 0; j < LANES; j++)
            most[j] = larger(row[i + j], most[j]);
    for (std::size_t j = 0; j < rest; j++)
        most[j] = larger(row[whole + j], most[j]);
    const float top = largest_of(most);
    double total = 0;
    // The power of element `at`, which is the result of a SoftMax before its division.
    const auto powered = [&](std::size_t at) {
        const float power = power_of(row[at] - top);
        if (!is_log) result[at] = power;
        return power;
    };
    for (std::size_t i = 0; i < whole; i += LANES) {
        for (std::size_t j = 0; j < LANES; j++)
            sums[j] += powered(i + j);
        if (i / LANES % PIECE < PIECE - 1) continue;
        total += sum_of(sums);
        std::fill_n(sums, LANES, 0.0f);
    }
    for (std::size_t j = 0; j < rest; j++)
        sums[j] += powered(whole + j);
    total += sum_of(sums);
    const auto size = static_cast<float>(is_log ? std::log(total) : total);
#pragma GCC ivdep
    for (std::size_t i = 0; i < width; i++)
        result[i] = is_log ? row[i] - top - size : result[i] / size;
}

// Columns side by side, in the place of the result: `width` lines of LANES numbers.
template <bool is_log>
ONEGRAPH_INLINE void columns_of(float *lines, std::size_t width) {
    float top[LANES], sums[LANES] = {};
    double totals[LANES] = {};
    std::fill_n(top, LANES, -INFINITY);
    for (std::size_t i = 0; i < width; i++)
        for (std::size_t j = 0; j < LANES; j++)
            top[j] = larger(lines[i * LANES + j], top[j]);
    for (std::size_t i = 0; i < width; i++) {
        for (std::size_t j = 0; j < LANES; j++) {
            const float power = power_of(lines[i * LANES + j] - top[j]);
            if (!is_log) lines[i * LANES + j] = power;
            sums[j] += power;
        }
        if (i % PIECE < PIECE - 1 && i + 1 < width) continue;
        for (std::size_t j = 0; j < LANES; j++)
            totals[j] += sums[j], sums[j] = 0;
    }
    for (std::size_t j = 0; j < LANES; j++)
        sums[j] = static_cast<float>(is_log ? std::log(totals[j]) : totals[j]);
    for (std::size_t i = 0; i < width; i++)
        for (std::size_t j = 0; j < LANES; j++) {
            const float x = lines[i * LANES + j];
            lines[i * LANES + j] = is_log ? x - top[j] - sums[j] : x / sums[j];
        }
}

// LogSoftmax or SoftMax along one axis of dense tensors of f32, f16 or bf16, computed in f32: src, dst. The results are the same for
// any number of threads.
template <bool is_log>
class Softmax : public Runnable {
public:
    explicit Softmax(const KernelArguments &arguments);
    void run(void *const *addresses, int threads) const override;

private:
    void rows(const char *source, char *target, std::size_t begin, std::size_t end) const;
    void columns(const char *source, char *target, std::size_t begin, std::size_t end) const;

    std::size_t outer_ = 1, width_ = 1, inner_ = 1;
    dnnl_data_type_t types_[2];
};

template <bool is_log>
Softmax<is_log>::Softmax(const KernelArguments &arguments) {
    const std::size_t count = arguments.count;
    const auto tensors = arguments.tensors;
    const int along = arguments.number("axis");
    if (count != 2) throw std::invalid_argument("other tensors than a source and a result");
    const dnnl_graph_logical_tensor_t &source = *tensors[0];
    if (along < 0 || along >= source.ndims) throw std::invalid_argument("no such axis");
    for (int axis = 0; axis < source.ndims; axis++)
        (axis < along ? outer_ : axis == along ? width_ : inner_) *= static_cast<std::size_t>(source.dims[axis]);
    if (!width_ || elements_of(*tensors[1]) != outer_ * width_ * inner_) throw std::invalid_argument("no rows");
    if (width_ == 1) inner_ *= outer_, outer_ = 1; // columns of one element, side by side
    for (std::size_t i = 0; i < count; i++) {
        types_[i] = tensors[i]->data_type;
        if (!is_float(types_[i])) throw std::invalid_argument("no kernel for this data type");
    }
}

template <bool is_log>
void Softmax<is_log>::rows(const char *source, char *target, std::size_t begin, std::size_t end) const {
    const auto function = ForCpu<row_of<is_log>>::of();
    const bool reads = types_[0] != dnnl_f32, writes = types_[1] != dnnl_f32;
    std::vector<float> memory(reads || writes ? width_ : 0);
    for (; begin < end; begin += width_) {
        const char *const from = source + begin * size_of(types_[0]);
        char *const to = target + begin * size_of(types_[1]);
        if (reads) cast(types_[0], from, dnnl_f32, reinterpret_cast<char *>(memory.data()), width_, has_avx2());
        function(reads ? memory.data() : reinterpret_cast<const float *>(from),
                writes ? memory.data() : reinterpret_cast<float *>(to), width_);
        if (writes) cast(dnnl_f32, reinterpret_cast<const char *>(memory.data()), types_[1], to, width_, has_avx2());
    }
}

// Columns from `begin` on, counted through all planes.
template <bool is_log>
void Softmax<is_log>::columns(const char *source, char *target, std::size_t begin, std::size_t end) const {
    const auto function = ForCpu<columns_of<is_log>>::of();
    std::vector<float> lines(width_ * LANES);
    for (std::size_t some = 0; begin < end; begin += some) {
        const std::size_t place = begin / inner_ * width_ * inner_ + begin % inner_;
        some = std::min({LANES, end - begin, inner_ - begin % inner_});
        for (std::size_t i = 0; i < width_; i++)
            cast(types_[0], source + (place + i * inner_) * size_of(types_[0]), dnnl_f32,
                    reinterpret_cast<char *>(lines.data() + i * LANES), some, has_avx2());
        function(lines.data(), width_);
        for (std::size_t i = 0; i < width_; i++)
            cast(dnnl_f32, reinterpret_cast<const char *>(lines.data() + i * LANES), types_[1],
                    target + (place + i * inner_) * size_of(types_[1]), some, has_avx2());
    }
}

template <bool is_log>
void Softmax<is_log>::run(void *const *addresses, int threads) const {
    const auto *source = static_cast<const char *>(addresses[0]);
    auto *target = static_cast<char *>(addresses[1]);
    const std::size_t unit = inner_ == 1 ? width_ : width_ * LANES;
    share(outer_ * width_ * inner_, threads, unit, [&](std::size_t begin, std::size_t end) {
        if (inner_ == 1) return rows(source, target, begin, end);
        columns(source, target, begin / width_, end / width_);
    });
}

const Registered<Softmax<true>> LOG_SOFTMAX {"log_softmax", "axis"};
const Registered<Softmax<false>> SOFTMAX {"softmax", "axis"};

} // namespace
} // namespace onegraph
