// DynamicQuantizeLinear: codes by the range of all elements.

#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <stdexcept>

#include "registry.h"
#include "shares.h"

#include "floats.h"

namespace onegraph {
namespace {

constexpr std::size_t LANES = 16;
typedef float Vector __attribute__((vector_size(LANES * sizeof(float))));
typedef std::int32_t Mask __attribute__((vector_size(LANES * sizeof(std::int32_t))));

// The range of elements and 0, beside elements that are not a number.
struct Extremes {
    float low = 0, high = 0;
    bool has_nan = false;
};

ONEGRAPH_INLINE void extend(const float *source, std::size_t count, Extremes *found) {
    Vector low {}, high {}, part;
    Mask is_nan {};
    std::size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        std::memcpy(&part, source + i, sizeof part);
        low = part < low ? part : low;
        high = part > high ? part : high;
        is_nan |= part != part;
    }
    for (std::size_t lane = 0; lane < LANES; lane++) {
        found->low = std::min(found->low, low[lane]);
        found->high = std::max(found->high, high[lane]);
        found->has_nan = found->has_nan || is_nan[lane];
    }
    for (; i < count; i++) {
        found->low = source[i] < found->low ? source[i] : found->low;
        found->high = source[i] > found->high ? source[i] : found->high;
        found->has_nan = found->has_nan || source[i] != source[i];
    }
}

// Adding and subtracting this rounds a small number to the nearest integer, halves to even.
constexpr float ROUNDING = 12582912.0f;

// The number, or the least one if it is not a number.
ONEGRAPH_INLINE float within(float number, float low, float high) {
    number = number > low ? number : low;
    return number < high ? number : high;
}

template <typename T>
ONEGRAPH_INLINE void write_codes(
        const float *__restrict source, T *__restrict codes, std::size_t count, float scale, float zero, float low, float high) {
    for (std::size_t i = 0; i < count; i++) {
        const float number = within(source[i] / scale, low - zero, high - zero) + ROUNDING - ROUNDING + zero;
        codes[i] = static_cast<T>(static_cast<std::int32_t>(number));
    }
}

// src; codes, scale and the code of 0. All are dense.
template <typename T>
void quantize(const float *source, std::size_t total, void *const *results, float low, float high, float least, int level, int threads) {
    const auto search = ForCpu<extend>::of(level);
    const auto write = ForCpu<write_codes<T>>::of(level);
    Extremes whole;
    std::mutex mutex;
    share(total, threads, LANES, [&](std::size_t begin, std::size_t end) {
        Extremes part;
        search(source + begin, end - begin, &part);
        const std::lock_guard<std::mutex> guard(mutex);
        whole.low = std::min(whole.low, part.low);
        whole.high = std::max(whole.high, part.high);
        whole.has_nan = whole.has_nan || part.has_nan;
    });
    float scale = (whole.high - whole.low) / (high - low);
    scale = scale < least ? least : scale;
    scale = whole.has_nan ? std::numeric_limits<float>::quiet_NaN() : scale == 0 ? 1 : scale;
    const float zero = within(low - whole.low / scale, low, high) + ROUNDING - ROUNDING;
    auto *const codes = static_cast<T *>(results[0]);
    *static_cast<float *>(results[1]) = scale;
    *static_cast<T *>(results[2]) = static_cast<T>(static_cast<std::int32_t>(zero));
    share(total, threads, LANES, [&](std::size_t begin, std::size_t end) {
        write(source + begin, codes + begin, end - begin, scale, zero, low, high);
    });
}

class DynamicQuantize : public Runnable {
public:
    explicit DynamicQuantize(const KernelArguments &arguments)
        : level_(arguments.number("level")), low_(static_cast<float>(arguments.number("low"))),
          high_(static_cast<float>(arguments.number("high"))), least_(arguments.real("least")) {
        const auto tensors = arguments.tensors;
        if (arguments.count != 4 || tensors[0]->data_type != dnnl_f32 || tensors[2]->data_type != dnnl_f32)
            throw std::invalid_argument("other tensors than src, codes, a scale and a code of 0");
        total_ = elements_of(*tensors[0]), type_ = tensors[1]->data_type;
        const bool is_code = type_ == dnnl_s8 || type_ == dnnl_u8;
        if (!is_code || tensors[3]->data_type != type_ || elements_of(*tensors[1]) != total_)
            throw std::invalid_argument("no codes for these tensors");
    }

    void run(void *const *addresses, int threads) const override {
        const auto function = type_ == dnnl_s8 ? quantize<std::int8_t> : quantize<std::uint8_t>;
        function(static_cast<const float *>(addresses[0]), total_, addresses + 1, low_, high_, least_, level_, threads);
    }

private:
    int level_;
    float low_, high_, least_;
    std::size_t total_;
    dnnl_data_type_t type_;
};

const Registered<DynamicQuantize> DYNAMIC_QUANTIZE {"dynamic_quantize", "low, high, least: f32, level"};

} // namespace
} // namespace onegraph
