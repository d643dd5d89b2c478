// ReduceSum, ReduceMean, ReduceProd, ReduceMax and ReduceMin: one number for all elements along some axes.

#include <limits>

#include "arrays.h"

namespace onegraph {
namespace {

enum How { sum, mean, product, largest, smallest };

// Totals of a row, which are added up at its end. Of fewer than 64 floats, the compiler makes no vectors where NaN counts.
template <typename T, How HOW>
constexpr std::int64_t LANES = std::is_floating_point_v<T> && HOW > product ? 64 : 16;
constexpr std::int64_t WIDE = 256; // totals of several short rows

// Means of integers are added up as numpy adds them. Other integers wrap around.
template <typename T, How HOW>
using Total = std::conditional_t<HOW == mean && std::is_integral_v<T>, double,
        typename std::conditional_t<std::is_integral_v<T> && HOW <= product, std::make_unsigned<T>, std::common_type<T>>::type>;

template <typename T, How HOW>
ONEGRAPH_INLINE Total<T, HOW> first() {
    using Limits = std::numeric_limits<T>;
    if constexpr (HOW == product) return 1;
    if constexpr (HOW == largest) return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    if constexpr (HOW == smallest) return Limits::has_infinity ? Limits::infinity() : Limits::max();
    return 0;
}

template <How HOW, typename A>
ONEGRAPH_INLINE A both(A a, A b) {
    if constexpr (HOW == product) return static_cast<A>(std::conditional_t<std::is_integral_v<A>, std::uint64_t, A>(a) * b);
    if constexpr (HOW == largest) return b > a || is_nan(b) ? b : a;
    if constexpr (HOW == smallest) return b < a || is_nan(b) ? b : a;
    return static_cast<A>(a + b);
}

// An axis of src: its size, and how far two elements lie apart in src and in the result, which is 0 where it is reduced.
struct Axis {
    std::int64_t dim, source, target;
};

template <How HOW, typename T, typename A>
ONEGRAPH_INLINE void add_row(const T *row, std::int64_t count, A *total) {
    constexpr std::int64_t COUNT = LANES<T, HOW>;
    A lanes[COUNT];
    std::fill_n(lanes, COUNT, first<T, HOW>());
    std::int64_t i = 0;
    for (; i + COUNT <= count; i += COUNT)
        for (std::int64_t l = 0; l < COUNT; l++)
            lanes[l] = both<HOW>(lanes[l], static_cast<A>(row[i + l]));
    for (; i < count; i++)
        lanes[i % COUNT] = both<HOW>(lanes[i % COUNT], static_cast<A>(row[i]));
    for (std::int64_t l = 0; l < std::min(COUNT, count); l++)
        *total = both<HOW>(*total, lanes[l]);
}

// Adds `rows` short rows that lie one behind another to the totals of their columns, as many at once as are worth a loop.
template <How HOW, typename T, typename A>
ONEGRAPH_INLINE void add_short_rows(const T *source, std::int64_t rows, std::int64_t count, A *totals) {
    A wide[WIDE];
    const std::int64_t elements = rows * count, size = std::min(WIDE / count * count, elements);
    std::fill_n(wide, size, first<T, HOW>());
    for (std::int64_t begin = 0; begin < elements; begin += size) {
        const std::int64_t some = std::min(size, elements - begin);
        for (std::int64_t i = 0; i < some; i++)
            wide[i] = both<HOW>(wide[i], static_cast<A>(source[begin + i]));
    }
    for (std::int64_t row = 0; row < size; row += count)
        for (std::int64_t i = 0; i < count; i++)
            totals[i] = both<HOW>(totals[i], wide[row + i]);
}

// The axes without those of one element; neighbours that are both reduced, or both not, are one.
std::vector<Axis> axes_of(const ArrayCall &call) {
    std::vector<Axis> axes;
    std::int64_t source = 1, target = 1;
    for (int axis = call.rank(0); axis-- > 0;) {
        const std::int64_t dim = call.dim(0, axis);
        const bool is_reduced = call.integer(1) >> axis & 1;
        if (dim == 1) continue;
        if (!axes.empty() && (axes.front().target == 0) == is_reduced)
            axes.front().dim *= dim;
        else
            axes.insert(axes.begin(), {dim, source, is_reduced ? 0 : target});
        source *= dim, target *= is_reduced ? 1 : dim;
    }
    if (axes.empty()) axes.push_back({1, 1, 0});
    return axes;
}

// The totals of the elements from `source` on, of the axes from `axis` on.
template <How HOW, typename T, typename A>
void add_axes(const T *source, A *totals, const Axis *axis, const Axis *last) {
    if (axis + 1 == last && !axis->target && last->target == 1 && axis->source == last->dim && last->dim <= WIDE / 4)
        return with_vectors([&]() ONEGRAPH_VECTORS { add_short_rows<HOW>(source, axis->dim, last->dim, totals); });
    if (axis < last) {
        for (std::int64_t i = 0; i < axis->dim; i++)
            add_axes<HOW>(source + i * axis->source, totals + i * axis->target, axis + 1, last);
        return;
    }
    const std::int64_t count = axis->dim;
    with_vectors([&]() ONEGRAPH_VECTORS {
        if (!axis->target) return add_row<HOW>(source, count, totals);
        for (std::int64_t i = 0; i < count; i++)
            totals[i] = both<HOW>(totals[i], static_cast<A>(source[i]));
    });
}

template <typename T, How HOW>
void reduce(const ArrayCall &call) {
    using A = Total<T, HOW>;
    const std::vector<Axis> axes = axes_of(call);
    const std::int64_t results = call.size(1), elements = call.size(0);
    std::int64_t kept = 1;
    for (const Axis &axis : axes)
        kept *= axis.target ? axis.dim : 1;
    call.check(results == kept && results > 0 && axes.front().dim > 0);
    std::vector<A> totals(static_cast<std::size_t>(results), first<T, HOW>());
    const bool is_divided = axes.front().target != 0 && axes.size() > 1;
    divide(is_divided ? axes.front().dim : 1, elements / axes.front().dim, is_divided ? call.threads : 1,
            [&](std::int64_t begin, std::int64_t end) {
                std::vector<Axis> own = axes;
                if (is_divided) own.front().dim = end - begin;
                const std::int64_t at = is_divided ? begin : 0;
                add_axes<HOW>(call.data<const T>(0) + at * own.front().source, totals.data() + at * own.front().target,
                        own.data(), &own.back());
            });
    const auto count = static_cast<A>(elements / results);
    for (std::int64_t i = 0; i < results; i++) {
        const A total = totals[static_cast<std::size_t>(i)];
        call.data<T>(1)[i] = static_cast<T>(HOW == mean ? total / count : total);
    }
}

// src; dst. Numbers: the reduction, and the axes as bits.
void reduce_any(const ArrayCall &call) {
    const auto of_type = [&](auto zero) {
        using T = decltype(zero);
        switch (call.integer(0)) {
            case sum: return reduce<T, sum>(call);
            case mean: return reduce<T, mean>(call);
            case product: return reduce<T, product>(call);
            case largest: return reduce<T, largest>(call);
            default: return reduce<T, smallest>(call);
        }
    };
    switch (call.type(0)) {
        case onegraph_type_f32: return of_type(float());
        case onegraph_type_f64: return of_type(double());
        case onegraph_type_s32: return of_type(std::int32_t());
        case onegraph_type_s64: return of_type(std::int64_t());
        case onegraph_type_s8: return of_type(std::int8_t());
        case onegraph_type_u8: return of_type(std::uint8_t());
        default: throw std::invalid_argument("no kernel for this data type");
    }
}

const NamedKernel sums("ReduceSum", reduce_any);
const NamedKernel means("ReduceMean", reduce_any);
const NamedKernel products("ReduceProd", reduce_any);
const NamedKernel maxima("ReduceMax", reduce_any);
const NamedKernel minima("ReduceMin", reduce_any);

} // namespace
} // namespace onegraph
