// Convolutions and their gradients, by their definition: no element meets padding, another group or a place between strides.

#include <array>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "registry.h"
#include "shares.h"

#include "sizes.h"
#pragma GCC optimize("fp-contract=fast")

namespace onegraph {
namespace {

enum { NARROW, WIDE, WEIGHTS };

constexpr std::size_t PIXELS = 6, LANES = 16; // of a block of the result

// Adds products of `n` elements behind each of `P` pointers with rows of LANES weights to the sums.
template <std::size_t BYTES, std::size_t P>
ONEGRAPH_INLINE void add_products(const double *const *x, std::ptrdiff_t x_step, const double *w, std::ptrdiff_t w_step,
        std::size_t n, double *sums) {
    typedef double Vector __attribute__((vector_size(BYTES), aligned(8), may_alias));
    constexpr std::size_t WIDTH = BYTES / sizeof(double), COUNT = LANES / WIDTH;
    Vector kept[P][COUNT];
    for (std::size_t at = 0; at < P * COUNT; at++)
        kept[at / COUNT][at % COUNT] = *reinterpret_cast<const Vector *>(sums + at * WIDTH);
    for (std::size_t i = 0; i < n; i++, w += w_step)
        for (std::size_t p = 0; p < P; p++) {
            const double factor = x[p][static_cast<std::ptrdiff_t>(i) * x_step];
            for (std::size_t part = 0; part < COUNT; part++)
                kept[p][part] += factor * *reinterpret_cast<const Vector *>(w + part * WIDTH);
        }
    for (std::size_t at = 0; at < P * COUNT; at++)
        *reinterpret_cast<Vector *>(sums + at * WIDTH) = kept[at / COUNT][at % COUNT];
}

// The same for `count` pointers, of which some may be null: those take no part.
template <std::size_t BYTES>
ONEGRAPH_INLINE void add_block(const double *const *x, std::size_t count, std::ptrdiff_t x_step, const double *w,
        std::ptrdiff_t w_step, std::size_t n, double *sums) {
    constexpr std::size_t AT_ONCE = BYTES == 64 ? PIXELS : 3;
    for (std::size_t p = 0; p < count;) {
        std::size_t whole = 0;
        while (whole < AT_ONCE && p + whole < count && x[p + whole])
            whole++;
        if (whole == AT_ONCE)
            add_products<BYTES, AT_ONCE>(x + p, x_step, w, w_step, n, sums + p * LANES);
        else if (x[p])
            add_products<BYTES, 1>(x + p, x_step, w, w_step, n, sums + p * LANES);
        p += whole == AT_ONCE ? AT_ONCE : 1;
    }
}

// As of ForCpu, whose functions round a product before the sum.
using Add = void (*)(const double *const *, std::size_t, std::ptrdiff_t, const double *, std::ptrdiff_t, std::size_t, double *);

void add_on_any(const double *const *x, std::size_t count, std::ptrdiff_t x_step, const double *w, std::ptrdiff_t w_step,
        std::size_t n, double *sums) {
    add_block<16>(x, count, x_step, w, w_step, n, sums);
}

ONEGRAPH_AVX2 void add_with_avx2(const double *const *x, std::size_t count, std::ptrdiff_t x_step, const double *w,
        std::ptrdiff_t w_step, std::size_t n, double *sums) {
    add_block<32>(x, count, x_step, w, w_step, n, sums);
}

ONEGRAPH_AVX512 void add_with_avx512(const double *const *x, std::size_t count, std::ptrdiff_t x_step, const double *w,
        std::ptrdiff_t w_step, std::size_t n, double *sums) {
    add_block<64>(x, count, x_step, w, w_step, n, sums);
}

Add add_for(int level) {
    if (level > 1 && has_avx512()) return add_with_avx512;
    return level > 0 && has_avx2() ? add_with_avx2 : add_on_any;
}

// A convolution takes the tensor `wide` to `narrow`, with weights; this is the one of the three that is computed from the
// others, and the sums are in float64. If `wide`, so are the tensors.
//
// wide or narrow, the weights or narrow, which is first if `swapped`, and a bias of narrow if there is one; the result. `channels`: the axis of the
// channels of images. `outer` and `inner`: the axes of the weights that count the channels of narrow, and of wide in a
// group. Of each spatial axis: its place in the weights, its stride, dilation and padding before.
class ExactConvolution : public Runnable {
public:
    explicit ExactConvolution(const KernelArguments &arguments);
    void run(void *const *addresses, int threads) const override;

private:
    using Step = std::ptrdiff_t;

    struct Axis {
        std::size_t size;
        Step stride; // in elements
    };

    struct Tensor {
        dnnl_data_type_t type;
        std::vector<Axis> axes; // images: batch, spatial axes, channels; weights: narrow, wide, spatial axes
    };

    struct Spatial {
        Step stride, dilation, padding;
    };

    // The elements in the order of the axes, in float64; the last axis has `groups` parts, each with room for `room`.
    std::vector<double> widened(const Tensor &tensor, const void *elements, std::size_t groups, std::size_t room,
            int threads) const;
    std::vector<double> rows_of_weights(const void *elements) const;
    void images(void *const *addresses, int threads) const;
    void weights(void *const *addresses, int threads) const;
    // The place in the image that the sums read, at a place of the result and of the window; -1 for none.
    Step read(std::size_t axis, Step at, Step tap) const;
    // Writes the sums of `n` pixels or channels of wide, `across` apart, and of `count` channels, `step` apart.
    void save(const Tensor &tensor, void *elements, Step at, Step across, std::size_t n, Step step, const double *sums,
            std::size_t count) const;

    int of_;
    std::size_t groups_, n_inputs_, first_, outer_ = 0, inner_ = 0, taps_ = 1; // channels of narrow and of wide in a group
    std::vector<Spatial> window_;
    std::vector<std::size_t> kernel_;
    Tensor wide_ {}, narrow_ {}, weights_ {}, bias_ {};
    Add add_;
};

// Calls `body` with a function that reads an element of a tensor of this type.
template <typename Body>
void with_reader(dnnl_data_type_t type, const void *elements, const Body &body) {
    if (!is_float(type)) return body([=](std::ptrdiff_t at) { return static_cast<const double *>(elements)[at]; });
    if (type == dnnl_f32)
        return body([=](std::ptrdiff_t at) -> double { return static_cast<const float *>(elements)[at]; });
    body([=](std::ptrdiff_t at) -> double {
        float found;
        cast(type, static_cast<const char *>(elements) + 2 * at, dnnl_f32, reinterpret_cast<char *>(&found), 1, has_avx2());
        return found;
    });
}

std::size_t rounded(std::size_t count) {
    return (count + LANES - 1) / LANES * LANES;
}

ExactConvolution::ExactConvolution(const KernelArguments &arguments)
    : of_(arguments.number("of")), groups_(arguments.size("groups")), n_inputs_(arguments.n_inputs),
      first_(arguments.size("swapped")), add_(add_for(arguments.number("level"))) {
    const std::size_t rank = static_cast<std::size_t>(arguments.tensors[0]->ndims), spatial = rank - 2;
    if (arguments.n_list() != 4 * spatial || rank < 3 || groups_ == 0 || arguments.count != arguments.n_inputs + 1)
        throw std::invalid_argument("no such convolution");
    std::size_t axes = std::size_t {1} << arguments.size("outer") | std::size_t {1} << arguments.size("inner"); // of weights
    for (std::size_t i = 0; i < spatial; i++)
        axes |= std::size_t {1} << arguments.list()[4 * i];
    if (axes + 1 != std::size_t {1} << rank || (arguments.size("channels") != 1 && arguments.size("channels") != rank - 1))
        throw std::invalid_argument("no such axes of a convolution");
    const auto tensor = [&](std::size_t port, std::size_t first, std::size_t last, bool is_weights) {
        const dnnl_graph_logical_tensor_t &given = *arguments.tensors[port];
        if (static_cast<std::size_t>(given.ndims) != rank || !(arguments.flag("wide") ? is_long : is_float)(given.data_type))
            throw std::invalid_argument("no kernel for this data type or rank");
        const auto axis = [&](std::size_t at) {
            return Axis {static_cast<std::size_t>(given.dims[at]), given.layout.strides[at]};
        };
        Tensor made {given.data_type, {axis(first)}};
        if (is_weights) made.axes.push_back(axis(last));
        for (std::size_t i = 0; i < spatial; i++)
            made.axes.push_back(axis(is_weights ? static_cast<std::size_t>(arguments.list()[4 * i])
                                                : i + 1 + (arguments.size("channels") == 1)));
        if (!is_weights) made.axes.push_back(axis(last));
        return made;
    };
    const std::size_t channels = arguments.size("channels");
    const std::size_t ports[3][3] = {{0, arguments.n_inputs, 1}, {arguments.n_inputs, 0, 1}, {first_, 1 - first_, arguments.n_inputs}};
    wide_ = tensor(ports[of_][0], 0, channels, false);
    narrow_ = tensor(ports[of_][1], 0, channels, false);
    weights_ = tensor(ports[of_][2], arguments.size("outer"), arguments.size("inner"), true);
    outer_ = narrow_.axes.back().size / groups_, inner_ = weights_.axes[1].size;
    if (n_inputs_ == 3) {
        const dnnl_graph_logical_tensor_t &bias = *arguments.tensors[2];
        const Tensor &result = of_ == NARROW ? narrow_ : wide_;
        if (bias.ndims != 1 || elements_of(bias) != result.axes.back().size
                || (bias.data_type != result.type && bias.data_type != weights_.type))
            throw std::invalid_argument("another bias than that of a convolution");
        bias_ = {bias.data_type, {{elements_of(bias), bias.layout.strides[0]}}};
    }
    for (std::size_t i = 0; i < spatial; i++) {
        const int *at = arguments.list() + 4 * i;
        window_.push_back({at[1], at[2], at[3]});
        kernel_.push_back(weights_.axes[2 + i].size);
        taps_ *= kernel_.back();
    }
    if (inner_ * groups_ != wide_.axes.back().size || outer_ * groups_ != weights_.axes[0].size
            || wide_.axes[0].size != narrow_.axes[0].size)
        throw std::invalid_argument("other channels than those of a convolution");
}

void ExactConvolution::run(void *const *addresses, int threads) const {
    of_ == WEIGHTS ? weights(addresses, threads) : images(addresses, threads);
}

std::vector<double> ExactConvolution::widened(const Tensor &tensor, const void *elements, std::size_t groups,
        std::size_t room, int threads) const {
    const Axis last = tensor.axes.back();
    std::size_t places = 1;
    for (std::size_t axis = 0; axis + 1 < tensor.axes.size(); axis++)
        places *= tensor.axes[axis].size;
    std::vector<double> found(places * groups * room);
    const std::size_t part = last.size / groups, rank = tensor.axes.size();
    const Axis line = tensor.axes[rank - 2]; // whose elements are read one after another, for one channel after another
    const std::size_t lines = line.size ? places / line.size : 0, worth = line.size * last.size;
    share(lines * worth, threads, worth, [&](std::size_t begin, std::size_t end) {
        for (std::size_t place = worth ? begin / worth : 0; worth && place < end / worth; place++) {
            Step from = 0;
            for (std::size_t axis = rank - 2, rest = place; axis-- > 0; rest /= tensor.axes[axis].size)
                from += static_cast<Step>(rest % tensor.axes[axis].size) * tensor.axes[axis].stride;
            double *const to = found.data() + place * line.size * groups * room;
            with_reader(tensor.type, elements, [&](const auto &reader) {
                for (std::size_t first = 0; first < last.size; first += 8) // channels, which fill a line of the cache
                    for (std::size_t p = 0; p < line.size; p++)
                        for (std::size_t i = first; i < std::min(first + 8, last.size); i++)
                            to[p * groups * room + (room == part ? i : i / part * room + i % part)]
                                    = reader(from + static_cast<Step>(p) * line.stride + static_cast<Step>(i) * last.stride);
            });
        }
    });
    return found;
}

ExactConvolution::Step ExactConvolution::read(std::size_t axis, Step at, Step tap) const {
    const Spatial &of = window_[axis];
    if (of_ == NARROW) {
        const Step found = at * of.stride - of.padding + tap * of.dilation;
        return found < static_cast<Step>(wide_.axes[axis + 1].size) && found >= 0 ? found : -1;
    }
    const Step scaled = at + of.padding - tap * of.dilation, found = scaled / of.stride;
    return scaled >= 0 && scaled % of.stride == 0 && found < static_cast<Step>(narrow_.axes[axis + 1].size) ? found : -1;
}

// By group, block of channels of the result, place of the window, channel of the image that is read: LANES weights.
std::vector<double> ExactConvolution::rows_of_weights(const void *elements) const {
    const std::size_t results = of_ == NARROW ? outer_ : inner_, sums = of_ == NARROW ? inner_ : outer_;
    const std::size_t blocks = rounded(results) / LANES;
    std::vector<double> found(groups_ * blocks * taps_ * sums * LANES);
    std::vector<Step> offsets(taps_);
    for (std::size_t tap = 0; tap < taps_; tap++)
        for (std::size_t axis = kernel_.size(), rest = tap; axis-- > 0; rest /= kernel_[axis])
            offsets[tap] += static_cast<Step>(rest % kernel_[axis]) * weights_.axes[2 + axis].stride;
    with_reader(weights_.type, elements, [&](const auto &reader) {
        for (std::size_t o = 0; o < outer_ * groups_; o++)
            for (std::size_t i = 0; i < inner_; i++) {
                const Step from = static_cast<Step>(o) * weights_.axes[0].stride + static_cast<Step>(i) * weights_.axes[1].stride;
                const std::size_t result = of_ == NARROW ? o % outer_ : i, sum = of_ == NARROW ? i : o % outer_;
                const std::size_t block = o / outer_ * blocks + result / LANES;
                double *to = found.data() + (block * taps_ * sums + sum) * LANES + result % LANES;
                for (std::size_t tap = 0; tap < taps_; tap++, to += sums * LANES)
                    *to = reader(from + offsets[tap]);
            }
    });
    return found;
}

void ExactConvolution::save(const Tensor &tensor, void *elements, Step at, Step across, std::size_t n, Step step,
        const double *sums, std::size_t count) const {
    const auto each = [&](const auto &write) {
        for (std::size_t i = 0; i < count; i++)
            for (std::size_t p = 0; p < n; p++)
                write(at + static_cast<Step>(p) * across + static_cast<Step>(i) * step, sums[p * LANES + i]);
    };
    if (!is_float(tensor.type)) return each([&](Step to, double sum) { static_cast<double *>(elements)[to] = sum; });
    if (tensor.type == dnnl_f32)
        return each([&](Step to, double sum) { static_cast<float *>(elements)[to] = static_cast<float>(sum); });
    each([&](Step to, double sum) {
        const auto single = static_cast<float>(sum);
        char *const target = static_cast<char *>(elements) + 2 * to;
        cast(dnnl_f32, reinterpret_cast<const char *>(&single), tensor.type, target, 1, has_avx2());
    });
}

// Each row of the result along its last spatial axis, in blocks of pixels and of channels.
void ExactConvolution::images(void *const *addresses, int threads) const {
    const Tensor &result = of_ == NARROW ? narrow_ : wide_, &source = of_ == NARROW ? wide_ : narrow_;
    const std::size_t results = of_ == NARROW ? outer_ : inner_, sums = of_ == NARROW ? inner_ : outer_;
    const std::size_t spatial = window_.size(), blocks = rounded(results) / LANES, channels = sums * groups_;
    const std::vector<double> x = widened(source, addresses[0], 1, channels, threads), w = rows_of_weights(addresses[1]);
    const std::size_t across = result.axes[spatial].size, pieces = (across + PIXELS - 1) / PIXELS;
    std::size_t rows = result.axes[0].size;
    for (std::size_t axis = 1; axis < spatial; axis++)
        rows *= result.axes[axis].size;
    const std::size_t worth = PIXELS * results * groups_ * (1 + taps_ * sums / 16);
    share(rows * pieces * worth, threads, worth, [&](std::size_t begin, std::size_t end) {
        for (std::size_t block = 0; block < blocks * groups_; block++) {
            const std::size_t group = block / blocks, first = block % blocks * LANES, count = std::min(LANES, results - first);
            for (std::size_t piece = begin / worth; piece < end / worth; piece++) {
                std::array<Step, 12> places {};
                std::size_t rest = piece / pieces;
                for (std::size_t axis = spatial - 1; axis-- > 0; rest /= result.axes[axis + 1].size)
                    places[axis] = static_cast<Step>(rest % result.axes[axis + 1].size);
                const std::size_t from = piece % pieces * PIXELS, n = std::min(PIXELS, across - from);
                double kept[PIXELS * LANES] = {};
                if (n_inputs_ == 3)
                    with_reader(bias_.type, addresses[2], [&](const auto &reader) {
                        for (std::size_t i = 0; i < n * count; i++)
                            kept[i / count * LANES + i % count]
                                    = reader(static_cast<Step>(group * results + first + i % count) * bias_.axes[0].stride);
                    });
                for (std::size_t tap = 0; tap < taps_; tap++) {
                    Step line = static_cast<Step>(rest), unit = 1;
                    std::array<Step, 12> taps {};
                    for (std::size_t axis = spatial, left = tap; axis-- > 0; left /= kernel_[axis])
                        taps[axis] = static_cast<Step>(left % kernel_[axis]);
                    for (std::size_t axis = 0; axis + 1 < spatial && line >= 0; axis++) {
                        unit = read(axis, places[axis], taps[axis]);
                        line = unit < 0 ? -1 : line * static_cast<Step>(source.axes[axis + 1].size) + unit;
                    }
                    if (line < 0) continue;
                    const double *pixels[PIXELS];
                    for (std::size_t p = 0; p < n; p++) {
                        const Step at = read(spatial - 1, static_cast<Step>(from + p), taps[spatial - 1]);
                        const Step place = line * static_cast<Step>(source.axes[spatial].size) + at;
                        pixels[p] = at < 0 ? nullptr : x.data() + place * static_cast<Step>(channels) + group * sums;
                    }
                    add_(pixels, n, 1, w.data() + (block * taps_ + tap) * sums * LANES, LANES, sums, kept);
                }
                Step at = static_cast<Step>(rest) * result.axes[0].stride;
                for (std::size_t axis = 0; axis + 1 < spatial; axis++)
                    at += places[axis] * result.axes[axis + 1].stride;
                const Axis last = result.axes.back();
                at += static_cast<Step>(group * results + first) * last.stride;
                const Step pixel = result.axes[spatial].stride;
                save(result, addresses[n_inputs_], at + static_cast<Step>(from) * pixel, pixel, n, last.stride, kept, count);
            }
        }
    });
}

// Each place of the window by itself, in blocks of channels.
void ExactConvolution::weights(void *const *addresses, int threads) const {
    const std::size_t spatial = window_.size(), room = rounded(outer_), blocks = room / LANES;
    const std::size_t wide = inner_ * groups_, narrow = room * groups_, pieces = (inner_ + PIXELS - 1) / PIXELS;
    const std::vector<double> x = widened(wide_, addresses[first_], 1, wide, threads);
    const std::vector<double> w = widened(narrow_, addresses[1 - first_], groups_, room, threads);
    std::size_t rows = narrow_.axes[0].size;
    for (std::size_t axis = 1; axis < spatial; axis++)
        rows *= narrow_.axes[axis].size;
    const auto across = static_cast<Step>(narrow_.axes[spatial].size);
    const std::size_t worth = PIXELS * LANES * (1 + rows);
    share(groups_ * taps_ * pieces * blocks * worth, threads, worth, [&](std::size_t begin, std::size_t end) {
        for (std::size_t unit = begin / worth; unit < end / worth; unit++) {
            const std::size_t block = unit % blocks, piece = unit / blocks % pieces, group = unit / blocks / pieces / taps_;
            const std::size_t first = piece * PIXELS, n = std::min(PIXELS, inner_ - first);
            std::array<Step, 12> taps {};
            for (std::size_t axis = spatial, left = unit / blocks / pieces % taps_; axis-- > 0; left /= kernel_[axis])
                taps[axis] = static_cast<Step>(left % kernel_[axis]);
            const Spatial &last = window_[spatial - 1];
            const auto at = [&](std::size_t axis, Step y) {
                return y * window_[axis].stride - window_[axis].padding + taps[axis] * window_[axis].dilation;
            };
            Step y0 = 0, y1 = across;
            while (y0 < y1 && at(spatial - 1, y0) < 0)
                y0++;
            while (y0 < y1 && at(spatial - 1, y1 - 1) >= static_cast<Step>(wide_.axes[spatial].size))
                y1--;
            double kept[PIXELS * LANES] = {};
            for (std::size_t row = 0; row < rows && y0 < y1; row++) {
                std::array<Step, 12> places {};
                std::size_t rest = row;
                for (std::size_t axis = spatial - 1; axis-- > 0; rest /= narrow_.axes[axis + 1].size)
                    places[axis] = at(axis, static_cast<Step>(rest % narrow_.axes[axis + 1].size));
                Step line = static_cast<Step>(rest);
                for (std::size_t axis = 0; axis + 1 < spatial && line >= 0; axis++) {
                    const auto size = static_cast<Step>(wide_.axes[axis + 1].size);
                    line = places[axis] < 0 || places[axis] >= size ? -1 : line * size + places[axis];
                }
                if (line < 0) continue;
                const double *channels[PIXELS];
                const Step place = line * static_cast<Step>(wide_.axes[spatial].size) + at(spatial - 1, y0);
                for (std::size_t p = 0; p < n; p++)
                    channels[p] = x.data() + place * static_cast<Step>(wide) + group * inner_ + first + p;
                const double *others = w.data() + (static_cast<Step>(row) * across + y0) * static_cast<Step>(narrow)
                        + group * room + block * LANES;
                add_(channels, n, last.stride * static_cast<Step>(wide), others, static_cast<Step>(narrow),
                        static_cast<std::size_t>(y1 - y0), kept);
            }
            Step to = static_cast<Step>(group * outer_ + block * LANES) * weights_.axes[0].stride;
            for (std::size_t axis = 0; axis < spatial; axis++)
                to += taps[axis] * weights_.axes[2 + axis].stride;
            const Axis &inner = weights_.axes[1];
            save(weights_, addresses[n_inputs_], to + static_cast<Step>(first) * inner.stride, inner.stride, n,
                    weights_.axes[0].stride, kept, std::min(LANES, outer_ - block * LANES));
        }
    });
}

const Registered<ExactConvolution> EXACT_CONVOLUTION {
        "exact_convolution", "of: narrow|wide|weights, groups, wide, swapped, channels, outer, inner, level, windows..."};

} // namespace
} // namespace onegraph
