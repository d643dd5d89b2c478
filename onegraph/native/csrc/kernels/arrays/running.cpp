// CumSum and CumProd: sums and products of the elements so far along an axis.

#include "arrays.h"

namespace onegraph {
namespace {

struct Sum {
    template <typename T>
    static constexpr T first() {
        return 0;
    }
    template <typename T>
    static ONEGRAPH_INLINE T both(T a, T b) {
        return static_cast<T>(a + b);
    }
};

struct Product {
    template <typename T>
    static constexpr T first() {
        return 1;
    }
    template <typename T>
    static ONEGRAPH_INLINE T both(T a, T b) {
        return static_cast<T>(1u * a * b); // small integers would become signed ones
    }
};

// Elements of integers wrap around.
template <typename T>
using Wrapping = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::common_type<T>>::type;

constexpr std::int64_t ROWS = 8, COLUMNS = 1024; // that are computed together

// `count` elements, in steps of `step`, of NUMBER rows that lie `apart` elements apart.
template <typename Op, std::int64_t NUMBER, typename T>
ONEGRAPH_INLINE void run_rows(const T *source, T *result, std::int64_t count, std::int64_t step, std::int64_t apart, bool is_exclusive) {
    T totals[NUMBER];
    for (std::int64_t r = 0; r < NUMBER; r++)
        totals[r] = Op::template first<T>();
    for (std::int64_t i = 0; i < count; i++, source += step, result += step)
        for (std::int64_t r = 0; r < NUMBER; r++) {
            const T before = totals[r];
            totals[r] = Op::both(before, source[r * apart]);
            result[r * apart] = is_exclusive ? before : totals[r];
        }
}

// The same for columns that lie one behind another, whose totals stay in the first cache.
template <typename Op, typename T>
ONEGRAPH_INLINE void run_columns(const T *source, T *result, std::int64_t count, std::int64_t step, std::int64_t columns, bool is_exclusive) {
    T totals[COLUMNS];
    std::fill_n(totals, columns, Op::template first<T>());
    for (std::int64_t i = 0; i < count; i++, source += step, result += step) {
        if (is_exclusive) std::memcpy(result, totals, static_cast<std::size_t>(columns) * sizeof(T));
        for (std::int64_t k = 0; k < columns; k++)
            totals[k] = Op::both(totals[k], source[k]);
        if (!is_exclusive) std::memcpy(result, totals, static_cast<std::size_t>(columns) * sizeof(T));
    }
}

template <typename Op, typename T>
void run(const ArrayCall &call) {
    const auto axis = static_cast<int>(call.integer(0));
    const std::int64_t outer = call.size(0, 0, axis), count = call.dim(0, axis), inner = call.size(0, axis + 1);
    const bool is_exclusive = call.flag(1), is_reversed = call.flag(2);
    const std::int64_t step = is_reversed ? -inner : inner, begin = is_reversed ? (count - 1) * inner : 0;
    const T *source = call.data<const T>(0) + begin;
    T *result = call.data<T>(1) + begin;
    call.check(call.size(1) == call.size(0));
    if (!count || !inner) return;
    if (inner == 1) {
        const std::int64_t blocks = (outer + ROWS - 1) / ROWS;
        divide(blocks, count * ROWS, call.threads, [&](std::int64_t first, std::int64_t last) {
            std::int64_t row = first * ROWS;
            for (; row + ROWS <= std::min(last * ROWS, outer); row += ROWS)
                run_rows<Op, ROWS>(source + row * count, result + row * count, count, step, count, is_exclusive);
            for (; row < std::min(last * ROWS, outer); row++)
                run_rows<Op, 1>(source + row * count, result + row * count, count, step, count, is_exclusive);
        });
        return;
    }
    const std::int64_t parts = outer < call.threads ? call.threads : 1; // of a row
    const std::int64_t columns = std::min((inner + parts - 1) / parts, COLUMNS), blocks = (inner + columns - 1) / columns;
    divide(outer * blocks, count * columns, call.threads, [&](std::int64_t first, std::int64_t last) {
        with_vectors([&]() ONEGRAPH_VECTORS {
            for (std::int64_t task = first; task < last; task++) {
                const std::int64_t column = task % blocks * columns, at = task / blocks * count * inner + column;
                const std::int64_t some = std::min(columns, inner - column);
                run_columns<Op>(source + at, result + at, count, step, some, is_exclusive);
            }
        });
    });
}

// src; dst. Numbers: the axis, whether an element is left out of its sum, whether the sums begin at the end.
template <typename Op>
void of_any_type(const ArrayCall &call) {
    with_type(call.type(0), [&](auto zero) { run<Op, Wrapping<decltype(zero)>>(call); });
}

const NamedKernel sums("CumSum", of_any_type<Sum>);
const NamedKernel products("CumProd", of_any_type<Product>);

} // namespace
} // namespace onegraph
