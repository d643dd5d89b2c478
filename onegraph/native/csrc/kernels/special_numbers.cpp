// Looks for NaN and infinities in tensors.

#include <algorithm>
#include <atomic>
#include <stdexcept>

#include "shares.h"
#include "special_numbers.h"

#include "floats.h"

namespace onegraph {
namespace {

// Which of NaN, infinity and negative infinity some elements are; `exponent`: the bits of the exponent.
template <typename T, T exponent>
ONEGRAPH_INLINE unsigned specials_of(const T *elements, std::size_t count) {
    constexpr T sign = static_cast<T>(T(1) << (8 * sizeof(T) - 1));
    constexpr T magnitude = static_cast<T>(sign - 1);
    T nan = 0, positive = 0, negative = 0;
    for (std::size_t i = 0; i < count; i++) {
        const T x = elements[i];
        nan |= static_cast<T>((x & magnitude) > exponent);
        positive |= static_cast<T>(x == exponent);
        negative |= static_cast<T>(x == static_cast<T>(exponent | sign));
    }
    return (nan ? NAN_ : 0u) | (positive ? POSITIVE : 0u) | (negative ? NEGATIVE : 0u);
}

template <typename T, T exponent>
unsigned specials(const char *elements, std::size_t count) {
    const auto function = ForCpu<specials_of<T, exponent>>::of();
    return function(reinterpret_cast<const T *>(elements), count);
}

// The largest element without its sign, as an integer: that of NaN and infinities is at least `exponent`.
template <typename T>
ONEGRAPH_INLINE T largest_of(const T *elements, std::size_t count) {
    constexpr T magnitude = static_cast<T>(static_cast<T>(~T(0)) >> 1);
    T largest = 0;
    for (std::size_t i = 0; i < count; i++)
        largest = std::max(largest, static_cast<T>(elements[i] & magnitude));
    return largest;
}

template <typename T>
unsigned any(const char *elements, std::size_t count, T exponent) {
    const auto function = ForCpu<largest_of<T>>::of();
    return function(reinterpret_cast<const T *>(elements), count) >= exponent;
}

// Not 0 if an element is NaN, infinite or `large`: twice as fast as `specials`, which says which.
unsigned any(dnnl_data_type_t type, const char *elements, std::size_t count, bool large) {
    switch (type) {
        case dnnl_f32: return any<Word>(elements, count, large ? 0x49800000 : INFINITE);
        case dnnl_bf16: return any<Half>(elements, count, large ? 0x4980 : 0x7f80);
        default: return any<Half>(elements, count, 0x7c00);
    }
}

unsigned specials(dnnl_data_type_t type, const char *elements, std::size_t count) {
    switch (type) {
        case dnnl_f32: return specials<Word, INFINITE>(elements, count);
        case dnnl_bf16: return specials<Half, 0x7f80>(elements, count);
        default: return specials<Half, 0x7c00>(elements, count);
    }
}

} // namespace

SpecialNumbers::SpecialNumbers(const dnnl_graph_logical_tensor_t &tensor) : type_(tensor.data_type), total_(elements_of(tensor)) {
    if (!is_float(type_)) throw std::invalid_argument("no kernel for this data type");
    auto size = static_cast<std::ptrdiff_t>(size_of(type_));
    for (int axis = 0; axis < tensor.ndims; axis++)
        if (tensor.dims[axis] > 1)
            outer_.push_back({static_cast<std::size_t>(tensor.dims[axis]), size * tensor.layout.strides[axis]});
    std::sort(outer_.begin(), outer_.end(), [](const Axis &a, const Axis &b) { return a.stride > b.stride; });
    while (!outer_.empty() && outer_.back().stride == size) {
        size *= static_cast<std::ptrdiff_t>(outer_.back().size);
        outer_.pop_back();
    }
    row_ = static_cast<std::size_t>(size) / size_of(type_);
}

// The union of what `look` finds in the rows.
template <typename Look>
unsigned SpecialNumbers::over_rows(const char *elements, int threads, const Look &look) const {
    std::atomic<unsigned> found {0};
    const std::size_t size = size_of(type_);
    share(total_, threads, 64, [&](std::size_t begin, std::size_t end) {
        unsigned own = 0;
        while (begin < end) {
            const std::size_t place = begin % row_, some = std::min(end - begin, row_ - place);
            std::ptrdiff_t at = static_cast<std::ptrdiff_t>(place * size);
            for (std::size_t axis = outer_.size(), rest = begin / row_; axis-- > 0; rest /= outer_[axis].size)
                at += static_cast<std::ptrdiff_t>(rest % outer_[axis].size) * outer_[axis].stride;
            own |= look(type_, elements + at, some);
            begin += some;
        }
        if (own) found.fetch_or(own, std::memory_order_relaxed);
    });
    return found;
}

unsigned SpecialNumbers::find(const char *elements, int threads) const {
    return over_rows(elements, threads, [](auto... row) { return specials(row...); });
}

bool SpecialNumbers::are_in(const char *elements, int threads, bool large) const {
    return over_rows(elements, threads, [=](auto... row) { return any(row..., large); }) != 0;
}

} // namespace onegraph
