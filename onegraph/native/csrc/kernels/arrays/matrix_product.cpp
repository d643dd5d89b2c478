// Matrix products of f64: tiles whose sums stay in registers, on rows and columns that are copied side by side.

#include "arrays.h"

#pragma GCC optimize("fp-contract=fast")
// No vector is passed to a function that is called: all of them are inlined.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace onegraph {
namespace {

// A matrix whose elements lie `row` and `column` elements apart.
struct Matrix {
    const double *data;
    std::int64_t row, column;

    Matrix from(std::int64_t i, std::int64_t j) const { return {data + i * row + j * column, row, column}; }
};

constexpr std::int64_t DEPTH = 256, ROWS = 96, COLUMNS = 240; // of the copies, which stay in the second cache

template <int LANES>
struct Lanes {
    typedef double Vector __attribute__((vector_size(8 * LANES)));
};

template <typename Vector>
ONEGRAPH_INLINE Vector loaded(const double *from) {
    Vector found;
    std::memcpy(&found, from, sizeof(Vector));
    return found;
}

// Adds the products of HEIGHT rows with COUNT vectors of columns to the result, of which `columns` columns exist.
template <int LANES, int HEIGHT, int COUNT>
ONEGRAPH_INLINE void tile(const double *rows, std::int64_t row_step, const double *columns, std::int64_t column_step,
        std::int64_t depth, double *result, std::int64_t apart, std::int64_t count, bool is_first) {
    using Vector = typename Lanes<LANES>::Vector;
    Vector sums[HEIGHT][COUNT] = {};
    for (std::int64_t k = 0; k < depth; k++) {
        Vector factors[COUNT];
#pragma GCC unroll 4
        for (int v = 0; v < COUNT; v++)
            factors[v] = loaded<Vector>(columns + k * column_step + v * LANES);
#pragma GCC unroll 12
        for (int r = 0; r < HEIGHT; r++) {
            const double number = rows[k * row_step + r];
#pragma GCC unroll 4
            for (int v = 0; v < COUNT; v++)
                sums[r][v] += number * factors[v];
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < HEIGHT; r++)
#pragma GCC unroll 4
        for (int v = 0; v < COUNT; v++) {
            double *place = result + r * apart + v * LANES;
            if ((v + 1) * LANES <= count) {
                const Vector sum = is_first ? sums[r][v] : loaded<Vector>(place) + sums[r][v];
                std::memcpy(place, &sum, sizeof(Vector));
            } else {
                for (std::int64_t i = 0; i < count - v * LANES; i++)
                    place[i] = (is_first ? 0.0 : place[i]) + sums[r][v][i];
            }
        }
}

// Some rows, from the highest tile to the lowest one. The order of the sums of a row depends on no other row.
template <int LANES, int HEIGHT, int COUNT>
ONEGRAPH_INLINE void tiles(std::int64_t height, const double *rows, std::int64_t row_step, const double *columns,
        std::int64_t column_step, std::int64_t depth, double *result, std::int64_t apart, std::int64_t count, bool is_first) {
    std::int64_t row = 0;
    for (; row + HEIGHT <= height; row += HEIGHT)
        tile<LANES, HEIGHT, COUNT>(rows + row, row_step, columns, column_step, depth, result + row * apart, apart, count, is_first);
    if constexpr (HEIGHT > 1)
        if (row < height)
            tiles<LANES, HEIGHT / 2, COUNT>(
                    height - row, rows + row, row_step, columns, column_step, depth, result + row * apart, apart, count, is_first);
}

struct Part {
    Matrix a, b;
    double *result;
    std::int64_t apart, height, width, depth; // the rows of the result lie `apart` elements apart
};

// Copies so many rows of a, one column of a behind another.
ONEGRAPH_INLINE void copy_rows(const Matrix &a, std::int64_t height, std::int64_t depth, double *copy) {
    if (a.row == 1) {
        for (std::int64_t k = 0; k < depth; k++)
            std::memcpy(copy + k * height, a.data + k * a.column, static_cast<std::size_t>(height) * sizeof(double));
        return;
    }
    for (std::int64_t r = 0; r < height; r++)
        for (std::int64_t k = 0; k < depth; k++)
            copy[k * height + r] = a.data[r * a.row + k * a.column];
}

// Copies blocks of WIDTH columns of b, row by row, with zeros behind the last column.
template <int WIDTH>
ONEGRAPH_INLINE void copy_columns(const Matrix &b, std::int64_t width, std::int64_t depth, double *copy) {
    for (std::int64_t first = 0; first < width; first += WIDTH, copy += depth * WIDTH) {
        const std::int64_t count = std::min<std::int64_t>(WIDTH, width - first);
        const double *source = b.data + first * b.column;
        if (count < WIDTH) std::fill_n(copy, depth * WIDTH, 0.0);
        if (b.column == 1) {
            for (std::int64_t k = 0; k < depth; k++)
                std::memcpy(copy + k * WIDTH, source + k * b.row, static_cast<std::size_t>(count) * sizeof(double));
        } else {
            for (std::int64_t j = 0; j < count; j++)
                for (std::int64_t k = 0; k < depth; k++)
                    copy[k * WIDTH + j] = source[j * b.column + k * b.row];
        }
    }
}

template <int LANES, int HEIGHT, int COUNT>
ONEGRAPH_INLINE void multiply(const Part &p, double *rows, double *columns) {
    constexpr std::int64_t WIDTH = LANES * COUNT;
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
                const double *from = is_direct ? p.b.from(k, column).data : columns + (column - direct) * depth;
                tiles<LANES, HEIGHT, COUNT>(height, rows, height, from, is_direct ? p.b.row : WIDTH, depth,
                        p.result + row * p.apart + column, p.apart, p.width - column, k == 0);
            }
        }
    }
}

// Those of cpu.h round a product in front of its sum.
void multiply_portable(const Part &part, double *rows, double *columns) {
    multiply<2, 4, 2>(part, rows, columns);
}

ONEGRAPH_AVX2 void multiply_avx2(const Part &part, double *rows, double *columns) {
    multiply<4, 4, 2>(part, rows, columns);
}

ONEGRAPH_AVX512 void multiply_avx512(const Part &part, double *rows, double *columns) {
    multiply<8, 8, 2>(part, rows, columns);
}

// a, b, and for each matrix of the result its places in them; the result. Numbers: rows, columns and depth, and how far the
// rows and the columns of a and of b lie apart.
void matrix_product(const ArrayCall &call) {
    const std::int64_t rows = call.integer(0), columns = call.integer(1), depth = call.integer(2), count = call.size(2);
    const Matrix a {call.data<const double>(0), call.integer(3), call.integer(4)};
    const Matrix b {call.data<const double>(1), call.integer(5), call.integer(6)};
    const auto *a_places = call.data<const std::int64_t>(2), *b_places = call.data<const std::int64_t>(3);
    const std::int64_t tall = 8, wide = (columns + COLUMNS - 1) / COLUMNS; // parts of a row
    const std::int64_t least = count * wide < 2 * call.threads ? (2 * call.threads + count * wide - 1) / (count * wide) : 1;
    const std::int64_t height = std::max((rows + least * tall - 1) / (least * tall) * tall, tall), high = (rows + height - 1) / height;
    const std::int64_t width = std::min(COLUMNS, columns), size = (width + 15) / 16 * 16 * std::min(DEPTH, depth);
    const auto compute = has_avx512() ? multiply_avx512 : has_avx2() ? multiply_avx2 : multiply_portable;
    divide(count * high * wide, height * width * depth / 16, call.threads, [&](std::int64_t first, std::int64_t last) {
        const std::unique_ptr<double[]> copies(new double[static_cast<std::size_t>(size + ROWS * std::min(DEPTH, depth))]);
        for (std::int64_t task = first; task < last; task++) {
            const std::int64_t row = task % high * height, column = task / high % wide * COLUMNS, batch = task / high / wide;
            const Matrix left {a.data + a_places[batch], a.row, a.column}, right {b.data + b_places[batch], b.row, b.column};
            const Part part {left.from(row, 0), right.from(0, column),
                    call.data<double>(4) + (batch * rows + row) * columns + column, columns, std::min(height, rows - row),
                    std::min(COLUMNS, columns - column), depth};
            double *of_rows = copies.get() + size;
            compute(part, of_rows, copies.get());
        }
    });
}

const NamedKernel products("MatMul", matrix_product);

} // namespace
} // namespace onegraph
