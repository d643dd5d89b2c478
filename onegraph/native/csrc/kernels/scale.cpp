// A factor for each channel, a number that is added, and a ReLU.

#include "rows.h"

#include "floats.h"

namespace onegraph {
namespace {

ONEGRAPH_INLINE float widened(float value) {
    return value;
}

ONEGRAPH_INLINE float widened(Half value) {
    return bf16_to_f32(value);
}

ONEGRAPH_INLINE void store(float value, float *target) {
    *target = value;
}

ONEGRAPH_INLINE void store(float value, Half *target) {
    *target = f32_to_bf16(value);
}

// Elements that lie one behind another, each times a factor of its own, plus a shift of its own.
template <typename T, bool relu>
ONEGRAPH_INLINE void scale(
        const T *__restrict source, const float *factor, const float *shift, T *__restrict result, std::size_t count) {
    for (std::size_t i = 0; i < count; i++) {
        const float value = widened(source[i]) * factor[i] + shift[i];
        store(relu && value < 0 ? 0 : value, result + i);
    }
}

template <typename T, bool relu>
void scale_elements(char *const *pointers, const Bytes *strides, std::size_t count, const dnnl_data_type_t *) {
    const char *source = pointers[0], *factor = pointers[1], *shift = pointers[2];
    char *result = pointers[3];
    const Bytes size = sizeof(T), wide = sizeof(float);
    std::size_t some = 1; // elements that lie one behind another
    auto function = ForCpu<scale<T, relu>>::of(0);
    if (strides[0] == size && strides[1] == wide && strides[2] == wide && strides[3] == size) {
        some = count;
        function = ForCpu<scale<T, relu>>::of();
    }
    for (; count > 0; count -= some) {
        function(reinterpret_cast<const T *>(source), reinterpret_cast<const float *>(factor),
                reinterpret_cast<const float *>(shift), reinterpret_cast<T *>(result), some);
        source += strides[0], factor += strides[1], shift += strides[2], result += strides[3];
    }
}

template <bool relu>
Row scale_row(std::size_t count, const dnnl_data_type_t *types) {
    const bool is_scaled = count == 4 && types[1] == dnnl_f32 && types[2] == dnnl_f32 && types[3] == types[0];
    if (!is_scaled || (types[0] != dnnl_f32 && types[0] != dnnl_bf16)) return nullptr;
    return types[0] == dnnl_f32 ? scale_elements<float, relu> : scale_elements<Half, relu>;
}

const RegisteredRows<scale_row<false>> SCALE {"scale"};
const RegisteredRows<scale_row<true>> SCALE_RELU {"scale_relu"};

} // namespace
} // namespace onegraph
