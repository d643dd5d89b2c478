// MaxPool of tensors with any strides. Channels that lie side by side are compared in registers, tap by tap. Otherwise, and
// for large windows, the largest elements of columns are taken first, and then the largest of these. A window over a
// whole row of elements side by side, as of ReduceMax, is one loop.

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "pool_windows.h"
#include "shares.h"

#include "floats.h"
#include "order.h"

namespace onegraph {
namespace {

constexpr std::size_t FEW_TAPS = 9; // of a window that is taken tap by tap

template <typename T, T EXPONENT>
struct Rows : Lines<T, EXPONENT> {
    // most[i] = the larger of it and number i * step
    ONEGRAPH_INLINE static void merge(
            const T *__restrict source, std::size_t step, T *__restrict most, std::size_t count) {
        if (step == 1)
            for (std::size_t i = 0; i < count; i++)
                most[i] = most[i] > source[i] ? most[i] : source[i];
        else if (step == 2)
            for (std::size_t i = 0; i < count; i++)
                most[i] = most[i] > source[2 * i] ? most[i] : source[2 * i];
        else
            for (std::size_t i = 0; i < count; i++)
                most[i] = most[i] > source[step * i] ? most[i] : source[step * i];
    }

    // result[i] = the largest of the elements i of the taps
    template <std::size_t VECTORS>
    ONEGRAPH_INLINE static void take_vectors(const T *const *taps, std::size_t n_taps, std::size_t at, T *result) {
        typedef T Vector __attribute__((vector_size(64)));
        constexpr std::size_t LANES = 64 / sizeof(T);
        Vector most[VECTORS] = {};
        for (std::size_t tap = 0; tap < n_taps; tap++)
#pragma GCC unroll 4
            for (std::size_t j = 0; j < VECTORS; j++) {
                Vector x;
                std::memcpy(&x, taps[tap] + at + j * LANES, sizeof x);
                const Vector order = (x ^ (-(x >> (Order<T, EXPONENT>::BITS - 1)) & Order<T, EXPONENT>::SIZE))
                        - Order<T, EXPONENT>::LEAST;
                most[j] = most[j] > order ? most[j] : order;
            }
#pragma GCC unroll 4
        for (std::size_t j = 0; j < VECTORS; j++) {
            const Vector x = most[j] + Order<T, EXPONENT>::LEAST;
            const Vector found = x ^ (-(x >> (Order<T, EXPONENT>::BITS - 1)) & Order<T, EXPONENT>::SIZE);
            std::memcpy(result + at + j * LANES, &found, sizeof found);
        }
    }

    ONEGRAPH_INLINE static void take(const T *const *taps, std::size_t n_taps, T *result, std::size_t count) {
        constexpr std::size_t LANES = 64 / sizeof(T);
        std::size_t i = 0;
        for (; i + 4 * LANES <= count; i += 4 * LANES)
            take_vectors<4>(taps, n_taps, i, result);
        for (; i + LANES <= count; i += LANES)
            take_vectors<1>(taps, n_taps, i, result);
        for (; i < count; i++) {
            T most = 0;
            for (std::size_t tap = 0; tap < n_taps; tap++)
                most = std::max(most, Order<T, EXPONENT>::of(taps[tap][i]));
            result[i] = Order<T, EXPONENT>::element(most);
        }
    }
};

// MaxPool: NaN is larger than every number, and a window of padding alone is minus infinity.
//
// src; dst. Both have any strides of 0 and more. It is fast if the channels of src or its last spatial axis lie one behind
// another. The list of numbers has four for each spatial axis: kernel, stride, dilation and padding before.
class MaxPool : public Runnable {
public:
    explicit MaxPool(const KernelArguments &arguments);
    void run(void *const *addresses, int threads) const override;

private:
    using Row = PoolWindows::Row;

    template <typename T, T EXPONENT>
    void compute_by_taps(const T *source, T *target, std::size_t begin, std::size_t end) const;
    template <typename T, T EXPONENT>
    void compute_by_columns(const T *source, T *target, std::size_t begin, std::size_t end) const;
    template <typename T, T EXPONENT>
    void compute_by_lines(const T *source, T *target, std::size_t begin, std::size_t end) const;
    template <typename T, T EXPONENT>
    void compute(void *const *addresses, std::size_t begin, std::size_t end) const;

    bool is_by_taps_, is_by_lines_;
    dnnl_data_type_t type_;
    PoolWindows windows_;
};

MaxPool::MaxPool(const KernelArguments &arguments)
    : type_(arguments.tensors[0]->data_type),
      windows_(*arguments.tensors[0], *arguments.tensors[arguments.count - 1], arguments.size("channels"), arguments.list(),
              arguments.n_list()) {
    const bool is_known = arguments.count == 2 && is_float(type_) && arguments.tensors[1]->data_type == type_;
    if (!is_known) throw std::invalid_argument("other tensors than those of a MaxPool");
    is_by_taps_ = windows_.channels.from == 1 && windows_.channels.to == 1 && windows_.taps() <= FEW_TAPS;
    const PoolWindows::Spatial &width = windows_.spatial[2];
    is_by_lines_ = windows_.inner == 1 && width.axis.from == 1 && width.axis.results == 1 && width.kernel == width.axis.size
            && width.dilation == 1 && width.begin == 0;
}

template <typename T, T EXPONENT>
void MaxPool::compute_by_taps(const T *source, T *target, std::size_t begin, std::size_t end) const {
    static const auto take = ForCpu<Rows<T, EXPONENT>::take>::of();
    const PoolWindows::Spatial &width = windows_.spatial[2];
    const T *lines[FEW_TAPS], *taps[FEW_TAPS];
    for (std::size_t index = begin; index < end; index++) {
        const Row at = windows_.row(index);
        std::size_t n_lines = 0;
        windows_.for_each_line(at, [&](std::ptrdiff_t offset) { lines[n_lines++] = source + offset; });
        T *to = target + at.to;
        for (std::ptrdiff_t x = 0; x < width.axis.results; x++, to += width.axis.to) {
            std::size_t n_taps = 0;
            for (std::ptrdiff_t i = 0; i < width.kernel; i++) {
                const std::ptrdiff_t w = width.at(x, i);
                for (std::size_t line = 0; line < n_lines && width.has(w); line++)
                    taps[n_taps++] = lines[line] + w * width.axis.from;
            }
            take(taps, n_taps, to, at.inner);
        }
    }
}

template <typename T, T EXPONENT>
void MaxPool::compute_by_columns(const T *source, T *target, std::size_t begin, std::size_t end) const {
    static const auto raise = ForCpu<Rows<T, EXPONENT>::raise>::of();
    static const auto merge = ForCpu<Rows<T, EXPONENT>::merge>::of();
    static const auto write = ForCpu<Rows<T, EXPONENT>::write>::of();
    const PoolWindows::Spatial &width = windows_.spatial[2];
    const auto columns = static_cast<std::size_t>(width.axis.size), places = static_cast<std::size_t>(width.axis.results);
    const auto step = static_cast<std::size_t>(width.stride);
    std::vector<T> column(columns * windows_.inner), most(places * windows_.inner);
    for (std::size_t index = begin; index < end; index++) {
        const Row at = windows_.row(index);
        const std::size_t inner = at.inner;
        std::fill_n(column.data(), columns * inner, T {0});
        windows_.for_each_line(at, [&](std::ptrdiff_t offset) {
            const T *line = source + offset;
            if (width.axis.from == static_cast<std::ptrdiff_t>(inner))
                raise(line, column.data(), columns * inner, 0);
            else
                for (std::size_t x = 0; x < columns; x++, line += width.axis.from)
                    raise(line, &column[x * inner], inner, 0);
        });
        std::fill_n(most.data(), places * inner, T {0});
        for (std::ptrdiff_t i = 0; i < width.kernel; i++) {
            const auto [left, right] = width.inside(i);
            if (left == right) continue;
            const T *read = &column[static_cast<std::size_t>(width.at(left, i)) * inner];
            const auto first = static_cast<std::size_t>(left), last = static_cast<std::size_t>(right);
            if (step == 1 || inner == 1)
                merge(read, step, &most[first * inner], (last - first) * inner);
            else
                for (std::size_t x = first; x < last; x++, read += step * inner)
                    merge(read, 1, &most[x * inner], inner);
        }
        T *to = target + at.to;
        const bool is_dense = inner == 1 || windows_.channels.to == 1;
        if (is_dense && width.axis.to == static_cast<std::ptrdiff_t>(inner)) {
            write(most.data(), to, places * inner, 0);
            continue;
        }
        for (std::size_t x = 0; x < places; x++, to += width.axis.to)
            for (std::size_t i = 0; i < inner; i++)
                to[static_cast<std::ptrdiff_t>(i) * windows_.channels.to] = Order<T, EXPONENT>::element(most[x * inner + i]);
    }
}

// For a window over a whole line of src, whose elements lie one behind another.
template <typename T, T EXPONENT>
void MaxPool::compute_by_lines(const T *source, T *target, std::size_t begin, std::size_t end) const {
    static const auto largest = ForCpu<Rows<T, EXPONENT>::largest>::of();
    const auto columns = static_cast<std::size_t>(windows_.spatial[2].axis.size);
    for (std::size_t index = begin; index < end; index++) {
        const Row at = windows_.row(index);
        T most = 0;
        windows_.for_each_line(at, [&](std::ptrdiff_t offset) { largest(source + offset, &most, columns, 0); });
        target[at.to] = Order<T, EXPONENT>::element(most);
    }
}

template <typename T, T EXPONENT>
void MaxPool::compute(void *const *addresses, std::size_t begin, std::size_t end) const {
    const auto source = static_cast<const T *>(addresses[0]);
    const auto target = static_cast<T *>(addresses[1]);
    if (is_by_lines_)
        compute_by_lines<T, EXPONENT>(source, target, begin, end);
    else if (is_by_taps_)
        compute_by_taps<T, EXPONENT>(source, target, begin, end);
    else
        compute_by_columns<T, EXPONENT>(source, target, begin, end);
}

void MaxPool::run(void *const *addresses, int threads) const {
    const std::size_t work = static_cast<std::size_t>(windows_.spatial[2].axis.size) * windows_.inner;
    share(windows_.rows * work, threads, work, [&](std::size_t begin, std::size_t end) {
        begin /= work, end /= work;
        if (type_ == dnnl_f32)
            compute<Word, INFINITE>(addresses, begin, end);
        else if (type_ == dnnl_bf16)
            compute<Half, 0x7f80>(addresses, begin, end);
        else
            compute<Half, 0x7c00>(addresses, begin, end);
    });
}

const Registered<MaxPool> MAX_POOL {"max_pool", "channels, windows..."};

} // namespace
} // namespace onegraph
