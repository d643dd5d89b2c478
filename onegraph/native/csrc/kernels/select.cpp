// Select.

#include <utility>

#include "rows.h"

#include "floats.h"

namespace onegraph {
namespace {

// Selects elements that lie one behind another. `c`, `a`, `b`: whether the condition and the two sources have an element
// for each result, or one for all of them.
template <typename T, bool c, bool a, bool b>
ONEGRAPH_INLINE void select_row_of(char *const *pointers, std::size_t count) {
    const auto *cond = reinterpret_cast<const unsigned char *>(pointers[0]);
    const auto *first = reinterpret_cast<const T *>(pointers[1]), *second = reinterpret_cast<const T *>(pointers[2]);
    auto *__restrict result = reinterpret_cast<T *>(pointers[3]);
    for (std::size_t i = 0; i < count; i++) {
        const T mask = static_cast<T>(cond[c ? i : 0] ? -1 : 0);
        result[i] = static_cast<T>((first[a ? i : 0] & mask) | (second[b ? i : 0] & ~mask));
    }
}

template <typename T, std::size_t... i>
void select(std::size_t which, char *const *pointers, std::size_t count, std::index_sequence<i...>) {
    using Function = void (*)(char *const *, std::size_t);
    static const Function functions[] = {ForCpu<select_row_of<T, (i & 4) != 0, (i & 2) != 0, (i & 1) != 0>>::of(1)...};
    functions[which](pointers, count);
}

// Selects elements at any strides.
template <typename T>
void select_elements(char *const *pointers, const Bytes *strides, std::size_t count, const dnnl_data_type_t *) {
    constexpr Bytes sizes[] = {1, sizeof(T), sizeof(T), sizeof(T)};
    const auto is_simple = [&](std::size_t i) { return strides[i] == sizes[i] || strides[i] == 0; };
    if (strides[3] == sizes[3] && is_simple(0) && is_simple(1) && is_simple(2)) {
        const std::size_t which = (strides[0] ? 4 : 0) + (strides[1] ? 2 : 0) + (strides[2] ? 1 : 0);
        return select<T>(which, pointers, count, std::make_index_sequence<8>());
    }
    const char *cond = pointers[0], *first = pointers[1], *second = pointers[2];
    for (char *result = pointers[3]; count > 0; count--, result += strides[3]) {
        *reinterpret_cast<T *>(result) = *reinterpret_cast<const T *>(*cond ? first : second);
        cond += strides[0], first += strides[1], second += strides[2];
    }
}

Row select_row(std::size_t count, const dnnl_data_type_t *types) {
    const bool is_select = count == 4 && types[0] == dnnl_boolean && is_float(types[3]);
    if (!is_select || types[1] != types[3] || types[2] != types[3]) return nullptr;
    return size_of(types[3]) == 4 ? select_elements<Word> : select_elements<Half>;
}

const RegisteredRows<select_row> SELECT {"select"};

} // namespace
} // namespace onegraph
