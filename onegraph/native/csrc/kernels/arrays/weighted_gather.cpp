// WeightedGather: sums of a few elements along an axis, each times a weight.

#include "arrays.h"

namespace onegraph {
namespace {

constexpr std::int64_t ROWS = 16, COLUMNS = 64; // that are computed together

// The elements of src that each element of dst is made of, and their weights, without those that count nothing.
template <typename T>
struct Taps {
    std::vector<std::int64_t> ends;
    std::vector<std::int64_t> places;
    std::vector<T> weights;

    explicit Taps(const ArrayCall &call) {
        const std::int64_t dim = call.dim(0, static_cast<int>(call.integer(0))), count = call.dim(1, 0), most = call.dim(1, 1);
        const auto *indices = call.data<const std::int64_t>(1);
        const T *shares = call.data<const T>(2);
        for (std::int64_t i = 0; i < count * most; i++) {
            if (i % most == 0 && i) ends.push_back(static_cast<std::int64_t>(places.size()));
            if (indices[i] >= dim) throw BadIndex {1, i, indices[i]};
            if (indices[i] < 0) continue;
            places.push_back(indices[i]);
            weights.push_back(shares[i]);
        }
        ends.resize(static_cast<std::size_t>(count), static_cast<std::int64_t>(places.size()));
    }
};

// WIDTH sums of rows of elements that lie `apart` elements apart.
template <std::int64_t WIDTH, typename T>
ONEGRAPH_INLINE void add_up(const Taps<T> &taps, std::int64_t begin, std::int64_t end, const T *source, std::int64_t apart, T *result) {
    T sums[WIDTH] {};
    for (std::int64_t k = begin; k < end; k++) {
        const T weight = taps.weights[static_cast<std::size_t>(k)];
        const T *row = source + taps.places[static_cast<std::size_t>(k)] * apart;
        for (std::int64_t j = 0; j < WIDTH; j++)
            sums[j] += weight * row[j];
    }
    std::memcpy(result, sums, sizeof sums);
}

// As many sums of WIDTH elements as there are in `width`; the last ones may be computed twice. Returns whether there are any.
template <std::int64_t WIDTH, typename T>
ONEGRAPH_INLINE bool add_up_all(const Taps<T> &taps, std::int64_t begin, std::int64_t end, const T *source, std::int64_t apart, T *result, std::int64_t width) {
    if (width < WIDTH) return false;
    for (std::int64_t column = 0; column + WIDTH <= width; column += WIDTH)
        add_up<WIDTH>(taps, begin, end, source + column, apart, result + column);
    const std::int64_t last = width - WIDTH;
    if (last % WIDTH) add_up<WIDTH>(taps, begin, end, source + last, apart, result + last);
    return true;
}

// All sums of `width` elements each, whose rows lie `apart` elements apart in src and `step` elements apart in dst.
template <typename T>
ONEGRAPH_INLINE void add_up_columns(const Taps<T> &taps, const T *source, std::int64_t apart, T *result, std::int64_t step, std::int64_t width) {
    std::int64_t begin = 0;
    for (const std::int64_t end : taps.ends) {
        const std::int64_t whole = width / COLUMNS * COLUMNS, rest = width - whole;
        add_up_all<COLUMNS>(taps, begin, end, source, apart, result, whole);
        const T *from = source + whole;
        T *to = result + whole;
        if (rest && !add_up_all<ROWS>(taps, begin, end, from, apart, to, rest) && !add_up_all<4>(taps, begin, end, from, apart, to, rest))
            add_up_all<1>(taps, begin, end, from, apart, to, rest);
        begin = end;
        result += step;
    }
}

// Sums along the last axis: rows lie side by side while they are computed.
template <typename T>
ONEGRAPH_INLINE void add_up_rows(const Taps<T> &taps, const T *source, std::int64_t dim, T *result, std::int64_t rows, T *turned) {
    const auto count = static_cast<std::int64_t>(taps.ends.size());
    T *sums = turned + dim * ROWS;
    for (std::int64_t i = 0; i < dim; i++)
        for (std::int64_t r = 0; r < rows; r++)
            turned[i * ROWS + r] = source[r * dim + i];
    add_up_columns(taps, turned, ROWS, sums, ROWS, ROWS);
    for (std::int64_t r = 0; r < rows; r++)
        for (std::int64_t i = 0; i < count; i++)
            result[r * count + i] = sums[i * ROWS + r];
}

template <typename T>
void weighted(const ArrayCall &call) {
    const auto axis = static_cast<int>(call.integer(0));
    const std::int64_t outer = call.size(0, 0, axis), dim = call.dim(0, axis), inner = call.size(0, axis + 1), count = call.dim(1, 0);
    call.check(call.rank(1) == 2 && call.size(2) == call.size(1) && call.size(3) == outer * count * inner);
    const Taps<T> taps(call);
    const T *source = call.data<const T>(0);
    T *result = call.data<T>(3);
    const auto each = static_cast<std::int64_t>(taps.places.size()) / std::max<std::int64_t>(count, 1) + 2; // steps for an element
    if (inner == 1) {
        divide((outer + ROWS - 1) / ROWS, ROWS * (dim + count * each), call.threads, [&](std::int64_t first, std::int64_t last) {
            std::vector<T> turned(static_cast<std::size_t>((dim + count) * ROWS));
            with_vectors([&]() ONEGRAPH_VECTORS {
                for (std::int64_t row = first * ROWS; row < std::min(last * ROWS, outer); row += ROWS) {
                    const std::int64_t rows = std::min(ROWS, outer - row);
                    add_up_rows(taps, source + row * dim, dim, result + row * count, rows, turned.data());
                }
            });
        });
        return;
    }
    const std::int64_t parts = outer < 4 * call.threads ? call.threads : 1; // of a row
    const std::int64_t columns = ((inner + parts - 1) / parts + ROWS - 1) / ROWS * ROWS, blocks = (inner + columns - 1) / columns;
    divide(outer * blocks, count * columns * each, call.threads, [&](std::int64_t first, std::int64_t last) {
        with_vectors([&]() ONEGRAPH_VECTORS {
            for (std::int64_t task = first; task < last; task++) {
                const std::int64_t row = task / blocks, column = task % blocks * columns;
                const std::int64_t width = std::min(columns, inner - column);
                add_up_columns(taps, source + row * dim * inner + column, inner, result + row * count * inner + column, inner, width);
            }
        });
    });
}

// src, indices (count, taps) of s64, of which negative ones count nothing, weights of their shape; dst. Numbers: the axis.
void of_any_type(const ArrayCall &call) {
    with_float(call.type(0), [&](auto zero) { weighted<decltype(zero)>(call); });
}

const NamedKernel sums("WeightedGather", of_any_type);

} // namespace
} // namespace onegraph
