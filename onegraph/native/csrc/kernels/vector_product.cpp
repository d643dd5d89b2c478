// Products of a few rows and a matrix, which read the matrix once, as it lies in memory.

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "registry.h"
#include "shares.h"

#include "floats.h"
#pragma GCC optimize("fp-contract=fast")

namespace onegraph {
namespace {

constexpr std::size_t CHUNK = 2048; // columns whose sums stay in a cache near the core
constexpr std::size_t TOGETHER = 4; // rows of a turned matrix that are read at once
constexpr std::size_t MOST_LINES = 16; // rows of a matrix that are read at once: their sums are read and written once
constexpr std::size_t UNIT = 64; // columns of a thread are a multiple of these
// A matrix of fewer columns is divided into so many parts of its rows, for any number of threads: the sum of each part
// is the same then, and what a thread reads lies together in memory.
constexpr std::size_t WIDE = 4096, PARTS = 8;

// As many numbers as a register has.
template <std::size_t LANES>
struct Lanes {
    typedef float Vector __attribute__((vector_size(LANES * sizeof(float))));
};
template <std::size_t LANES>
using VectorOf = typename Lanes<LANES>::Vector;

template <std::size_t LANES>
ONEGRAPH_INLINE void load(const float *source, VectorOf<LANES> &found) {
    std::memcpy(&found, source, sizeof found);
}

// `sums`: for each row, `columns` numbers, which the products are added to.
struct Problem {
    const float *rows, *matrix;
    float *sums;
    std::size_t depth, columns;
};

// The rows of the matrix that meet so many rows at once.
constexpr std::size_t lines_for(std::size_t rows) {
    return rows > 1 ? MOST_LINES / 2 : MOST_LINES;
}

// Adds `lines` times their factors to the sums of each row.
template <std::size_t LANES, std::size_t ROWS, std::size_t LINES>
ONEGRAPH_INLINE void add_lines(const Problem &problem, std::size_t k, std::size_t first, std::size_t count) {
    const float *lines[LINES];
    float factors[ROWS][LINES];
    for (std::size_t j = 0; j < LINES; j++) {
        lines[j] = problem.matrix + (k + j) * problem.columns + first;
        for (std::size_t row = 0; row < ROWS; row++)
            factors[row][j] = problem.rows[row * problem.depth + k + j];
    }
    float *const sums = problem.sums + first;
    std::size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        VectorOf<LANES> line[LINES];
#pragma GCC unroll 16
        for (std::size_t j = 0; j < LINES; j++) {
            load<LANES>(lines[j] + i, line[j]);
            ONEGRAPH_FETCH(lines[j] + i + LINES * problem.columns); // what is read after these lines
        }
#pragma GCC unroll 4
        for (std::size_t row = 0; row < ROWS; row++) {
            float *const sum = sums + row * problem.columns + i;
            VectorOf<LANES> found;
            load<LANES>(sum, found);
#pragma GCC unroll 16
            for (std::size_t j = 0; j < LINES; j++)
                found += factors[row][j] * line[j];
            std::memcpy(sum, &found, sizeof found);
        }
    }
    for (; i < count; i++)
        for (std::size_t row = 0; row < ROWS; row++)
            for (std::size_t j = 0; j < LINES; j++)
                sums[row * problem.columns + i] += factors[row][j] * lines[j][i];
}

// The columns from `begin` to `end` of some rows of a matrix (depth, columns).
template <std::size_t LANES, std::size_t ROWS>
ONEGRAPH_INLINE void add_columns(
        const Problem &problem, std::size_t k, std::size_t stop, std::size_t begin, std::size_t end) {
    constexpr std::size_t LINES = lines_for(ROWS);
    for (std::size_t first = begin; first < end; first += CHUNK) {
        const std::size_t count = std::min(CHUNK, end - first);
        std::size_t line = k;
        for (; line + LINES <= stop; line += LINES)
            add_lines<LANES, ROWS, LINES>(problem, line, first, count);
        for (; line < stop; line++)
            add_lines<LANES, ROWS, 1>(problem, line, first, count);
    }
}

// The products of each row and LINES rows of a matrix (columns, depth).
template <std::size_t LANES, std::size_t ROWS, std::size_t LINES>
ONEGRAPH_INLINE void add_dots(const Problem &problem, std::size_t first) {
    const std::size_t depth = problem.depth;
    const float *const matrix = problem.matrix + first * depth;
    VectorOf<LANES> sums[LINES][ROWS] = {};
    std::size_t whole = 0;
    for (; whole + LANES <= depth; whole += LANES) {
        VectorOf<LANES> parts[ROWS], line;
#pragma GCC unroll 4
        for (std::size_t row = 0; row < ROWS; row++)
            load<LANES>(problem.rows + row * depth + whole, parts[row]);
#pragma GCC unroll 4
        for (std::size_t j = 0; j < LINES; j++) {
            load<LANES>(matrix + j * depth + whole, line);
            ONEGRAPH_FETCH(matrix + (j + LINES) * depth + whole);
#pragma GCC unroll 4
            for (std::size_t row = 0; row < ROWS; row++)
                sums[j][row] += line * parts[row];
        }
    }
    for (std::size_t j = 0; j < LINES; j++)
        for (std::size_t row = 0; row < ROWS; row++) {
            float total = 0;
            for (std::size_t lane = 0; lane < LANES; lane++)
                total += sums[j][row][lane];
            for (std::size_t k = whole; k < depth; k++)
                total += matrix[j * depth + k] * problem.rows[row * depth + k];
            problem.sums[row * problem.columns + first + j] += total;
        }
}

// What a thread computes: columns from `begin` to `end`, of the rows of the matrix from `k` to `stop`.
struct Share {
    std::size_t k, stop, begin, end;
};

template <std::size_t LANES, std::size_t ROWS>
ONEGRAPH_INLINE void add(const Problem &problem, bool is_turned, const Share &share) {
    if (!is_turned) return add_columns<LANES, ROWS>(problem, share.k, share.stop, share.begin, share.end);
    std::size_t column = share.begin;
    for (; column + TOGETHER <= share.end; column += TOGETHER)
        add_dots<LANES, ROWS, TOGETHER>(problem, column);
    for (; column < share.end; column++)
        add_dots<LANES, ROWS, 1>(problem, column);
}

using Add = void (*)(const Problem &, bool, const Share &);

template <std::size_t ROWS>
Add of_level(int level) {
    return ForCpu<add<4, ROWS>, add<8, ROWS>, add<16, ROWS>>::of(level);
}

Add of_rows(std::size_t rows, int level) {
    if (rows < 3) return rows == 1 ? of_level<1>(level) : of_level<2>(level);
    return rows == 3 ? of_level<3>(level) : of_level<4>(level);
}

// Divides `count` into parts of a multiple of `unit`; returns where a part begins.
std::size_t part_of(std::size_t count, std::size_t unit, std::size_t part, std::size_t parts) {
    return std::min(part * ((count + unit - 1) / unit) / parts * unit, count);
}

void multiply(const Problem &problem, std::size_t rows, bool is_turned, Add function, int threads) {
    const std::size_t depth = problem.depth, columns = problem.columns;
    const bool is_alone = threads < 2 || !openmp().parallel;
    if (is_turned || columns >= WIDE) {
        const std::size_t units = (columns + UNIT - 1) / UNIT;
        const std::size_t wanted = is_alone ? 1 : std::min(static_cast<std::size_t>(threads), units);
        return together(static_cast<int>(wanted), [&](std::size_t thread) {
            function(problem, is_turned,
                    {0, depth, part_of(columns, UNIT, thread, wanted), part_of(columns, UNIT, thread + 1, wanted)});
        });
    }
    std::vector<float> sums(PARTS * rows * columns);
    const std::size_t wanted = is_alone ? 1 : std::min(static_cast<std::size_t>(threads), PARTS);
    together(static_cast<int>(wanted), [&](std::size_t thread) {
        for (std::size_t part = thread * PARTS / wanted; part < (thread + 1) * PARTS / wanted; part++) {
            Problem own = problem;
            own.sums = sums.data() + part * rows * columns;
            const auto place = [&](std::size_t index) { return part_of(depth, MOST_LINES, index, PARTS); };
            function(own, false, {place(part), place(part + 1), 0, columns});
        }
    });
    for (std::size_t part = 0; part < PARTS; part++)
        for (std::size_t i = 0; i < rows * columns; i++)
            problem.sums[i] += sums[part * rows * columns + i];
}

// The product of at most four rows and a matrix, and a tensor that is added, which is one row or has one for each. All
// are dense f32.
//
// rows (rows, depth), matrix (depth, columns), or (columns, depth) if it is turned, what is added; the result
// (rows, columns).
class VectorProduct : public Runnable {
public:
    static constexpr std::size_t MOST_ROWS = 4;

    explicit VectorProduct(const KernelArguments &arguments);
    void run(void *const *addresses, int threads) const override;

private:
    bool is_turned_, has_addend_, is_row_;
    int level_;
    std::size_t rows_, depth_, columns_;
};

VectorProduct::VectorProduct(const KernelArguments &arguments)
    : is_turned_(arguments.flag("turned")), level_(arguments.number("level")) {
    const std::size_t count = arguments.count;
    const auto tensors = arguments.tensors;
    if (count != 3 && count != 4) throw std::invalid_argument("other tensors than those of a product");
    has_addend_ = count == 4;
    const dnnl_graph_logical_tensor_t &matrix = *tensors[1];
    bool is_product = matrix.ndims == 2 && elements_of(matrix) > 0;
    for (std::size_t i = 0; i < count; i++)
        is_product = is_product && tensors[i]->data_type == dnnl_f32;
    if (!is_product) throw std::invalid_argument("no kernel for these tensors");
    depth_ = static_cast<std::size_t>(matrix.dims[is_turned_ ? 1 : 0]);
    columns_ = static_cast<std::size_t>(matrix.dims[is_turned_ ? 0 : 1]);
    rows_ = elements_of(*tensors[0]) / depth_;
    is_row_ = has_addend_ && elements_of(*tensors[2]) == columns_;
    const bool is_whole = elements_of(*tensors[0]) == rows_ * depth_ && elements_of(*tensors[count - 1]) == rows_ * columns_;
    const bool has_room = !has_addend_ || is_row_ || elements_of(*tensors[2]) == rows_ * columns_;
    if (!is_whole || !has_room || rows_ == 0 || rows_ > MOST_ROWS)
        throw std::invalid_argument("other sizes than those of a product");
}

void VectorProduct::run(void *const *addresses, int threads) const {
    const auto at = [&](std::size_t i) { return static_cast<float *>(addresses[i]); };
    float *const sums = at(has_addend_ ? 3 : 2);
    for (std::size_t i = 0; i < rows_ * columns_; i++)
        sums[i] = has_addend_ ? at(2)[is_row_ ? i % columns_ : i] : 0;
    multiply({at(0), at(1), sums, depth_, columns_}, rows_, is_turned_, of_rows(rows_, level_), threads);
}

const Registered<VectorProduct> VECTOR_PRODUCT {"vector_product", "turned, level"};

} // namespace
} // namespace onegraph
