// ReduceMax and ReduceMin over any axes, which keep NaN.

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "registry.h"
#include "shares.h"

#include "floats.h"
#include "order.h"

namespace onegraph {
namespace {

constexpr std::size_t PART = 1 << 16; // elements of a line that are worth a piece of their own
constexpr std::size_t MOST_PIECES = 64;
constexpr std::size_t COLUMNS = 1024; // that are reduced together

// src; dst, of f32, f16 or bf16, with any strides above 0. It is fast if elements of src lie side by side. The list of
// numbers tells of each axis of src whether it is reduced. The results are the same for any number of threads.
class ReduceExtreme : public Runnable {
public:
    explicit ReduceExtreme(const KernelArguments &arguments);
    void run(void *const *addresses, int threads) const override;

private:
    // Axes that are all reduced or all kept, and lie in src, and in dst if they are kept, as one axis: the number of
    // elements, and how far apart two of them lie in src and dst.
    struct Run {
        bool is_reduced;
        std::size_t size, from, to;
    };

    static std::size_t place(const std::vector<Run> &runs, std::size_t index, std::size_t Run::*step);
    template <typename T, T EXPONENT>
    void compute(void *const *addresses, int threads) const;
    template <typename T, T EXPONENT>
    void reduce_lines(const T *source, T *target, int threads) const;
    template <typename T, T EXPONENT>
    void reduce_columns(const T *source, T *target, std::size_t begin, std::size_t end) const;

    std::vector<Run> kept_, reduced_; // all but the last run in the memory of src, the last ones first
    std::size_t n_kept_ = 1, n_reduced_ = 1; // the combinations of these
    Run last_ {true, 1, 1, 1};
    bool is_minimum_;
    dnnl_data_type_t type_;
};

ReduceExtreme::ReduceExtreme(const KernelArguments &arguments) : is_minimum_(arguments.flag("minimum")) {
    if (arguments.count != 2) throw std::invalid_argument("other tensors than a source and a result");
    const dnnl_graph_logical_tensor_t &source = *arguments.tensors[0], &target = *arguments.tensors[1];
    const int rank = source.ndims;
    type_ = source.data_type;
    const bool is_known = arguments.n_list() == static_cast<std::size_t>(rank) && is_float(type_)
            && target.data_type == type_ && !!elements_of(source);
    if (!is_known) throw std::invalid_argument("other tensors than those of a reduction");
    std::vector<Run> axes;
    std::size_t results = 1;
    for (int axis = 0, own = 0; axis < rank; axis++) {
        const bool is_reduced = arguments.list()[axis] != 0;
        const int place = target.ndims == rank ? axis : own;
        const auto size = static_cast<std::size_t>(source.dims[axis]);
        own += !is_reduced;
        if (size == 1) continue;
        if (!is_reduced && (place >= target.ndims || target.dims[place] != source.dims[axis]))
            throw std::invalid_argument("other results than those of a reduction");
        results *= is_reduced ? 1 : size;
        axes.push_back({is_reduced, size, static_cast<std::size_t>(source.layout.strides[axis]),
                is_reduced ? 0 : static_cast<std::size_t>(target.layout.strides[place])});
    }
    if (elements_of(target) != results) throw std::invalid_argument("other results than those of a reduction");
    std::stable_sort(axes.begin(), axes.end(), [](const Run &one, const Run &other) { return one.from > other.from; });
    std::vector<Run> runs;
    for (const Run &axis : axes) {
        if (!runs.empty() && runs.back().is_reduced == axis.is_reduced && runs.back().from == axis.size * axis.from
                && runs.back().to == axis.size * axis.to)
            runs.back() = {axis.is_reduced, runs.back().size * axis.size, axis.from, axis.to};
        else
            runs.push_back(axis);
    }
    if (!runs.empty() && runs.back().from == 1) {
        last_ = runs.back();
        runs.pop_back();
    }
    for (; !runs.empty(); runs.pop_back()) {
        (runs.back().is_reduced ? reduced_ : kept_).push_back(runs.back());
        (runs.back().is_reduced ? n_reduced_ : n_kept_) *= runs.back().size;
    }
}

// The place of combination `index` of runs.
std::size_t ReduceExtreme::place(const std::vector<Run> &runs, std::size_t index, std::size_t Run::*step) {
    std::size_t at = 0;
    for (const Run &run : runs) {
        at += index % run.size * run.*step;
        index /= run.size;
    }
    return at;
}

// Where elements side by side are reduced. Few results of long lines are reduced in pieces.
template <typename T, T EXPONENT>
void ReduceExtreme::reduce_lines(const T *source, T *target, int threads) const {
    static const auto largest = ForCpu<Lines<T, EXPONENT>::largest>::of();
    const T flip = is_minimum_ ? Order<T, EXPONENT>::SIGN : 0;
    const auto reduce = [&](std::size_t result, std::size_t begin, std::size_t end) {
        T most = 0;
        const T *const first = source + place(kept_, result, &Run::from);
        for (std::size_t i = 0; i < n_reduced_; i++)
            largest(first + place(reduced_, i, &Run::from) + begin, &most, end - begin, flip);
        return most;
    };
    const auto element = [&](T most) { return static_cast<T>(Order<T, EXPONENT>::element(most) ^ flip); };
    const std::size_t pieces = std::min(MOST_PIECES / n_kept_, last_.size / PART);
    if (threads > 1 && pieces > 1) {
        T parts[MOST_PIECES];
        const std::size_t piece = (last_.size - 1) / pieces + 1;
        share(n_kept_ * pieces * SHARE, threads, SHARE, [&](std::size_t begin, std::size_t end) {
            for (std::size_t i = begin / SHARE; i < end / SHARE; i++) {
                const std::size_t start = i % pieces * piece;
                parts[i] = start < last_.size ? reduce(i / pieces, start, std::min(start + piece, last_.size)) : T {0};
            }
        });
        for (std::size_t i = 0; i < n_kept_; i++)
            target[place(kept_, i, &Run::to)] = element(*std::max_element(parts + i * pieces, parts + (i + 1) * pieces));
        return;
    }
    const std::size_t work = n_reduced_ * last_.size;
    share(n_kept_ * work, threads, work, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin / work; i < end / work; i++)
            target[place(kept_, i, &Run::to)] = element(reduce(i, 0, last_.size));
    });
}

// Where elements side by side are kept: some columns at once, from number `begin` of them to `end`.
template <typename T, T EXPONENT>
void ReduceExtreme::reduce_columns(const T *source, T *target, std::size_t begin, std::size_t end) const {
    static const auto raise = ForCpu<Lines<T, EXPONENT>::raise>::of();
    static const auto write = ForCpu<Lines<T, EXPONENT>::write>::of();
    const T flip = is_minimum_ ? Order<T, EXPONENT>::SIGN : 0;
    const std::size_t parts = (last_.size - 1) / COLUMNS + 1;
    // Short rows of src that lie one behind another are read together.
    const std::size_t inner = reduced_.empty() ? 1 : reduced_.front().size;
    const bool is_joined = !reduced_.empty() && reduced_.front().from == last_.size && last_.size <= COLUMNS / 4;
    const std::size_t rows = is_joined ? std::min(inner, COLUMNS / last_.size) : 1;
    T most[COLUMNS];
    for (std::size_t i = begin; i < end; i++) {
        const std::size_t first = i % parts * COLUMNS, count = std::min(COLUMNS, last_.size - first);
        const T *const from = source + place(kept_, i / parts, &Run::from) + first;
        std::fill_n(most, rows * count, T {0});
        for (std::size_t j = 0; j < n_reduced_; j += inner)
            for (std::size_t row = 0; row < inner; row += rows)
                raise(from + place(reduced_, j + row, &Run::from), most, std::min(rows, inner - row) * count, flip);
        for (std::size_t row = count; row < rows * count; row += count)
            for (std::size_t j = 0; j < count; j++)
                most[j] = std::max(most[j], most[row + j]);
        T *const to = target + place(kept_, i / parts, &Run::to) + first * last_.to;
        if (last_.to == 1) {
            write(most, to, count, flip);
            continue;
        }
        for (std::size_t j = 0; j < count; j++)
            to[j * last_.to] = static_cast<T>(Order<T, EXPONENT>::element(most[j]) ^ flip);
    }
}

template <typename T, T EXPONENT>
void ReduceExtreme::compute(void *const *addresses, int threads) const {
    const auto source = static_cast<const T *>(addresses[0]);
    const auto target = static_cast<T *>(addresses[1]);
    if (last_.is_reduced) return reduce_lines<T, EXPONENT>(source, target, threads);
    const std::size_t units = n_kept_ * ((last_.size - 1) / COLUMNS + 1), work = n_reduced_ * std::min(last_.size, COLUMNS);
    share(units * work, threads, work, [&](std::size_t begin, std::size_t end) {
        reduce_columns<T, EXPONENT>(source, target, begin / work, end / work);
    });
}

void ReduceExtreme::run(void *const *addresses, int threads) const {
    if (type_ == dnnl_f32)
        compute<Word, INFINITE>(addresses, threads);
    else if (type_ == dnnl_bf16)
        compute<Half, 0x7f80>(addresses, threads);
    else
        compute<Half, 0x7c00>(addresses, threads);
}

const Registered<ReduceExtreme> REDUCE_EXTREME {"reduce_extreme", "minimum, reduced..."};

} // namespace
} // namespace onegraph
