// Matrix products of f64 and of integers, which wrap around: tiles whose sums stay in registers, on rows and columns that are copied side by side.

#include "arrays.h"

#pragma GCC optimize("fp-contract=fast")
// No vector is passed to a function that is called: all of them are inlined.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace onegraph {
namespace {

// A matrix whose elements lie `row` and `column` elements apart.
template <typename T>
struct Matrix {
    const T *data;
    std::int64_t row, column;

    Matrix from(std::int64_t i, std::int64_t j) const { return {data + i * row + j * column, row, column}; }
};

constexpr std::int64_t DEPTH = 256, ROWS = 96, COLUMNS = 240; // of the copies, which stay in the second cache

template <typename T, int BYTES>
struct Lanes {
    typedef T Vector __attribute__((vector_size(BYTES)));
    static constexpr int count = BYTES / static_cast<int>(sizeof(T));
};

template <typename Vector, typename T>
ONEGRAPH_INLINE Vector loaded(const T *from) {
    Vector found;
    std::memcpy(&found, from, sizeof(Vector));
    return found;
}

// Adds the products of HEIGHT rows with COUNT vectors of columns to the result, of which `columns` columns exist.
template <typename T, int BYTES, int HEIGHT, int COUNT>
ONEGRAPH_INLINE void tile(const T *rows, std::int64_t row_step, const T *columns, std::int64_t column_step, std::int64_t depth,
        T *result, std::int64_t apart, std::int64_t count, bool is_first) {
    using Vector = typename Lanes<T, BYTES>::Vector;
    constexpr int LANES = Lanes<T, BYTES>::count;
    Vector sums[HEIGHT][COUNT] = {};
    for (std::int64_t k = 0; k < depth; k++) {
        Vector factors[COUNT];
#pragma GCC unroll 4
        for (int v = 0; v < COUNT; v++)
            factors[v] = loaded<Vector>(columns + k * column_step + v * LANES);
#pragma GCC unroll 12
        for (int r = 0; r < HEIGHT; r++) {
            const T number = rows[k * row_step + r];
#pragma GCC unroll 4
            for (int v = 0; v < COUNT; v++)
                sums[r][v] += number * factors[v];
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < HEIGHT; r++)
#pragma GCC unroll 4
        for (int v = 0; v < COUNT; v++) {
            T *place = result + r * apart + v * LANES;
            if ((v + 1) * LANES <= count) {
                const Vector sum = is_first ? sums[r][v] : loaded<Vector>(place) + sums[r][v];
                std::memcpy(place, &sum, sizeof(Vector));
            } else {
                for (std::int64_t i = 0; i < count - v * LANES; i++)
                    place[i] = (is_first ? T(0) : place[i]) + sums[r][v][i];
            }
        }
}

// Some rows, from the highest tile to the lowest one. The order of the sums of a row depends on no other row.
template <typename T, int BYTES, int HEIGHT, int COUNT>
ONEGRAPH_INLINE void tiles(std::int64_t height, const T *rows, std::int64_t row_step, const T *columns, std::int64_t column_step,
        std::int64_t depth, T *result, std::int64_t apart, std::int64_t count, bool is_first) {
    std::int64_t row = 0;
    for (; row + HEIGHT <= height; row += HEIGHT)
        tile<T, BYTES, HEIGHT, COUNT>(rows + row, row_step, columns, column_step, depth, result + row * apart, apart, count, is_first);
    if constexpr (HEIGHT > 1)
        if (row < height)
            tiles<T, BYTES, HEIGHT / 2, COUNT>(
                    height - row, rows + row, row_step, columns, column_step, depth, result + row * apart, apart, count, is_first);
}

template <typename T>
struct Part {
    Matrix<T> a, b;
    T *result;
    std::int64_t apart, height, width, depth; // the rows of the result lie `apart` elements apart
};

// Copies so many rows of a, one column of a behind another.
template <typename T>
ONEGRAPH_INLINE void copy_rows(const Matrix<T> &a, std::int64_t height, std::int64_t depth, T *copy) {
    if (a.row == 1) {
        for (std::int64_t k = 0; k < depth; k++)
            std::memcpy(copy + k * height, a.data + k * a.column, static_cast<std::size_t>(height) * sizeof(T));
        return;
    }
    for (std::int64_t r = 0; r < height; r++)
        for (std::int64_t k = 0; k < depth; k++)
            copy[k * height + r] = a.data[r * a.row + k * a.column];
}

// Copies blocks of WIDTH columns of b, row by row, with zeros behind the last column.
template <int WIDTH, typename T>
ONEGRAPH_INLINE void copy_columns(const Matrix<T> &b, std::int64_t width, std::int64_t depth, T *copy) {
    constexpr std::int64_t SOME = 8; // rows, whose elements of a column are in one or two cache lines
    for (std::int64_t first = 0; first < width; first += WIDTH, copy += depth * WIDTH) {
        const std::int64_t count = std::min<std::int64_t>(WIDTH, width - first);
        const T *source = b.data + first * b.column;
        if (count < WIDTH) std::fill_n(copy, depth * WIDTH, T(0));
        if (b.column == 1) {
            for (std::int64_t k = 0; k < depth; k++)
                std::memcpy(copy + k * WIDTH, source + k * b.row, static_cast<std::size_t>(count) * sizeof(T));
            continue;
        }
        std::int64_t k = 0;
        for (; k + SOME <= depth; k += SOME)
            for (std::int64_t j = 0; j < count; j++)
                for (std::int64_t i = 0; i < SOME; i++)
                    copy[(k + i) * WIDTH + j] = source[j * b.column + (k + i) * b.row];
        for (; k < depth; k++)
            for (std::int64_t j = 0; j < count; j++)
                copy[k * WIDTH + j] = source[j * b.column + k * b.row];
    }
}

template <typename T, int BYTES, int HEIGHT, int COUNT>
ONEGRAPH_INLINE void multiply(const Part<T> &p, T *rows, T *columns) {
    constexpr std::int64_t WIDTH = Lanes<T, BYTES>::count * COUNT;
    // Columns that only one tile reads are read where they lie.
    const std::int64_t direct = p.height <= HEIGHT && p.b.column == 1 ? p.width / WIDTH * WIDTH : 0;
    for (std::int64_t k = 0; k < p.depth; k += DEPTH) {
        const std::int64_t depth = std::min(DEPTH, p.depth - k);
        copy_columns<WIDTH>(p.b.from(k, direct), p.width - direct, depth, columns);
        for (std::int64_t row = 0; row < p.height; row += ROWS) {
            const std::int64_t height = std::min(ROWS, p.height - row);
            copy_rows(p.a.from(row, k), height, depth, rows);
            for (std::int64_t column = 0; column < p.width; column += WIDTH) {
                const bool is_direct = column < direct;
                const T *from = is_direct ? p.b.from(k, column).data : columns + (column - direct) * depth;
                tiles<T, BYTES, HEIGHT, COUNT>(height, rows, height, from, is_direct ? p.b.row : WIDTH, depth,
                        p.result + row * p.apart + column, p.apart, p.width - column, k == 0);
            }
        }
    }
}

// Those of cpu.h round a product in front of its sum.
template <typename T>
void multiply_portable(const Part<T> &part, T *rows, T *columns) {
    multiply<T, 16, 4, 2>(part, rows, columns);
}

template <typename T>
ONEGRAPH_AVX2 void multiply_avx2(const Part<T> &part, T *rows, T *columns) {
    multiply<T, 32, 4, 2>(part, rows, columns);
}

template <typename T>
ONEGRAPH_AVX512 void multiply_avx512(const Part<T> &part, T *rows, T *columns) {
    multiply<T, 64, 8, 2>(part, rows, columns);
}

// Products of rows with one column, both of which lie side by side: a tile would compute columns that do not exist.
template <typename T>
ONEGRAPH_INLINE void multiply_column(const Part<T> &p) {
    constexpr std::int64_t SUMS = 256 / static_cast<std::int64_t>(sizeof(T));
    for (std::int64_t row = 0; row < p.height; row++) {
        const T *a = p.a.data + row * p.a.row, *b = p.b.data;
        T sums[SUMS] = {};
        std::int64_t k = 0;
        for (; k + SUMS <= p.depth; k += SUMS)
            for (std::int64_t i = 0; i < SUMS; i++)
                sums[i] += a[k + i] * b[k + i];
        T sum = 0;
        for (; k < p.depth; k++)
            sum += a[k] * b[k];
        for (const T one : sums)
            sum += one;
        p.result[row * p.apart] = sum;
    }
}

// The matrices of an array: how far their rows and columns lie apart, and where each of those of the result begins.
template <typename T>
struct Matrices {
    Matrix<T> first;
    std::vector<std::int64_t> places;
};

// `is_left`: whether an array of one axis is a row, not a column. `batch`: the dims of the matrices of the result.
template <typename T>
Matrices<T> matrices_of(const ArrayCall &call, std::size_t array, bool is_left, bool is_turned, const std::vector<std::int64_t> &batch) {
    const int rank = call.rank(array);
    const auto *data = call.data<const T>(array);
    const std::int64_t last = call.dim(array, rank - 1), size = rank > 1 ? last * call.dim(array, rank - 2) : last;
    const bool is_row = rank > 1 ? !is_turned : is_left;
    Matrices<T> found {{data, is_row ? rank > 1 ? last : 0 : 1, is_row ? 1 : rank > 1 ? last : 0}, {0}};
    std::int64_t step = size;
    std::vector<std::int64_t> steps(batch.size(), 0);
    for (int axis = rank - 3, own = static_cast<int>(batch.size()) - 1; axis >= 0; axis--, own--) {
        steps[static_cast<std::size_t>(own)] = call.dim(array, axis) == 1 ? 0 : step;
        step *= call.dim(array, axis);
    }
    for (std::size_t axis = 0; axis < batch.size(); axis++) {
        std::vector<std::int64_t> next;
        for (const std::int64_t place : found.places)
            for (std::int64_t i = 0; i < batch[axis]; i++)
                next.push_back(place + i * steps[axis]);
        found.places.swap(next);
    }
    return found;
}

template <typename T>
void matrix_product(const ArrayCall &call, std::size_t result) {
    const bool turns_a = call.flag(0), turns_b = call.flag(1);
    const int a_rank = call.rank(0), b_rank = call.rank(1);
    const std::int64_t rows = a_rank > 1 ? call.dim(0, a_rank - (turns_a ? 1 : 2)) : 1;
    const std::int64_t columns = b_rank > 1 ? call.dim(1, b_rank - (turns_b ? 2 : 1)) : 1;
    const std::int64_t depth = call.dim(0, a_rank - (turns_a && a_rank > 1 ? 2 : 1));
    std::vector<std::int64_t> batch(static_cast<std::size_t>(std::max({a_rank, b_rank, 2}) - 2), 1);
    for (std::size_t array = 0; array < 2; array++)
        for (int axis = call.rank(array) - 3, own = static_cast<int>(batch.size()) - 1; axis >= 0; axis--, own--)
            if (call.dim(array, axis) != 1) batch[static_cast<std::size_t>(own)] = call.dim(array, axis);
    const Matrices<T> left = matrices_of<T>(call, 0, true, turns_a, batch), right = matrices_of<T>(call, 1, false, turns_b, batch);
    const Matrix<T> &a = left.first, &b = right.first;
    call.check(call.dim(1, b_rank - (b_rank > 1 && !turns_b ? 2 : 1)) == depth);
    call.check(call.size(result) == static_cast<std::int64_t>(left.places.size()) * rows * columns);
    for (std::size_t array = 0; array < 2; array++)
        for (int axis = call.rank(array) - 3, own = static_cast<int>(batch.size()) - 1; axis >= 0; axis--, own--)
            call.check(call.dim(array, axis) == 1 || call.dim(array, axis) == batch[static_cast<std::size_t>(own)]);
    call.check(result == 2 || call.size(2) == columns);
    const auto count = static_cast<std::int64_t>(left.places.size());
    const std::int64_t tall = 8, wide = (columns + COLUMNS - 1) / COLUMNS; // parts of a row
    const std::int64_t least = count * wide < 2 * call.threads ? (2 * call.threads + count * wide - 1) / (count * wide) : 1;
    const std::int64_t height = std::max((rows + least * tall - 1) / (least * tall) * tall, tall), high = (rows + height - 1) / height;
    const bool is_column = columns == 1 && a.column == 1 && b.row == 1;
    const std::int64_t width = is_column ? 0 : std::min(COLUMNS, columns), size = (width + 31) / 32 * 32 * std::min(DEPTH, depth);
    const auto compute = has_avx512() ? multiply_avx512<T> : has_avx2() ? multiply_avx2<T> : multiply_portable<T>;
    const T *bias = result > 2 ? call.data<const T>(2) : nullptr;
    divide(count * high * wide, height * std::min(COLUMNS, columns) * depth / 16, call.threads, [&](std::int64_t first, std::int64_t last) {
        const std::unique_ptr<T[]> copies(new T[static_cast<std::size_t>(size + std::min(ROWS, height) * std::min(DEPTH, depth))]);
        for (std::int64_t task = first; task < last; task++) {
            const std::int64_t row = task % high * height, column = task / high % wide * COLUMNS;
            const auto matrix = static_cast<std::size_t>(task / high / wide);
            const Matrix<T> own {a.data + left.places[matrix], a.row, a.column}, other {b.data + right.places[matrix], b.row, b.column};
            T *target = call.data<T>(result) + (static_cast<std::int64_t>(matrix) * rows + row) * columns + column;
            const Part<T> part {own.from(row, 0), other.from(0, column), target, columns, std::min(height, rows - row),
                    std::min(COLUMNS, columns - column), depth};
            if (is_column)
                with_vectors([&]() ONEGRAPH_VECTORS { multiply_column(part); });
            else
                compute(part, copies.get() + size, copies.get());
            for (std::int64_t i = 0; bias && i < part.height; i++)
                for (std::int64_t j = 0; j < part.width; j++)
                    target[i * columns + j] += bias[column + j];
        }
    });
}

// src, weights, a number for each column if there is a bias; dst. Numbers: whether src and weights are transposed, whether
// there is a bias.
void product_of_any(const ArrayCall &call) {
    const std::size_t result = call.flag(2) ? 3 : 2;
    switch (call.type(0)) {
        case onegraph_type_f64: return matrix_product<double>(call, result);
        case onegraph_type_s32:
        case onegraph_type_u32: return matrix_product<std::uint32_t>(call, result); // a sign changes no bit of a product
        case onegraph_type_s64:
        case onegraph_type_u64: return matrix_product<std::uint64_t>(call, result);
        default: throw std::invalid_argument("no products of this data type");
    }
}

const NamedKernel products("MatMul", product_of_any);

} // namespace
} // namespace onegraph
