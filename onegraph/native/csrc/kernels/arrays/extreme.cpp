// ArgMax and ArgMin: the place of an extreme element along an axis.

#include "arrays.h"

namespace onegraph {
namespace {

constexpr std::int64_t COLUMNS = 256; // that are compared together

// Whether `x` takes the place of `best`: a larger one, or the first one that is not a number.
template <bool LARGEST, typename T>
ONEGRAPH_INLINE bool is_better(T x, T best) {
    if (is_nan(best)) return false;
    return (LARGEST ? x > best : x < best) || is_nan(x);
}

// The place of the extreme one of `count` elements that lie one behind another: first the element, by vectors, then its
// place. No vector is passed to a function that is called.
template <bool LARGEST, typename T>
ONEGRAPH_INLINE std::int64_t place_in_row(const T *row, std::int64_t count, bool is_last) {
    constexpr std::int64_t LANES = 64 / static_cast<std::int64_t>(sizeof(T));
    typedef T Vector __attribute__((vector_size(64)));
    typedef T Unaligned __attribute__((vector_size(64), aligned(1), may_alias));
    T best = row[0];
    bool has_nan = is_nan(best);
    std::int64_t i = 0;
    if (count >= 2 * LANES) {
        Vector lanes = *reinterpret_cast<const Unaligned *>(row);
        auto strange = lanes != lanes;
        for (; i + LANES <= count; i += LANES) {
            const Vector x = *reinterpret_cast<const Unaligned *>(row + i);
            lanes = (LARGEST ? x > lanes : x < lanes) ? x : lanes;
            strange |= x != x;
        }
        for (std::int64_t l = 0; l < LANES; l++) {
            best = (LARGEST ? lanes[l] > best : lanes[l] < best) ? lanes[l] : best;
            has_nan |= strange[l] != 0;
        }
    }
    for (; i < count; i++) {
        best = (LARGEST ? row[i] > best : row[i] < best) ? row[i] : best;
        has_nan |= is_nan(row[i]);
    }
    const auto is_there = [&](std::int64_t at) ONEGRAPH_VECTORS { return has_nan ? is_nan(row[at]) : row[at] == best; };
    std::int64_t at = is_last ? count - 1 : 0;
    while (!is_last && !has_nan && at + LANES <= count) { // past vectors without it
        const auto same = *reinterpret_cast<const Unaligned *>(row + at) == best - Vector {};
        std::int64_t any = 0;
        for (std::int64_t l = 0; l < LANES; l++)
            any |= same[l];
        if (any) break;
        at += LANES;
    }
    while (!is_there(at))
        at += is_last ? -1 : 1;
    return at;
}

template <bool LARGEST, typename T>
void find(const ArrayCall &call) {
    const auto axis = static_cast<int>(call.integer(0));
    const bool is_last = call.flag(1);
    const std::int64_t outer = call.size(0, 0, axis), count = call.dim(0, axis), inner = call.size(0, axis + 1);
    const T *source = call.data<const T>(0);
    auto *places = call.data<std::int64_t>(1);
    call.check(call.size(1) == outer * inner);
    if (inner == 1)
        return divide(outer, count, call.threads, [&](std::int64_t begin, std::int64_t end) {
            with_vectors([&]() ONEGRAPH_VECTORS {
                for (std::int64_t row = begin; row < end; row++)
                    places[row] = place_in_row<LARGEST>(source + row * count, count, is_last);
            });
        });
    const std::int64_t blocks = (inner + COLUMNS - 1) / COLUMNS;
    divide(outer * blocks, count * COLUMNS, call.threads, [&](std::int64_t first, std::int64_t last) {
        with_vectors([&]() ONEGRAPH_VECTORS {
            for (std::int64_t task = first; task < last; task++) {
                const std::int64_t column = task % blocks * COLUMNS, some = std::min(COLUMNS, inner - column);
                const T *block = source + task / blocks * count * inner + column;
                T best[COLUMNS];
                std::int32_t at[COLUMNS];
                const std::int64_t begin = is_last ? count - 1 : 0;
                std::copy_n(block + begin * inner, some, best);
                std::fill_n(at, some, static_cast<std::int32_t>(begin));
                for (std::int64_t i = 1; i < count; i++) {
                    const auto place = static_cast<std::int32_t>(is_last ? count - 1 - i : i);
                    const T *row = block + place * inner;
                    for (std::int64_t k = 0; k < some; k++) {
                        const bool is_new = is_better<LARGEST>(row[k], best[k]);
                        best[k] = is_new ? row[k] : best[k];
                        at[k] = is_new ? place : at[k];
                    }
                }
                std::copy_n(at, some, places + task / blocks * inner + column);
            }
        });
    });
}

// src; places of s64, with or without the axis. Numbers: the axis, whether the last one of equal elements counts.
template <bool LARGEST>
void of_any_type(const ArrayCall &call) {
    if (call.size(0)) with_type(call.type(0), [&](auto zero) { find<LARGEST, decltype(zero)>(call); });
}

const NamedKernel largest("ArgMax", of_any_type<true>);
const NamedKernel smallest("ArgMin", of_any_type<false>);

} // namespace
} // namespace onegraph
