// AvgPool of tensors of f32 with any strides. Channels that lie side by side are added in registers, tap by tap. Otherwise
// the rows under a row of windows are added first, and then the columns of the sums.

#include <stdexcept>
#include <vector>

#include "pool_windows.h"
#include "shares.h"

#include "floats.h"

namespace onegraph {
namespace {

typedef float Vector __attribute__((vector_size(64)));
constexpr std::size_t LANES = 16;

// result[i] = the sum of the elements i of the taps, divided
template <std::size_t VECTORS>
ONEGRAPH_INLINE void divide_vectors(const float *const *taps, std::size_t n_taps, std::size_t at, float *result, float divisor) {
    Vector sums[VECTORS] = {}, x;
    for (std::size_t tap = 0; tap < n_taps; tap++)
#pragma GCC unroll 4
        for (std::size_t j = 0; j < VECTORS; j++) {
            std::memcpy(&x, taps[tap] + at + j * LANES, sizeof x);
            sums[j] += x;
        }
#pragma GCC unroll 4
    for (std::size_t j = 0; j < VECTORS; j++) {
        sums[j] /= divisor;
        std::memcpy(result + at + j * LANES, &sums[j], sizeof sums[j]);
    }
}

ONEGRAPH_INLINE void divide_taps(const float *const *taps, std::size_t n_taps, float *result, std::size_t count, float divisor) {
    std::size_t i = 0;
    for (; i + 4 * LANES <= count; i += 4 * LANES)
        divide_vectors<4>(taps, n_taps, i, result, divisor);
    for (; i + LANES <= count; i += LANES)
        divide_vectors<1>(taps, n_taps, i, result, divisor);
    for (; i < count; i++) {
        float sum = 0;
        for (std::size_t tap = 0; tap < n_taps; tap++)
            sum += taps[tap][i];
        result[i] = sum / divisor;
    }
}

// sums[i] += source[i * step]
ONEGRAPH_INLINE void add(const float *__restrict source, std::size_t step, float *__restrict sums, std::size_t count) {
    if (step == 1)
        for (std::size_t i = 0; i < count; i++)
            sums[i] += source[i];
    else if (step == 2)
        for (std::size_t i = 0; i < count; i++)
            sums[i] += source[2 * i];
    else
        for (std::size_t i = 0; i < count; i++)
            sums[i] += source[step * i];
}

// AvgPool: windows of padding alone are 0, and padding is part of a window unless it is excluded.
//
// src; dst. Both have any strides of 0 and more. It is fast if the channels of both or the last spatial axis of src lie one
// behind another. The list of numbers has four for each spatial axis: kernel, stride, dilation and padding before.
class AvgPool : public Runnable {
public:
    explicit AvgPool(const KernelArguments &arguments);
    void run(void *const *addresses, int threads) const override;

private:
    void compute_by_taps(const float *source, float *target, std::size_t begin, std::size_t end) const;
    void compute_by_columns(const float *source, float *target, std::size_t begin, std::size_t end) const;

    float divisor(std::size_t taps) const { return static_cast<float>(excludes_padding_ ? std::max(taps, std::size_t {1}) : taps_); }

    bool excludes_padding_;
    PoolWindows windows_;
    std::size_t taps_;
};

AvgPool::AvgPool(const KernelArguments &arguments)
    : excludes_padding_(arguments.flag("exclude_pad")),
      windows_(*arguments.tensors[0], *arguments.tensors[arguments.count - 1], arguments.size("channels"), arguments.list(),
              arguments.n_list()),
      taps_(windows_.taps()) {
    const bool is_known = arguments.count == 2 && arguments.tensors[0]->data_type == dnnl_f32
            && arguments.tensors[1]->data_type == dnnl_f32;
    if (!is_known) throw std::invalid_argument("other tensors than those of an AvgPool");
}

void AvgPool::compute_by_taps(const float *source, float *target, std::size_t begin, std::size_t end) const {
    static const auto divide = ForCpu<divide_taps>::of();
    const PoolWindows::Spatial &width = windows_.spatial[2];
    std::vector<const float *> lines, taps;
    for (std::size_t index = begin; index < end; index++) {
        const PoolWindows::Row row = windows_.row(index);
        lines.clear();
        windows_.for_each_line(row, [&](std::ptrdiff_t offset) { lines.push_back(source + offset); });
        float *to = target + row.to;
        for (std::ptrdiff_t x = 0; x < width.axis.results; x++, to += width.axis.to) {
            taps.clear();
            for (const float *line : lines)
                for (std::ptrdiff_t i = 0; i < width.kernel; i++)
                    if (const std::ptrdiff_t w = width.at(x, i); width.has(w)) taps.push_back(line + w * width.axis.from);
            divide(taps.data(), taps.size(), to, row.inner, divisor(taps.size()));
        }
    }
}

void AvgPool::compute_by_columns(const float *source, float *target, std::size_t begin, std::size_t end) const {
    static const auto sum = ForCpu<add>::of();
    const PoolWindows::Spatial &width = windows_.spatial[2];
    const auto columns = static_cast<std::size_t>(width.axis.size), places = static_cast<std::size_t>(width.axis.results);
    const auto step = static_cast<std::size_t>(width.stride);
    const std::size_t widest = windows_.inner;
    std::vector<float> column(columns * widest), sums(places * widest);
    std::vector<std::size_t> taps(places);
    for (std::size_t index = begin; index < end; index++) {
        const PoolWindows::Row row = windows_.row(index);
        const std::size_t inner = row.inner;
        std::size_t n_lines = 0;
        std::fill_n(column.data(), columns * inner, 0.0f);
        windows_.for_each_line(row, [&](std::ptrdiff_t offset) {
            const float *line = source + offset;
            n_lines++;
            if (width.axis.from == static_cast<std::ptrdiff_t>(inner)) return sum(line, 1, column.data(), columns * inner);
            for (std::size_t x = 0; x < columns; x++, line += width.axis.from)
                sum(line, 1, &column[x * inner], inner);
        });
        std::fill_n(sums.data(), places * inner, 0.0f);
        std::fill_n(taps.data(), places, 0);
        for (std::ptrdiff_t i = 0; i < width.kernel; i++) {
            const auto [left, right] = width.inside(i);
            if (left == right) continue;
            const float *read = &column[static_cast<std::size_t>(width.at(left, i)) * inner];
            const auto first = static_cast<std::size_t>(left), last = static_cast<std::size_t>(right);
            for (std::size_t x = first; x < last; x++)
                taps[x] += n_lines;
            if (step == 1 || inner == 1)
                sum(read, step, &sums[first * inner], (last - first) * inner);
            else
                for (std::size_t x = first; x < last; x++, read += step * inner)
                    sum(read, 1, &sums[x * inner], inner);
        }
        float *to = target + row.to;
        for (std::size_t x = 0; x < places; x++, to += width.axis.to)
            for (std::size_t i = 0; i < inner; i++)
                to[static_cast<std::ptrdiff_t>(i) * windows_.channels.to] = sums[x * inner + i] / divisor(taps[x]);
    }
}

void AvgPool::run(void *const *addresses, int threads) const {
    const std::size_t work = static_cast<std::size_t>(windows_.spatial[2].axis.size) * windows_.inner;
    const bool is_by_taps = windows_.channels.from == 1 && windows_.channels.to == 1;
    share(windows_.rows * work, threads, work, [&](std::size_t begin, std::size_t end) {
        const auto source = static_cast<const float *>(addresses[0]);
        const auto target = static_cast<float *>(addresses[1]);
        (this->*(is_by_taps ? &AvgPool::compute_by_taps : &AvgPool::compute_by_columns))(source, target, begin / work, end / work);
    });
}

const Registered<AvgPool> AVG_POOL {"avg_pool", "exclude_pad, channels, windows..."};

} // namespace
} // namespace onegraph
