// ScatterElements and ScatterND: updates at places that indices name, one after another at each place.

#include "indexing.h"

namespace onegraph {
namespace {

enum Reduction { NONE, ADD, MULTIPLY, MAXIMUM, MINIMUM };

// Calls `body(combine)` with a function of an element and its update.
template <typename T, typename Body>
void with_reduction(std::int64_t reduction, const Body &body) {
    using Unsigned = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::common_type<T>>::type;
    switch (reduction) {
        case ADD:
            return body([](T a, T b) ONEGRAPH_VECTORS {
                return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
            });
        case MULTIPLY:
            return body([](T a, T b) ONEGRAPH_VECTORS {
                return static_cast<T>(1u * static_cast<Unsigned>(a) * static_cast<Unsigned>(b));
            });
        case MAXIMUM: return body([](T a, T b) ONEGRAPH_VECTORS { return b > a || is_nan(b) ? b : a; });
        case MINIMUM: return body([](T a, T b) ONEGRAPH_VECTORS { return b < a || is_nan(b) ? b : a; });
        default: throw std::invalid_argument("an unknown reduction");
    }
}

// Calls `body(T())` with the C++ type of a data type that models reduce; throws invalid_argument for others.
template <typename Body>
void with_common_type(int type, const Body &body) {
    switch (type) {
        case onegraph_type_f32: return body(float());
        case onegraph_type_f64: return body(double());
        case onegraph_type_s32: return body(std::int32_t());
        case onegraph_type_s64: return body(std::int64_t());
        case onegraph_type_s8: return body(std::int8_t());
        case onegraph_type_u8: return body(std::uint8_t());
        default: throw std::invalid_argument("a kernel lacks this data type");
    }
}

// Copies src to dst unless they are the same memory.
void copy_source(const ArrayCall &call) {
    const auto size = static_cast<std::int64_t>(size_of_type(call.type(0))) * call.size(0);
    call.check(call.size(3) == call.size(0));
    const auto *source = call.data<const char>(0);
    auto *target = call.data<char>(3);
    if (source == target) return;
    divide((size + 63) / 64, 16, call.threads, [&](std::int64_t begin, std::int64_t end) {
        std::memcpy(target + begin * 64, source + begin * 64, static_cast<std::size_t>(std::min(end * 64, size) - begin * 64));
    });
}

// Work is divided between threads so that one thread takes all updates of an element, in their order.
template <typename T, typename Combine>
void scatter_elements(const ArrayCall &call, const Combine &combine) {
    const auto axis = static_cast<int>(call.integer(0));
    const std::int64_t dim = call.dim(3, axis), stride = call.size(3, axis + 1), count = call.dim(1, axis);
    check_inside(call, 1, 3, axis);
    call.check(call.size(2) == call.size(1));
    check_indices(call, 1, dim);
    copy_source(call);
    const auto outer = places(call, 1, 3, 0, axis), inner = places(call, 1, 3, axis + 1, call.rank(1));
    const auto n_outer = static_cast<std::int64_t>(outer.size()), n_inner = static_cast<std::int64_t>(inner.size());
    const auto *indices = call.data<const std::int64_t>(1);
    const auto *updates = call.data<const T>(2);
    const auto place = [&](std::int64_t at, std::int64_t first, std::int64_t last) {
        T *target = call.data<T>(3) + outer[static_cast<std::size_t>(at)];
        for (std::int64_t i = 0; i < count; i++) {
            const std::int64_t row = (at * count + i) * n_inner;
            for (std::int64_t k = first; k < last; k++) {
                T &element = target[wrapped(indices[row + k], dim) * stride + inner[static_cast<std::size_t>(k)]];
                element = combine(element, updates[row + k]);
            }
        }
    };
    if (n_outer >= 2 * call.threads)
        return divide(n_outer, count * n_inner * 2, call.threads, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t at = begin; at < end; at++)
                place(at, 0, n_inner);
        });
    for (std::int64_t at = 0; at < n_outer; at++)
        divide((n_inner + 15) / 16, count * 32, call.threads, [&](std::int64_t begin, std::int64_t end) {
            place(at, begin * 16, std::min(end * 16, n_inner));
        });
}

template <typename T, typename Combine>
void scatter_nd(const ArrayCall &call, const Combine &combine) {
    const auto at = slices(call, 1, 3);
    copy_source(call);
    const std::int64_t size = call.size(3, static_cast<int>(call.dim(1, call.rank(1) - 1)));
    const auto count = static_cast<std::int64_t>(at.size());
    call.check(call.size(2) == count * size);
    const auto *updates = call.data<const T>(2);
    const auto place = [&](std::int64_t slice, std::int64_t begin, std::int64_t end) ONEGRAPH_VECTORS {
        T *__restrict element = call.data<T>(3) + at[static_cast<std::size_t>(slice)];
        const T *update = updates + slice * size;
        for (std::int64_t i = begin; i < end; i++)
            element[i] = combine(element[i], update[i]);
    };
    const std::int64_t whole = call.size(3), parts = std::max(call.threads, 1);
    if (parts == 1 || count * size < static_cast<std::int64_t>(4 * SHARE)) {
        with_vectors([&]() ONEGRAPH_VECTORS {
            for (std::int64_t slice = 0; slice < count; slice++)
                place(slice, 0, size);
        });
        return;
    }
    if (whole < 4 * parts * size)
        return divide((size + 15) / 16, count * 16, call.threads, [&](std::int64_t begin, std::int64_t end) {
            with_vectors([&]() ONEGRAPH_VECTORS {
                for (std::int64_t slice = 0; slice < count; slice++)
                    place(slice, begin * 16, std::min(end * 16, size));
            });
        });
    // Each thread takes the slices that lie in a part of dst, and reads all places.
    std::atomic<std::int64_t> taken {0};
    together(static_cast<int>(parts), [&](std::size_t) {
        for (std::int64_t part; (part = taken.fetch_add(1)) < parts;) {
            const std::int64_t begin = whole * part / parts, end = whole * (part + 1) / parts;
            with_vectors([&]() ONEGRAPH_VECTORS {
                for (std::int64_t slice = 0; slice < count; slice++)
                    if (const std::int64_t first = at[static_cast<std::size_t>(slice)]; first >= begin && first < end)
                        place(slice, 0, size);
            });
        }
    });
}

// src, indices of s64, updates; dst, which may be src. Numbers: the axis and the reduction.
template <bool IS_ND>
void scatter(const ArrayCall &call) {
    const auto run = [&](auto zero, const auto &combine) {
        using T = decltype(zero);
        if (IS_ND)
            scatter_nd<T>(call, combine);
        else
            scatter_elements<T>(call, combine);
    };
    const std::int64_t reduction = call.integer(1);
    if (reduction == NONE) return with_size(call.type(0), [&](auto zero) {
        using T = decltype(zero);
        run(zero, [](T, T update) ONEGRAPH_VECTORS { return update; });
    });
    with_common_type(call.type(0), [&](auto zero) {
        with_reduction<decltype(zero)>(reduction, [&](const auto &combine) { run(zero, combine); });
    });
}

const NamedKernel elements("ScatterElements", scatter<false>);
const NamedKernel tuples("ScatterND", scatter<true>);

} // namespace
} // namespace onegraph
