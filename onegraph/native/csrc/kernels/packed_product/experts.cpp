// Products of rows and the matrices that they have chosen of several.

#include <atomic>
#include <string>

#include "coded_run.h"

#include "../sizes.h"

namespace onegraph {
namespace {

constexpr long TASK_COLUMNS = 128, TASKS = 8; // columns of an expert that a thread takes at least, and tasks of a thread
constexpr long FEW_ROWS = 4, WIDE = 1024; // rows for which no matrix is turned, and columns that are summed at once
constexpr long AT_ONCE = 4; // elements along the depth

ONEGRAPH_INLINE float number(float value) {
    return value;
}

ONEGRAPH_INLINE float number(Half value) {
    return bf16_to_f32(value);
}

// Adds products of a row and some columns of a matrix (depth, stride), whose elements along the depth lie apart.
template <typename T>
ONEGRAPH_INLINE void add_products(const float *row, const void *numbers, long stride, long depth, long columns, float *sums) {
    float *__restrict sum = sums;
    long k = 0;
    for (const T *weights = static_cast<const T *>(numbers); k + AT_ONCE <= depth; k += AT_ONCE) {
        const T *a = weights + k * stride, *b = a + stride, *c = b + stride, *d = c + stride;
        for (long i = 0; i < columns; i++)
            sum[i] += (row[k] * number(a[i]) + row[k + 1] * number(b[i])) + (row[k + 2] * number(c[i]) + row[k + 3] * number(d[i]));
    }
    for (; k < depth; k++) {
        const T *a = static_cast<const T *>(numbers) + k * stride;
        for (long i = 0; i < columns; i++)
            sum[i] += row[k] * number(a[i]);
    }
}

// Products of rows and the matrices that they have chosen of several, which lie one behind another. The rows that have chosen
// a matrix are multiplied together. All tensors are dense.
//
// src (places, rows, depth), or (some places, rows, depth) if as many places share these rows; beside weights of numbers a row
// may be a column; places of s32 or s64; weights,
// scales and zero points as those of a packed product, for all experts, or weights (experts, depth, columns) of numbers if
// they are not turned; the result (places, rows, columns).
//
// experts: the number of matrices. strict: whether a place counts from the end if it is negative, and is refused if it is no
// expert; otherwise such a place gives zeros. The other numbers are those of a packed product.
class PackedExperts : public Runnable {
public:
    explicit PackedExperts(const KernelArguments &arguments);

    // The results are the same for any number of threads, and for any other rows if each column is unpacked.
    void run(void *const *addresses, int threads) const override;

private:
    // Some columns of an expert, and the rows that have chosen it.
    struct Task {
        const std::vector<long> &rows;
        long expert, begin, end;
    };

    std::int64_t place_of(const void *places, long i) const;
    std::vector<std::vector<long>> chosen(void *const *addresses) const;
    void multiply(void *const *addresses, const Task &task) const;
    void multiply_few(const PackedProblem &problem, const char *rows, const char *matrix, char *results) const;

    std::size_t bytes(int place, long count) const { return static_cast<std::size_t>(count) * size_of(problem_->types[place]); }

    const long experts_;
    const bool is_turned_, is_strict_;
    const int level_;
    bool are_long_; // the places
    long lines_ = 1, repeats_ = 1; // rows of a place, and places that share rows of src
    std::unique_ptr<const PackedProblem> problem_;
};

PackedExperts::PackedExperts(const KernelArguments &arguments)
    : experts_(arguments.number("experts")), is_turned_(arguments.flag("turned")), is_strict_(arguments.flag("strict")), level_(arguments.number("level")) {
    if (arguments.count < 4) throw std::invalid_argument("other tensors than those of experts");
    const dnnl_graph_logical_tensor_t &src = *arguments.tensors[0], &places = *arguments.tensors[1];
    std::vector<const dnnl_graph_logical_tensor_t *> tensors(arguments.tensors, arguments.tensors + arguments.count);
    tensors.erase(tensors.begin() + 1);
    const long n_places = static_cast<long>(elements_of(places));
    are_long_ = places.data_type != dnnl_s32;
    if (n_places == 0 || src.ndims < 1 || !is_index(places.data_type)) throw std::invalid_argument("other tensors than those of experts");
    const dnnl_graph_logical_tensor_t &weights = *tensors[1];
    const long known = weights.ndims == 3 ? weights.dims[is_turned_ ? 2 : 1] : src.dims[src.ndims - 1];
    problem_ = problem_of(arguments, tensors.data(), tensors.size(), false, known, experts_, is_turned_);
    const long rows = static_cast<long>(elements_of(src)) / known;
    lines_ = problem_->rows / n_places;
    if (rows == 0 || problem_->rows % rows || problem_->rows % n_places || rows % lines_ || (!is_turned_ && problem_->matrix.bytes * per_word(problem_->coding.width) != known * WORD))
        throw std::invalid_argument("other sizes than those of experts");
    repeats_ = problem_->rows / rows;
}

std::int64_t PackedExperts::place_of(const void *places, long i) const {
    const std::int64_t place = are_long_ ? static_cast<const std::int64_t *>(places)[i] : static_cast<const std::int32_t *>(places)[i];
    if (!is_strict_) return place;
    if (place < -experts_ || place >= experts_)
        throw WrongContents("Gather: indices: " + std::to_string(place) + " at place " + std::to_string(i)
                + "; expected numbers from " + std::to_string(-experts_) + " to " + std::to_string(experts_ - 1)
                + ", the matrices");
    return place < 0 ? place + experts_ : place;
}

// The rows of each expert. Those of none become zeros.
std::vector<std::vector<long>> PackedExperts::chosen(void *const *addresses) const {
    const int last = problem_->dst_at;
    const std::size_t size = bytes(last, lines_ * problem_->columns);
    std::vector<std::vector<long>> rows(static_cast<std::size_t>(experts_));
    for (long i = 0; i < problem_->rows / lines_; i++) {
        const std::int64_t place = place_of(addresses[1], i);
        if (place < 0 || place >= experts_)
            std::memset(static_cast<char *>(addresses[last + 1]) + static_cast<std::size_t>(i) * size, 0, size);
        else
            for (long line = 0; line < lines_; line++)
                rows[static_cast<std::size_t>(place)].push_back(i * lines_ + line);
    }
    return rows;
}

void PackedExperts::run(void *const *addresses, int threads) const {
    const auto rows = chosen(addresses);
    const long columns = problem_->columns;
    const long active = static_cast<long>(std::count_if(rows.begin(), rows.end(), [](const auto &each) { return !each.empty(); }));
    const bool is_alone = active * columns * problem_->matrix.bytes < 2 * static_cast<long>(SHARE) || threads < 2 || !openmp().parallel;
    // A thread takes some columns of an expert at a time, and no other thread needs what it prepares.
    const long blocks = (columns + TASK_COLUMNS - 1) / TASK_COLUMNS, parts = is_alone ? 1 : TASKS * threads;
    const long width = std::max(active * blocks / parts, 1L) * TASK_COLUMNS;
    std::vector<Task> tasks;
    for (long expert = 0; expert < experts_; expert++)
        for (long begin = 0; begin < columns && !rows[static_cast<std::size_t>(expert)].empty(); begin += width)
            tasks.push_back({rows[static_cast<std::size_t>(expert)], expert, begin, std::min(begin + width, columns)});
    std::atomic<std::size_t> next {0};
    std::atomic<bool> lacks_memory {false}; // no thread may throw
    const auto wanted = is_alone ? 1 : std::min(static_cast<std::size_t>(threads), tasks.size());
    together(static_cast<int>(wanted), [&](std::size_t) {
        for (std::size_t i; (i = next++) < tasks.size() && !lacks_memory;)
            try {
                multiply(addresses, tasks[i]);
            } catch (const std::bad_alloc &) {
                lacks_memory = true;
            }
    });
    if (lacks_memory) throw std::bad_alloc();
}

// Multiplies dense rows by a matrix of f32 or bf16 as it lies, which turning would read and write once more.
void PackedExperts::multiply_few(const PackedProblem &problem, const char *rows, const char *matrix, char *results) const {
    const auto add = problem.coding.width == FULL ? ForCpu<add_products<float>>::of(level_) : ForCpu<add_products<Half>>::of(level_);
    const long depth = problem.matrix.known, count = problem.rows * problem.columns;
    const Buffer<float> numbers(static_cast<std::size_t>(problem.rows * depth)), sums(static_cast<std::size_t>(count));
    cast(problem.types[0], rows, dnnl_f32, reinterpret_cast<char *>(numbers.get()), static_cast<std::size_t>(problem.rows * depth), problem.is_fast);
    std::fill_n(sums.get(), count, 0.0f);
    for (long begin = 0; begin < problem.columns; begin += WIDE)
        for (long i = 0; i < problem.rows; i++)
            add(numbers.get() + i * depth, matrix + bytes(1, begin), problem_->columns, depth, std::min(WIDE, problem.columns - begin),
                    sums.get() + i * problem.columns + begin);
    cast(dnnl_f32, reinterpret_cast<const char *>(sums.get()), problem.types[problem.dst_at], results, static_cast<std::size_t>(count), problem.is_fast);
}

// Gathers the rows of an expert, and puts the results into their places.
void PackedExperts::multiply(void *const *addresses, const Task &task) const {
    PackedProblem problem = *problem_;
    problem.rows = static_cast<long>(task.rows.size());
    problem.columns = task.end - task.begin;
    const long known = problem.matrix.known, last = problem.dst_at, first = task.expert * problem_->columns + task.begin;
    const std::size_t row = bytes(0, known), result = bytes(static_cast<int>(last), problem.columns);
    const Buffer<char> gathered(task.rows.size() * row), results(task.rows.size() * result);
    for (std::size_t i = 0; i < task.rows.size(); i++) {
        const long place = task.rows[i] / lines_ / repeats_, line = task.rows[i] % lines_;
        std::memcpy(gathered.get() + i * row,
                static_cast<const char *>(addresses[0]) + static_cast<std::size_t>(place * lines_ + line) * row, row);
    }
    void *own[5] = {gathered.get()};
    for (int i = 1; i < last; i++)
        own[i] = static_cast<char *>(addresses[i + 1]) + (i == 1 ? static_cast<std::size_t>(first * problem.matrix.bytes) : bytes(i, first * problem.groups));
    const std::size_t size = bytes(1, 1);
    const char *const matrix = static_cast<char *>(addresses[2]) + static_cast<std::size_t>(task.expert * known * problem_->columns + task.begin) * size;
    const bool is_few = !is_turned_ && !problem.unpacks && problem.rows <= FEW_ROWS && problem.coding.width != HALF_F16;
    const Buffer<char> turned(is_turned_ || is_few ? 0 : static_cast<std::size_t>(problem.columns * known) * size);
    if (!is_turned_ && !is_few) {
        problem.tiles.turn(matrix, problem_->columns, known, problem.columns, size, turned.get());
        own[1] = turned.get();
    }
    own[last] = results.get();
    if (is_few)
        multiply_few(problem, gathered.get(), matrix, results.get());
    else
        multiply_packed(problem, own, 1);
    for (std::size_t i = 0; i < task.rows.size(); i++)
        std::memcpy(static_cast<char *>(addresses[last + 1]) + bytes(static_cast<int>(last), task.rows[i] * problem_->columns + task.begin),
                results.get() + i * result, result);
}

const Registered<PackedExperts> PACKED_EXPERTS {"packed_experts",
        "coding: s4|u4|s8|u8|f16|bf16|f32, group, zero: f32, zeros, coded, unpacks, experts, turned, strict, level"};

} // namespace
} // namespace onegraph
