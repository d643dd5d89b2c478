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

constexpr std::int64_t ROWS = 8, COLUMNS = 64, FEW = 16; // that are computed together

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

// The same for `rows` rows.
template <typename Op, std::int64_t NUMBER, typename T>
ONEGRAPH_INLINE void run_some(const T *source, T *result, std::int64_t count, std::int64_t step, std::int64_t apart,
        std::int64_t rows, bool is_exclusive) {
    std::int64_t row = 0;
    for (; row + NUMBER <= rows; row += NUMBER)
        run_rows<Op, NUMBER>(source + row * apart, result + row * apart, count, step, apart, is_exclusive);
    for (; row < rows; row++)
        run_rows<Op, 1>(source + row * apart, result + row * apart, count, step, apart, is_exclusive);
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
            const std::int64_t at = first * ROWS * count + begin, rows = std::min(last * ROWS, outer) - first * ROWS;
            run_some<Op, ROWS>(source + at, result + at, count, step, count, rows, is_exclusive);
        });
        return;
    }
    const std::int64_t blocks = (inner + COLUMNS - 1) / COLUMNS;
    divide(outer * blocks, count * COLUMNS / 4, call.threads, [&](std::int64_t first, std::int64_t last) {
        with_vectors([&]() ONEGRAPH_VECTORS {
            for (std::int64_t task = first; task < last; task++) {
                const std::int64_t column = task % blocks * COLUMNS, at = task / blocks * count * inner + column + begin;
                const std::int64_t some = std::min(COLUMNS, inner - column);
                if (some == COLUMNS)
                    run_rows<Op, COLUMNS>(source + at, result + at, count, step, 1, is_exclusive);
                else
                    run_some<Op, FEW>(source + at, result + at, count, step, 1, some, is_exclusive);
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
