// Interpolate of tensors of f32 with any strides, at the middles of elements: the nearest element, or a sum of the two
// nearest along each axis, times their shares.

#include <array>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "registry.h"
#include "shares.h"

#include "floats.h"

namespace onegraph {
namespace {

constexpr std::size_t AXES = 3, TAPS = 2, MOST_TAPS = 8;

// result[i] = the sum of the elements i of the taps, times their shares
ONEGRAPH_INLINE void add_taps(const float *const *taps, const float *shares, std::size_t n_taps, float *__restrict result,
        std::size_t count) {
    const float *const a = taps[0], first = shares[0];
    if (n_taps == 1 && first == 1) {
        std::memcpy(result, a, count * sizeof(float));
        return;
    }
    if (n_taps == 4) { // both axes of an image
        const float *const b = taps[1], *const c = taps[2], *const d = taps[3];
        const float second = shares[1], third = shares[2], fourth = shares[3];
        for (std::size_t i = 0; i < count; i++)
            result[i] = a[i] * first + b[i] * second + c[i] * third + d[i] * fourth;
        return;
    }
    for (std::size_t i = 0; i < count; i++)
        result[i] = a[i] * first;
    for (std::size_t tap = 1; tap < n_taps; tap++)
        for (std::size_t i = 0; i < count; i++)
            result[i] += taps[tap][i] * shares[tap];
}

// result[i] = the sum of two elements of a row, times their shares
ONEGRAPH_INLINE void add_pairs(const float *row, const std::int32_t *const *places, const float *const *shares,
        float *__restrict result, std::size_t count) {
    for (std::size_t i = 0; i < count; i++) {
        const float second = row[places[1][i]] * shares[1][i];
        result[i] = row[places[0][i]] * shares[0][i] + (shares[1][i] > 0 ? second : 0);
    }
}

// Interpolate: src; dst. Both have any strides of 0 and more. It is fast if the channels of both, or the last spatial axis
// of src, lie one behind another. An element whose share is 0 is not read, so that no NaN comes from it.
class Interpolate : public Runnable {
public:
    explicit Interpolate(const KernelArguments &arguments);
    void run(void *const *addresses, int threads) const override;

private:
    // An axis: the elements that each result is made of, and their shares. The second share is 0 if there is one element.
    struct Axis {
        std::ptrdiff_t size = 1, results = 1, from = 0, to = 0;
        std::vector<std::int32_t> places[TAPS];
        std::vector<float> shares[TAPS];

        void sample(bool is_linear);
    };

    // Elements of src, with their shares.
    struct Samples {
        std::ptrdiff_t offsets[MOST_TAPS] = {};
        float shares[MOST_TAPS] = {1};
        std::size_t count = 1;

        void along(const Axis &axis, std::size_t result);
    };

    void compute(const float *source, float *target, std::size_t begin, std::size_t end) const;

    Axis images_, channels_;
    std::array<Axis, AXES> spatial_; // the first ones of fewer axes have a single element
    std::size_t rows_;
    bool is_last_; // whether channels lie side by side
};

void Interpolate::Axis::sample(bool is_linear) {
    const auto ratio = static_cast<float>(size), count = static_cast<float>(results);
    for (std::ptrdiff_t i = 0; i < results; i++) {
        const float place = (static_cast<float>(i) + 0.5f) * ratio / count - 0.5f;
        const auto within = [&](float at) { return std::min(std::max(static_cast<std::ptrdiff_t>(at), std::ptrdiff_t {0}), size - 1); };
        const std::ptrdiff_t first = within(is_linear ? std::floor(place) : std::round(place)), second = within(std::ceil(place));
        const float share = is_linear && first != second ? place - static_cast<float>(first) : 0.0f;
        places[0].push_back(static_cast<std::int32_t>(first));
        places[1].push_back(static_cast<std::int32_t>(share > 0 ? second : first));
        shares[0].push_back(1.0f - share);
        shares[1].push_back(share);
    }
}

void Interpolate::Samples::along(const Axis &axis, std::size_t result) {
    const float first = axis.shares[0][result], second = axis.shares[1][result];
    for (std::size_t i = 0; i < count && second > 0; i++) {
        offsets[count + i] = offsets[i] + axis.places[1][result] * axis.from;
        shares[count + i] = shares[i] * second;
    }
    for (std::size_t i = 0; i < count; i++) {
        offsets[i] += axis.places[0][result] * axis.from;
        shares[i] *= first;
    }
    count *= second > 0 ? 2 : 1;
}

Interpolate::Interpolate(const KernelArguments &arguments) {
    const std::size_t channels = arguments.size("channels");
    const auto tensors = arguments.tensors;
    const dnnl_graph_logical_tensor_t &source = *tensors[0], &target = *tensors[arguments.count - 1];
    const auto rank = static_cast<std::size_t>(source.ndims);
    const bool is_known = arguments.count == 2 && rank >= 3 && rank <= AXES + 2 && target.ndims == source.ndims && channels < rank
            && source.data_type == dnnl_f32 && target.data_type == dnnl_f32 && elements_of(source) > 0 && elements_of(target) > 0 && channels > 0;
    if (!is_known) throw std::invalid_argument("other tensors than those of an Interpolate");
    const auto axis = [&](std::size_t at) {
        return Axis {source.dims[at], target.dims[at], source.layout.strides[at], target.layout.strides[at], {}, {}};
    };
    images_ = axis(0), channels_ = axis(channels);
    if (images_.size != images_.results || channels_.size != channels_.results) throw std::invalid_argument("a result of another size");
    for (std::size_t i = 0, at = 1; i < rank - 2; i++, at++) {
        at += at == channels;
        spatial_[AXES - (rank - 2) + i] = axis(at);
    }
    for (Axis &one : spatial_)
        one.sample(arguments.flag("linear"));
    is_last_ = channels_.from == 1 && channels_.to == 1;
    rows_ = static_cast<std::size_t>(images_.size * (is_last_ ? 1 : channels_.size) * spatial_[0].results * spatial_[1].results);
}

// Rows of dst along the last spatial axis.
void Interpolate::compute(const float *source, float *target, std::size_t begin, std::size_t end) const {
    static const auto add = ForCpu<add_taps>::of();
    static const auto pair = ForCpu<add_pairs>::of();
    const Axis &width = spatial_[2];
    const auto columns = static_cast<std::size_t>(width.size), places = static_cast<std::size_t>(width.results);
    std::vector<float> line(is_last_ ? 0 : columns), result(is_last_ ? 0 : places);
    const std::int32_t *const taken[] {width.places[0].data(), width.places[1].data()};
    const float *const shares[] {width.shares[0].data(), width.shares[1].data()};
    for (std::size_t index = begin; index < end; index++) {
        auto rest = static_cast<std::ptrdiff_t>(index);
        const auto take = [&](std::ptrdiff_t size) {
            const std::ptrdiff_t at = rest % size;
            rest /= size;
            return at;
        };
        const std::ptrdiff_t y = take(spatial_[1].results), z = take(spatial_[0].results);
        const std::ptrdiff_t channel = is_last_ ? 0 : take(channels_.size);
        Samples lines;
        lines.along(spatial_[0], static_cast<std::size_t>(z));
        lines.along(spatial_[1], static_cast<std::size_t>(y));
        const float *const image = source + rest * images_.from + channel * channels_.from;
        float *to = target + rest * images_.to + channel * channels_.to + z * spatial_[0].to + y * spatial_[1].to;
        const float *taps[MOST_TAPS];
        if (is_last_) {
            for (std::size_t x = 0; x < places; x++, to += width.to) {
                Samples samples = lines;
                samples.along(width, x);
                for (std::size_t tap = 0; tap < samples.count; tap++)
                    taps[tap] = image + samples.offsets[tap];
                add(taps, samples.shares, samples.count, to, static_cast<std::size_t>(channels_.size));
            }
            continue;
        }
        const float *row = line.data();
        if (width.from == 1 && lines.count == 1 && lines.shares[0] == 1) {
            row = image + lines.offsets[0];
        } else if (width.from == 1) {
            for (std::size_t tap = 0; tap < lines.count; tap++)
                taps[tap] = image + lines.offsets[tap];
            add(taps, lines.shares, lines.count, line.data(), columns);
        } else {
            for (std::size_t x = 0; x < columns; x++)
                for (std::size_t tap = 0; tap < lines.count; tap++) {
                    const float part = image[lines.offsets[tap] + static_cast<std::ptrdiff_t>(x) * width.from] * lines.shares[tap];
                    line[x] = tap ? line[x] + part : part;
                }
        }
        float *const results = width.to == 1 ? to : result.data();
        pair(row, taken, shares, results, places);
        for (std::size_t x = 0; width.to != 1 && x < places; x++)
            to[static_cast<std::ptrdiff_t>(x) * width.to] = results[x];
    }
}

void Interpolate::run(void *const *addresses, int threads) const {
    const std::size_t work = static_cast<std::size_t>(spatial_[2].results * (is_last_ ? channels_.size : 1));
    share(rows_ * work, threads, work, [&](std::size_t begin, std::size_t end) {
        compute(static_cast<const float *>(addresses[0]), static_cast<float *>(addresses[1]), begin / work, end / work);
    });
}

const Registered<Interpolate> INTERPOLATE {"interpolate", "channels, linear"};

} // namespace
} // namespace onegraph
