// ReplaceNaN.

#include "rows.h"

#include "floats.h"

namespace onegraph {
namespace {

// Copies elements that lie one behind another, with the value in the place of each that is not a number: without its
// sign, it is larger than infinity.
template <typename T>
ONEGRAPH_INLINE void replace(const T *__restrict source, T value, T infinity, T *__restrict result, std::size_t count) {
    const T sign = static_cast<T>(T {1} << (8 * sizeof(T) - 1)), size = static_cast<T>(sign - 1);
    for (std::size_t i = 0; i < count; i++)
        result[i] = static_cast<T>(source[i] & size) > infinity ? value : source[i];
}

template <typename T>
void replace_elements(char *const *pointers, const Bytes *strides, std::size_t count, const dnnl_data_type_t *types) {
    const T infinity = static_cast<T>(types[0] == dnnl_f32 ? INFINITE : types[0] == dnnl_f16 ? 0x7c00u : 0x7f80u);
    const char *source = pointers[0], *value = pointers[1];
    char *result = pointers[2];
    const Bytes size = sizeof(T);
    if (strides[0] == size && strides[1] == 0 && strides[2] == size) {
        const auto function = ForCpu<replace<T>>::of(1);
        return function(reinterpret_cast<const T *>(source), *reinterpret_cast<const T *>(value), infinity,
                reinterpret_cast<T *>(result), count);
    }
    for (; count > 0; count--, source += strides[0], value += strides[1], result += strides[2])
        replace<T>(reinterpret_cast<const T *>(source), *reinterpret_cast<const T *>(value), infinity,
                reinterpret_cast<T *>(result), 1);
}

Row replace_nan_row(std::size_t count, const dnnl_data_type_t *types) {
    if (count != 3 || !is_float(types[0]) || types[1] != types[0] || types[2] != types[0]) return nullptr;
    return size_of(types[0]) == 4 ? replace_elements<Word> : replace_elements<Half>;
}

const RegisteredRows<replace_nan_row> REPLACE_NAN {"replace_nan"};

} // namespace
} // namespace onegraph
