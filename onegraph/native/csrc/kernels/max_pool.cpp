// MaxPool of tensors with any strides. Channels that lie side by side are compared in registers, tap by tap. Otherwise, and
// for large windows, the largest elements of columns are taken first, and then the largest of these. A window over a
// whole row of elements side by side, as of ReduceMax, is one loop.

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

#include "registry.h"
#include "shares.h"

#include "floats.h"
#include "order.h"

namespace onegraph {
namespace {

constexpr std::size_t FEW_TAPS = 9; // of a window that is taken tap by tap
constexpr std::size_t FEW_ROWS = 64, MANY_CHANNELS = 128, PART = 64; // few rows of many channels are divided into parts

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
    struct Axis {
        std::ptrdiff_t size = 1, results = 1, from = 0, to = 0; // elements of src and dst, and strides in elements
    };

    struct Spatial {
        Axis axis;
        std::ptrdiff_t kernel = 1, stride = 1, dilation = 1, begin = 0;

        // The place in src of element `tap` of a window.
        std::ptrdiff_t at(std::ptrdiff_t window, std::ptrdiff_t tap) const {
            return window * stride + tap * dilation - begin;
        }
    };

    // A row of dst: its place, the offsets of its image and channels in src and of itself in dst, and its channels.
    struct Row {
        std::ptrdiff_t depth, height, from, to;
        std::size_t inner;
    };

    Row row(std::size_t index) const;
    template <typename Function>
    void for_each_line(const Row &row, const Function &function) const;
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
    Axis images_, channels_;
    std::array<Spatial, 3> spatial_;
    std::size_t inner_ = 1, parts_, rows_; // channels that are computed together, such parts, and rows of dst in all
};

MaxPool::MaxPool(const KernelArguments &arguments) {
    const std::size_t count = arguments.count, channels = arguments.size("channels");
    const auto tensors = arguments.tensors;
    const dnnl_graph_logical_tensor_t &source = *tensors[0], &target = *tensors[1];
    const auto rank = static_cast<std::size_t>(source.ndims);
    const bool is_known = count == 2 && rank >= 3 && rank <= 5 && target.ndims == source.ndims && channels < rank
            && arguments.n_list() == 4 * (rank - 2) && is_float(source.data_type) && target.data_type == source.data_type;
    if (!is_known) throw std::invalid_argument("other tensors than those of a MaxPool");
    type_ = source.data_type;
    const auto axis = [&](std::size_t at) {
        return Axis {source.dims[at], target.dims[at], source.layout.strides[at], target.layout.strides[at]};
    };
    images_ = axis(0), channels_ = axis(channels);
    for (std::size_t i = 0, at = 1; i < rank - 2; i++, at++) {
        at += at == channels;
        const int *numbers = arguments.list() + 4 * i;
        spatial_[5 - rank + i] = {axis(at), numbers[0], numbers[1], numbers[2], numbers[3]};
    }
    const auto rows = static_cast<std::size_t>(images_.size * spatial_[0].axis.results * spatial_[1].axis.results);
    if (channels_.from == 1) {
        const auto size = static_cast<std::size_t>(channels_.size);
        inner_ = rows < FEW_ROWS && size >= MANY_CHANNELS ? PART : size;
    }
    parts_ = (static_cast<std::size_t>(channels_.size) + inner_ - 1) / inner_;
    rows_ = rows * parts_;
    const auto taps = static_cast<std::size_t>(spatial_[0].kernel * spatial_[1].kernel * spatial_[2].kernel);
    is_by_taps_ = channels_.from == 1 && channels_.to == 1 && taps <= FEW_TAPS;
    const Spatial &width = spatial_[2];
    is_by_lines_ = inner_ == 1 && width.axis.from == 1 && width.axis.results == 1 && width.kernel == width.axis.size
            && width.dilation == 1 && width.begin == 0;
}

MaxPool::Row MaxPool::row(std::size_t index) const {
    auto rest = static_cast<std::ptrdiff_t>(index);
    const auto take = [&](std::ptrdiff_t size) {
        const std::ptrdiff_t at = rest % size;
        rest /= size;
        return at;
    };
    // The parts of the channels of one place follow one another if they lie side by side.
    const auto parts = static_cast<std::ptrdiff_t>(parts_);
    const bool is_last = channels_.from == 1;
    std::ptrdiff_t part = is_last ? take(parts) : 0;
    const std::ptrdiff_t y = take(spatial_[1].axis.results), z = take(spatial_[0].axis.results);
    if (!is_last) part = take(parts);
    const std::ptrdiff_t first = part * static_cast<std::ptrdiff_t>(inner_);
    const std::ptrdiff_t to = spatial_[0].axis.to * z + spatial_[1].axis.to * y;
    return {z, y, rest * images_.from + first * channels_.from, rest * images_.to + first * channels_.to + to,
            std::min(inner_, static_cast<std::size_t>(channels_.size - first))};
}

// Calls `function` with the offset of each row of src that a row of dst depends on.
template <typename Function>
void MaxPool::for_each_line(const Row &row, const Function &function) const {
    const Spatial &depth = spatial_[0], &height = spatial_[1];
    for (std::ptrdiff_t k = 0; k < depth.kernel; k++)
        for (std::ptrdiff_t j = 0; j < height.kernel; j++) {
            const std::ptrdiff_t d = depth.at(row.depth, k), h = height.at(row.height, j);
            if (d >= 0 && d < depth.axis.size && h >= 0 && h < height.axis.size)
                function(row.from + d * depth.axis.from + h * height.axis.from);
        }
}

template <typename T, T EXPONENT>
void MaxPool::compute_by_taps(const T *source, T *target, std::size_t begin, std::size_t end) const {
    static const auto take = ForCpu<Rows<T, EXPONENT>::take>::of();
    const Spatial &width = spatial_[2];
    const T *lines[FEW_TAPS], *taps[FEW_TAPS];
    for (std::size_t index = begin; index < end; index++) {
        const Row at = row(index);
        std::size_t n_lines = 0;
        for_each_line(at, [&](std::ptrdiff_t offset) { lines[n_lines++] = source + offset; });
        T *to = target + at.to;
        for (std::ptrdiff_t x = 0; x < width.axis.results; x++, to += width.axis.to) {
            std::size_t n_taps = 0;
            for (std::ptrdiff_t i = 0; i < width.kernel; i++) {
                const std::ptrdiff_t w = width.at(x, i);
                for (std::size_t line = 0; line < n_lines && w >= 0 && w < width.axis.size; line++)
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
    const Spatial &width = spatial_[2];
    const auto columns = static_cast<std::size_t>(width.axis.size), places = static_cast<std::size_t>(width.axis.results);
    const auto step = static_cast<std::size_t>(width.stride);
    std::vector<T> column(columns * inner_), most(places * inner_);
    for (std::size_t index = begin; index < end; index++) {
        const Row at = row(index);
        const std::size_t inner = at.inner;
        std::fill_n(column.data(), columns * inner, T {0});
        for_each_line(at, [&](std::ptrdiff_t offset) {
            const T *line = source + offset;
            if (width.axis.from == static_cast<std::ptrdiff_t>(inner))
                raise(line, column.data(), columns * inner, 0);
            else
                for (std::size_t x = 0; x < columns; x++, line += width.axis.from)
                    raise(line, &column[x * inner], inner, 0);
        });
        std::fill_n(most.data(), places * inner, T {0});
        for (std::ptrdiff_t i = 0; i < width.kernel; i++) {
            std::ptrdiff_t left = 0, right = width.axis.results;
            while (left < right && width.at(left, i) < 0)
                left++;
            while (right > left && width.at(right - 1, i) >= width.axis.size)
                right--;
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
        const bool is_dense = inner == 1 || channels_.to == 1;
        if (is_dense && width.axis.to == static_cast<std::ptrdiff_t>(inner)) {
            write(most.data(), to, places * inner, 0);
            continue;
        }
        for (std::size_t x = 0; x < places; x++, to += width.axis.to)
            for (std::size_t i = 0; i < inner; i++)
                to[static_cast<std::ptrdiff_t>(i) * channels_.to] = Order<T, EXPONENT>::element(most[x * inner + i]);
    }
}

// For a window over a whole line of src, whose elements lie one behind another.
template <typename T, T EXPONENT>
void MaxPool::compute_by_lines(const T *source, T *target, std::size_t begin, std::size_t end) const {
    static const auto largest = ForCpu<Rows<T, EXPONENT>::largest>::of();
    const auto columns = static_cast<std::size_t>(spatial_[2].axis.size);
    for (std::size_t index = begin; index < end; index++) {
        const Row at = row(index);
        T most = 0;
        for_each_line(at, [&](std::ptrdiff_t offset) { largest(source + offset, &most, columns, 0); });
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
    const std::size_t work = static_cast<std::size_t>(spatial_[2].axis.size) * inner_;
    share(rows_ * work, threads, work, [&](std::size_t begin, std::size_t end) {
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
