// OneHot: a new axis, along which one value stands at the index, and another one everywhere else.

#include "arrays.h"

namespace onegraph {
namespace {

// `depth` elements for each index, which lie `inner` elements apart.
template <typename T, typename Index>
void fill(const ArrayCall &call, std::int64_t outer, std::int64_t depth, std::int64_t inner) {
    const T off = call.data<const T>(2)[0], on = call.data<const T>(2)[1];
    divide(outer, depth * inner, call.threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; row++) {
            T *target = call.data<T>(3) + row * depth * inner;
            const Index *indices = call.data<const Index>(0) + row * inner;
            std::fill_n(target, depth * inner, off);
            for (std::int64_t i = 0; i < inner; i++) {
                const std::int64_t index = wrapped(indices[i], depth);
                if (index >= 0 && index < depth) target[index * inner + i] = on;
            }
        }
    });
}

// indices of s32 or s64, the depth, which the shape of the result says, two values; dst. Numbers: the axis.
void one_hot(const ArrayCall &call) {
    const auto axis = static_cast<int>(call.integer(0));
    const std::int64_t inner = call.size(0, axis), outer = call.size(0, 0, axis), depth = call.dim(3, axis);
    call.check(call.size(3) == outer * depth * inner && call.size(2) == 2);
    with_size(call.type(2), [&](auto element) {
        using T = decltype(element);
        if (call.type(0) == onegraph_type_s32) return fill<T, std::int32_t>(call, outer, depth, inner);
        fill<T, std::int64_t>(call, outer, depth, inner);
    });
}

const NamedKernel kernel("OneHot", one_hot);

} // namespace
} // namespace onegraph
