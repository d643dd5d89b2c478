// Casts between f32 and integers of 8 and 32 bits.

#include <cstdint>
#include <limits>
#include <type_traits>

#include "rows.h"

#include "floats.h"

namespace onegraph {
namespace {

// The integer without the fraction. Beyond 32 bits and for NaN it is the one that the CPU gives, cut to the type.
template <typename From, typename To>
ONEGRAPH_INLINE To converted(From number) {
    if constexpr (std::is_same_v<From, float> && !std::is_same_v<To, float>) {
        constexpr float end = 2147483648.0f;
        const bool is_inside = number >= -end && number < end;
        const auto whole = static_cast<std::int32_t>(is_inside ? number : 0.0f);
        return static_cast<To>(is_inside ? whole : std::numeric_limits<std::int32_t>::min());
    }
    return static_cast<To>(number);
}

template <typename From, typename To>
ONEGRAPH_INLINE void convert(const char *source, Bytes from, char *target, Bytes to, std::size_t count) {
    if (from == sizeof(From) && to == sizeof(To)) {
        const auto *numbers = reinterpret_cast<const From *>(source);
        auto *results = reinterpret_cast<To *>(target);
        for (std::size_t i = 0; i < count; i++)
            results[i] = converted<From, To>(numbers[i]);
        return;
    }
    for (; count > 0; count--, source += from, target += to)
        *reinterpret_cast<To *>(target) = converted<From, To>(*reinterpret_cast<const From *>(source));
}

template <typename From, typename To>
void convert_row(char *const *pointers, const Bytes *strides, std::size_t count, const dnnl_data_type_t *) {
    ForCpu<convert<From, To>>::of()(pointers[0], strides[0], pointers[1], strides[1], count);
}

template <typename From>
Row converting(dnnl_data_type_t to) {
    switch (to) {
        case dnnl_f32: return convert_row<From, float>;
        case dnnl_s32: return convert_row<From, std::int32_t>;
        case dnnl_s8: return convert_row<From, std::int8_t>;
        case dnnl_u8: return convert_row<From, std::uint8_t>;
        default: return nullptr;
    }
}

Row integers_row(std::size_t count, const dnnl_data_type_t *types) {
    if (count != 2) return nullptr;
    switch (types[0]) {
        case dnnl_f32: return converting<float>(types[1]);
        case dnnl_s32: return converting<std::int32_t>(types[1]);
        case dnnl_s8: return converting<std::int8_t>(types[1]);
        case dnnl_u8: return converting<std::uint8_t>(types[1]);
        default: return nullptr;
    }
}

const RegisteredRows<integers_row> CAST_INTEGERS {"cast_integers"};

} // namespace
} // namespace onegraph
