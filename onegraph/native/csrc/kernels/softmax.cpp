// LogSoftmax, x - max - log(sum(exp(x - max))), and SoftMax, exp(x - max) / sum(exp(x - max)), along one axis.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
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
constexpr std::size_t PART = 8; // lanes of a vector

// A function that returned a vector of 32 bytes would get a warning: compilers without AVX return it another way.
ONEGRAPH_INLINE void take_larger(Floats &most, const Floats &x) {
    most = ((x > most) | (x != x)) ? x : most;
}

// One number in all lanes. A function of the standard library is compiled for any CPU, and called.
template <std::size_t lanes>
ONEGRAPH_INLINE void fill(float *numbers, float number) {
    for (std::size_t j = 0; j < lanes; j++)
        numbers[j] = number;
}

// The largest number, or the sum in f64, of all lanes: half of them at a time, in registers.
template <std::size_t lanes>
ONEGRAPH_INLINE float largest_of(const float *numbers) {
    Floats parts[lanes / PART];
    __builtin_memcpy(parts, numbers, sizeof parts);
    for (std::size_t half = lanes / PART / 2; half > 0; half /= 2)
        for (std::size_t j = 0; j < half; j++)
            take_larger(parts[j], parts[j + half]);
    Floats most = parts[0];
    take_larger(most, __builtin_shuffle(most, Integers {4, 5, 6, 7, 4, 5, 6, 7}));
    take_larger(most, __builtin_shuffle(most, Integers {2, 3, 2, 3, 2, 3, 2, 3}));
    return larger(most[1], most[0]);
}

template <std::size_t lanes>
ONEGRAPH_INLINE double sum_of(const float *numbers) {
    Doubles sums[lanes / PART];
    for (std::size_t j = 0; j < lanes / PART; j++) {
        Floats part;
        __builtin_memcpy(&part, numbers + j * PART, sizeof part);
        sums[j] = __builtin_convertvector(part, Doubles);
    }
    for (std::size_t half = lanes / PART / 2; half > 0; half /= 2)
        for (std::size_t j = 0; j < half; j++)
            sums[j] += sums[j + half];
    Doubles sum = sums[0];
    sum += __builtin_shuffle(sum, Longs {4, 5, 6, 7, 4, 5, 6, 7});
    sum += __builtin_shuffle(sum, Longs {2, 3, 2, 3, 2, 3, 2, 3});
    return sum[0] + sum[1];
}

// The logarithm of a number from 1 on, or NaN, off by 1e-9: calling the one of C for each row takes longer than the row.
ONEGRAPH_INLINE double logarithm_of(double number) {
    std::int64_t bits;
    __builtin_memcpy(&bits, &number, sizeof bits);
    // A power of 2, and a rest from sqrt(1/2) to sqrt(2).
    const std::int64_t above = bits - 0x3fe6a09e667f3bcd, power = above >> 52;
    const std::int64_t rest_bits = bits - (power << 52);
    double rest;
    __builtin_memcpy(&rest, &rest_bits, sizeof rest);
    const double share = (rest - 1) / (rest + 1), square = share * share;
    double sum = 2.0 / 9;
    sum = sum * square + 2.0 / 7;
    sum = sum * square + 2.0 / 5;
    sum = sum * square + 2.0 / 3;
    const double result = static_cast<double>(power) * 0.69314718055994531 + (sum * square * share + 2.0 * share);
    return number == number ? result : number;
}

struct Sizes {
    float top;
    double total;
};

// The largest number of a row, and the sum of the powers, which are the result of a SoftMax before its division.
template <bool is_log, std::size_t lanes>
ONEGRAPH_INLINE Sizes sizes_of(const float *row, float *result, std::size_t width) {
    float most[lanes], sums[lanes], last[lanes];
    fill<lanes>(most, -INFINITY);
    fill<lanes>(sums, 0);
    fill<lanes>(last, -INFINITY); // whose power is 0
    const std::size_t whole = width / lanes * lanes, rest = width - whole;
    if (rest) std::memcpy(last, row + whole, rest * sizeof(float));
    for (std::size_t i = 0; i < whole; i += lanes)
        for (std::size_t j = 0; j < lanes; j++)
            most[j] = larger(row[i + j], most[j]);
    if (rest)
        for (std::size_t j = 0; j < lanes; j++)
            most[j] = larger(last[j], most[j]);
    const float top = largest_of<lanes>(most);
    double total = 0;
    for (std::size_t i = 0; i < whole; i += lanes) {
        float powers[lanes];
        for (std::size_t j = 0; j < lanes; j++)
            powers[j] = power_of(row[i + j] - top);
        for (std::size_t j = 0; j < lanes; j++)
            sums[j] += powers[j];
        if (!is_log) std::memcpy(result + i, powers, sizeof powers);
        if (i / lanes % PIECE < PIECE - 1) continue;
        total += sum_of<lanes>(sums);
        fill<lanes>(sums, 0);
    }
    if (rest) {
        for (std::size_t j = 0; j < lanes; j++)
            last[j] = power_of(last[j] - top);
        for (std::size_t j = 0; j < lanes; j++)
            sums[j] += last[j];
        if (!is_log) std::memcpy(result + whole, last, rest * sizeof(float));
    }
    return {top, total + sum_of<lanes>(sums)};
}

constexpr std::size_t GROUP = 16; // rows whose logarithms are computed side by side
constexpr std::size_t NARROW = 16; // lanes of short rows

// The results may be the rows.
template <bool is_log>
ONEGRAPH_INLINE void rows_of(const float *rows, float *results, std::size_t width, std::size_t count) {
    float tops[GROUP], sizes[GROUP];
    double totals[GROUP];
    for (double &total : totals)
        total = 1;
    for (std::size_t first = 0; first < count; first += GROUP) {
        const std::size_t some = std::min(GROUP, count - first);
        const float *const sources = rows + first * width;
        float *const targets = results + first * width;
        for (std::size_t i = 0; i < some; i++) {
            const float *const row = sources + i * width;
            const Sizes found = width < LANES ? sizes_of<is_log, NARROW>(row, targets + i * width, width)
                                              : sizes_of<is_log, LANES>(row, targets + i * width, width);
            tops[i] = found.top, totals[i] = found.total;
        }
        for (std::size_t i = 0; i < GROUP; i++)
            sizes[i] = static_cast<float>(is_log ? logarithm_of(totals[i]) : totals[i]);
        for (std::size_t i = 0; i < some; i++) {
            const float *const row = sources + i * width;
            float *const result = targets + i * width;
            const float top = tops[i], size = sizes[i];
#pragma GCC ivdep
            for (std::size_t j = 0; j < width; j++)
                result[j] = is_log ? row[j] - top - size : result[j] / size;
        }
    }
}

// Columns side by side, in the place of the result: `width` lines of LANES numbers.
template <bool is_log>
ONEGRAPH_INLINE void columns_of(float *lines, std::size_t width) {
    float top[LANES], sums[LANES];
    double totals[LANES];
    fill<LANES>(top, -INFINITY);
    fill<LANES>(sums, 0);
    for (double &total : totals)
        total = 0;
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
    const auto function = ForCpu<rows_of<is_log>>::of();
    const bool reads = types_[0] != dnnl_f32, writes = types_[1] != dnnl_f32;
    const std::size_t most = reads || writes ? std::max<std::size_t>(GROUP * LANES / width_, 1) * width_ : end - begin;
    std::vector<float> memory(reads || writes ? most : 0);
    for (std::size_t some = 0; begin < end; begin += some) {
        some = std::min(most, end - begin);
        const char *const from = source + begin * size_of(types_[0]);
        char *const to = target + begin * size_of(types_[1]);
        if (reads) cast(types_[0], from, dnnl_f32, reinterpret_cast<char *>(memory.data()), some, has_avx2());
        function(reads ? memory.data() : reinterpret_cast<const float *>(from),
                writes ? memory.data() : reinterpret_cast<float *>(to), width_, some / width_);
        if (writes) cast(dnnl_f32, reinterpret_cast<const char *>(memory.data()), types_[1], to, some, has_avx2());
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
