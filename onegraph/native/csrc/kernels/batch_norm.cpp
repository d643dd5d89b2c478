// A normalization by given statistics, and a ReLU behind it.

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "registry.h"
#include "shares.h"

#include "floats.h"

namespace onegraph {
namespace {

// What is the same for elements of a row, or differs for each of them.
struct Channels {
    const float *mean, *factor, *shift;
};

ONEGRAPH_INLINE float kept(float value, bool relu) {
    return relu && value <= 0 ? 0 : value;
}

// Elements that lie one behind another, each of a channel of its own.
template <bool relu>
ONEGRAPH_INLINE void normalize_each(const float *source, Channels channels, float *result, std::size_t count) {
    const float *const mean = channels.mean, *const factor = channels.factor, *const shift = channels.shift;
#pragma GCC ivdep
    for (std::size_t i = 0; i < count; i++)
        result[i] = kept((source[i] - mean[i]) * factor[i] + shift[i], relu);
}

// Elements of one channel.
template <bool relu>
ONEGRAPH_INLINE void normalize_row(const float *source, Channels channels, float *result, std::size_t count) {
    const float mean = *channels.mean, factor = *channels.factor, shift = *channels.shift;
#pragma GCC ivdep
    for (std::size_t i = 0; i < count; i++)
        result[i] = kept((source[i] - mean) * factor + shift, relu);
}

// (src - mean) * (gamma / sqrt(variance + epsilon)) + beta for each channel, of f32, f16 or bf16, computed in f32.
//
// src, gamma, beta, mean, variance; dst, which may lie over src. Along the axis of src that comes last in memory, the
// elements of src and those of dst lie one behind another.
class BatchNorm : public Runnable {
public:
    explicit BatchNorm(const KernelArguments &arguments);
    void run(void *const *addresses, int threads) const override;

private:
    struct Axis {
        std::size_t size;
        std::ptrdiff_t from, to; // strides in elements
        bool is_channels;
    };

    static constexpr std::size_t VECTORS = 4, LONG = 1024; // elements of a row that are worth a call

    bool relu_;
    float epsilon_;
    std::size_t n_channels_ = 1, total_, copies_ = 1; // how often the channels lie side by side in the vectors
    dnnl_data_type_t type_, types_[VECTORS];
    std::ptrdiff_t strides_[VECTORS];
    std::vector<Axis> axes_; // the outermost one first; at least one

    void merge_axes();
    Channels prepare(void *const *addresses, std::vector<float> &memory) const;
};

BatchNorm::BatchNorm(const KernelArguments &arguments)
    : relu_(arguments.flag("relu")), epsilon_(arguments.real("epsilon")) {
    const auto tensors = arguments.tensors;
    if (arguments.count != VECTORS + 2) throw std::invalid_argument("other tensors than those of a normalization");
    const dnnl_graph_logical_tensor_t &source = *tensors[0], &target = *tensors[VECTORS + 1];
    const std::size_t channels = arguments.size("channels");
    if (channels >= static_cast<std::size_t>(source.ndims) || target.ndims != source.ndims
            || !is_float(type_ = source.data_type) || target.data_type != type_)
        throw std::invalid_argument("no kernel for these data types or ranks");
    total_ = elements_of(source);
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(source.ndims); axis++) {
        const auto size = static_cast<std::size_t>(source.dims[axis]);
        if (target.dims[axis] != source.dims[axis]) throw std::invalid_argument("a result of another size");
        if (axis == channels) n_channels_ = size;
        if (size != 1)
            axes_.push_back({size, source.layout.strides[axis], target.layout.strides[axis], axis == channels});
    }
    for (std::size_t i = 0; i < VECTORS; i++) {
        const dnnl_graph_logical_tensor_t &vector = *tensors[i + 1];
        if (vector.ndims != 1 || !is_float(types_[i] = vector.data_type) || elements_of(vector) != n_channels_)
            throw std::invalid_argument("other statistics than those of a normalization");
        strides_[i] = n_channels_ == 1 ? 1 : vector.layout.strides[0];
    }
    merge_axes();
    if (axes_.back().from != 1 || axes_.back().to != 1) throw std::invalid_argument("the rows have gaps");
}

// Orders the axes as the result lies in memory, and merges neighbours. Channels that lie innermost are one axis with the
// places before them, along which the vectors repeat.
void BatchNorm::merge_axes() {
    const auto is_outside = [](const Axis &a, const Axis &b) { return a.to > b.to; };
    std::stable_sort(axes_.begin(), axes_.end(), is_outside);
    std::vector<Axis> merged;
    for (std::size_t i = 0; i < axes_.size(); i++) {
        const Axis &axis = axes_[i];
        const auto size = static_cast<std::ptrdiff_t>(axis.size);
        const bool is_last = i + 1 == axes_.size(), follows = !merged.empty() && !merged.back().is_channels
                && merged.back().from == axis.from * size && merged.back().to == axis.to * size;
        if (!follows || (axis.is_channels && !is_last)) {
            merged.push_back(axis);
            continue;
        }
        Axis &outer = merged.back();
        if (axis.is_channels) copies_ = std::min(outer.size, std::max<std::size_t>(1, LONG / axis.size));
        outer = {outer.size * axis.size, axis.from, axis.to, axis.is_channels};
    }
    if (merged.empty()) merged.push_back({1, 1, 1, true});
    axes_ = std::move(merged);
}

// The vectors in f32, `copies_` times side by side.
Channels BatchNorm::prepare(void *const *addresses, std::vector<float> &memory) const {
    const std::size_t count = n_channels_ * copies_;
    memory.resize(VECTORS * count);
    float *const gamma = memory.data(), *const beta = gamma + count, *const mean = beta + count;
    const float *const variance = mean + count;
    for (std::size_t i = 0; i < VECTORS; i++) {
        const std::size_t some = strides_[i] == 1 ? n_channels_ : 1; // elements that lie side by side
        const auto step = strides_[i] * static_cast<std::ptrdiff_t>(size_of(types_[i]));
        const auto *read = static_cast<const char *>(addresses[i + 1]);
        for (std::size_t c = 0; c < n_channels_; c += some, read += step)
            cast(types_[i], read, dnnl_f32, reinterpret_cast<char *>(gamma + i * count + c), some, has_avx2());
    }
    for (std::size_t c = 0; c < n_channels_; c++)
        gamma[c] /= std::sqrt(variance[c] + epsilon_);
    for (float *vector : {gamma, beta, mean})
        for (std::size_t i = n_channels_; i < count; i++)
            vector[i] = vector[i - n_channels_];
    return {mean, gamma, beta};
}

void BatchNorm::run(void *const *addresses, int threads) const {
    std::vector<float> memory;
    const Channels channels = prepare(addresses, memory);
    const Axis &inner = axes_.back();
    const bool is_each = inner.is_channels, is_wide = type_ == dnnl_f32;
    const auto function = is_each ? (relu_ ? ForCpu<normalize_each<true>>::of() : ForCpu<normalize_each<false>>::of())
                                  : (relu_ ? ForCpu<normalize_row<true>>::of() : ForCpu<normalize_row<false>>::of());
    const std::size_t period = n_channels_ * copies_, size = size_of(type_), unit = is_each ? period : BLOCK;
    const auto *source = static_cast<const char *>(addresses[0]);
    auto *target = static_cast<char *>(addresses[VECTORS + 1]);
    share(total_, threads, unit, [&](std::size_t begin, std::size_t end) {
        float block[BLOCK];
        while (begin < end) {
            std::size_t place = begin % inner.size, first = 0;
            const std::size_t row_end = std::min(end, begin - place + inner.size);
            std::ptrdiff_t from = 0, to = 0;
            for (std::size_t axis = axes_.size() - 1, rest = begin / inner.size; axis-- > 0; rest /= axes_[axis].size) {
                const std::size_t at = rest % axes_[axis].size;
                from += static_cast<std::ptrdiff_t>(at) * axes_[axis].from;
                to += static_cast<std::ptrdiff_t>(at) * axes_[axis].to;
                if (axes_[axis].is_channels) first = at;
            }
            const char *read = source + (from + static_cast<std::ptrdiff_t>(place)) * static_cast<std::ptrdiff_t>(size);
            char *written = target + (to + static_cast<std::ptrdiff_t>(place)) * static_cast<std::ptrdiff_t>(size);
            while (begin < row_end) {
                const std::size_t at = is_each ? place % period : first;
                std::size_t some = row_end - begin;
                if (is_each) some = std::min(some, period - at);
                if (!is_wide) some = std::min(some, BLOCK);
                const Channels these {channels.mean + at, channels.factor + at, channels.shift + at};
                if (is_wide) {
                    function(reinterpret_cast<const float *>(read), these, reinterpret_cast<float *>(written), some);
                } else {
                    cast(type_, read, dnnl_f32, reinterpret_cast<char *>(block), some, has_avx2());
                    function(block, these, block, some);
                    cast(dnnl_f32, reinterpret_cast<const char *>(block), type_, written, some, has_avx2());
                }
                read += some * size, written += some * size, begin += some, place += some;
            }
        }
    });
}

const Registered<BatchNorm> BATCH_NORM {"batch_norm", "channels, relu, epsilon: f32"};

} // namespace
} // namespace onegraph
