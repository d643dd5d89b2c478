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

constexpr std::int64_t ROWS = 8, COLUMNS = 64; // that are computed together

// `count` elements of some rows that lie `apart` elements apart, in steps of `step`, as many rows as `NUMBER` says.
template <typename Op, typename T, std::int64_t NUMBER>
ONEGRAPH_INLINE void run_rows(const T *source, T *result, std::int64_t count, std::int64_t step, std::int64_t apart,
        std::int64_t rows, bool is_exclusive) {
    T totals[NUMBER];
    for (std::int64_t r = 0; r < NUMBER; r++)
        totals[r] = Op::template first<T>();
    const std::int64_t some = std::min(rows, NUMBER);
    const auto advance = [&](std::int64_t i, std::int64_t r) ONEGRAPH_VECTORS {
        const std::int64_t at = i * step + r * apart;
        const T before = totals[r];
        totals[r] = Op::both(before, source[at]);
        result[at] = is_exclusive ? before : totals[r];
    };
    for (std::int64_t i = 0; i < count; i++)
        if (some == NUMBER)
            for (std::int64_t r = 0; r < NUMBER; r++)
                advance(i, r);
        else
            for (std::int64_t r = 0; r < some; r++)
                advance(i, r);
}

template <typename Op, typename T>
void run(const ArrayCall &call) {
    const auto axis = static_cast<int>(call.integer(0));
    const std::int64_t outer = call.size(0, 0, axis), count = call.dim(0, axis), inner = call.size(0, axis + 1);
    const bool is_exclusive = call.flag(1), is_reversed = call.flag(2);
    const std::int64_t step = is_reversed ? -inner : inner, begin = is_reversed ? (count - 1) * inner : 0;
    const T *source = call.data<const T>(0);
    T *result = call.data<T>(1);
    if (!count || !inner) return;
    if (inner == 1) {
        const std::int64_t blocks = (outer + ROWS - 1) / ROWS;
        divide(blocks, count * ROWS, call.threads, [&](std::int64_t first, std::int64_t last) {
            for (std::int64_t row = first * ROWS; row < std::min(last * ROWS, outer); row += ROWS)
                run_rows<Op, T, ROWS>(source + row * count + begin, result + row * count + begin, count, step, count,
                        outer - row, is_exclusive);
        });
        return;
    }
    const std::int64_t blocks = (inner + COLUMNS - 1) / COLUMNS;
    divide(outer * blocks, count * COLUMNS / 4, call.threads, [&](std::int64_t first, std::int64_t last) {
        with_vectors([&]() ONEGRAPH_VECTORS {
            for (std::int64_t task = first; task < last; task++) {
                const std::int64_t column = task % blocks * COLUMNS, at = task / blocks * count * inner + column + begin;
                run_rows<Op, T, COLUMNS>(source + at, result + at, count, step, 1, inner - column, is_exclusive);
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
