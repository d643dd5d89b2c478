// The transforms of Winograd's convolution F(2x2, 3x3): between them are 16 products of matrices.

#include <array>
#include <stdexcept>

#include "registry.h"
#include "shares.h"

#include "floats.h"

namespace onegraph {
namespace {

// The number of channels is a multiple of GROUP, and of the lanes of a vector.
constexpr std::size_t GROUP = 16, WINDOW = 3, TILE = 4, PLANES = TILE * TILE;

enum { SRC, DST, OIX, XIO }; // what is transformed, of which the last two are layouts of weights

// As many channels as a register has lanes: of larger vectors, gcc keeps the parts in memory.
template <std::size_t LANES>
struct Lanes {
    typedef float Vector __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));
};
template <std::size_t LANES>
using VectorOf = typename Lanes<LANES>::Vector;

template <std::size_t LANES>
ONEGRAPH_INLINE const VectorOf<LANES> &load(const float *source) {
    return *reinterpret_cast<const VectorOf<LANES> *>(source);
}

template <std::size_t LANES>
ONEGRAPH_INLINE void store(float *target, const VectorOf<LANES> &vector) {
    *reinterpret_cast<VectorOf<LANES> *>(target) = vector;
}

// One place of a tile: its channels, and whether they follow one another; those of padding are the same zeros.
struct Place {
    const float *channels;
    std::size_t step;
};

// The transform of the 4x4 places of a tile, B^T d B. The planes of the result lie `plane` elements apart, which may be a
// multiple of 4 KiB, so that a line of the cache is written at once.
template <std::size_t LANES>
ONEGRAPH_INLINE void transform_src(
        const Place *places, float *__restrict result, std::size_t plane, std::size_t channels) {
    using Vector = VectorOf<LANES>;
    for (std::size_t group = 0; group < channels; group += GROUP)
#pragma GCC unroll 4
        for (std::size_t i = 0; i < TILE; i++)
#pragma GCC unroll 4
            for (std::size_t channel = group; channel < group + GROUP; channel += LANES) {
                const auto at = [&](std::size_t row, std::size_t column) -> const Vector & {
                    const Place &place = places[row * TILE + column];
                    return load<LANES>(place.channels + channel * place.step);
                };
                Vector d[TILE];
#pragma GCC unroll 4
                for (std::size_t j = 0; j < TILE; j++)
                    d[j] = i == 0 ? at(0, j) - at(2, j)
                            : i == 1 ? at(1, j) + at(2, j)
                            : i == 2 ? at(2, j) - at(1, j)
                                     : at(1, j) - at(3, j);
                float *row = result + i * TILE * plane + channel;
                store<LANES>(row, d[0] - d[2]), store<LANES>(row + plane, d[1] + d[2]);
                store<LANES>(row + 2 * plane, d[2] - d[1]), store<LANES>(row + 3 * plane, d[1] - d[3]);
            }
}

// The 2x2 places of the result, A^T m A, plus a bias; nothing is written to a place without address. Returns whether a
// number is NaN or infinite: its exponent has all bits set.
template <std::size_t LANES>
ONEGRAPH_INLINE bool transform_dst(
        const float *products, std::size_t plane, const float *bias, float *const *places, std::size_t channels, float slope) {
    using Vector = VectorOf<LANES>;
    const Vector none = {};
    auto special = none != none;
    for (std::size_t channel = 0; channel < channels; channel += LANES) {
        Vector half[2][TILE];
        for (std::size_t j = 0; j < TILE; j++) {
            Vector m[TILE];
            for (std::size_t i = 0; i < TILE; i++)
                m[i] = load<LANES>(products + (i * TILE + j) * plane + channel);
            half[0][j] = m[0] + m[1] + m[2], half[1][j] = m[1] - m[2] - m[3];
        }
        const Vector added = load<LANES>(bias + channel);
        for (std::size_t i = 0; i < 2; i++) {
            const Vector *m = half[i];
            Vector found[2] = {m[0] + m[1] + m[2] + added, m[1] - m[2] - m[3] + added};
            for (std::size_t j = 0; j < 2; j++) {
                if (!places[2 * i + j]) continue;
                special |= found[j] - found[j] != none; // NaN for these
                if (slope != 1) found[j] = found[j] < 0 ? (slope == 0 ? Vector {} : slope * found[j]) : found[j];
                store<LANES>(places[2 * i + j] + channel, found[j]);
            }
        }
    }
    bool found = false;
    for (std::size_t lane = 0; lane < LANES; lane++)
        found = found || special[lane];
    return found;
}

// Distances in weights, in elements: of rows and columns of a plane, and of rows and columns of the window.
struct Steps {
    std::ptrdiff_t row, column, window[2];
};

// The transform of LANES windows, which lie in neighbouring columns of a plane: G w G^T.
template <std::size_t LANES>
ONEGRAPH_INLINE void transform_weights(const float *weights, const Steps &steps, float *result, std::size_t plane) {
    using Vector = VectorOf<LANES>;
    const Vector none = {}, half = none + 0.5f;
    const auto four = [&](const Vector &first, const Vector &second, const Vector &third, Vector *found) {
        const Vector outer = (first + third) * half, inner = second * half;
        found[0] = first, found[1] = outer + inner, found[2] = outer - inner, found[3] = third;
    };
    // All are gathered before the first is read as a vector: it would wait for the stores of its elements.
    float gathered[WINDOW * WINDOW][LANES];
    const float *sources[WINDOW * WINDOW];
    const auto at = [](std::size_t i) { return static_cast<std::ptrdiff_t>(i); };
    for (std::size_t i = 0; i < WINDOW * WINDOW; i++)
        sources[i] = weights + at(i / WINDOW) * steps.window[0] + at(i % WINDOW) * steps.window[1];
    const bool is_row = steps.column == 1;
    for (std::size_t lane = 0; !is_row && lane < LANES; lane++)
        for (std::size_t i = 0; i < WINDOW * WINDOW; i++)
            gathered[i][lane] = sources[i][at(lane) * steps.column];
    Vector rows[WINDOW][TILE];
    for (std::size_t j = 0; j < WINDOW; j++) {
        const auto found = [&](std::size_t i) -> const Vector & {
            return load<LANES>(is_row ? sources[i * WINDOW + j] : gathered[i * WINDOW + j]);
        };
        four(found(0), found(1), found(2), rows[j]);
    }
    for (std::size_t i = 0; i < TILE; i++) {
        Vector found[TILE];
        four(rows[0][i], rows[1][i], rows[2][i], found);
        for (std::size_t j = 0; j < TILE; j++)
            store<LANES>(result + (i * TILE + j) * plane, found[j]);
    }
}

// The distances in weights of layout `of` between the rows and columns of a plane, and the first element of the window.
Steps steps_of(int of, bool turned, std::size_t rows, std::size_t columns, const float *&weights) {
    const auto high = static_cast<std::ptrdiff_t>(rows), wide = static_cast<std::ptrdiff_t>(columns);
    const std::ptrdiff_t results = turned ? high : wide, channels = turned ? wide : high;
    const bool is_oix = of == OIX;
    const std::ptrdiff_t result = is_oix ? 9 * channels : 1, channel = is_oix ? 9 : results;
    const std::ptrdiff_t place = is_oix ? 1 : channels * results;
    if (!turned) return {channel, result, {3 * place, place}};
    weights += 8 * place;
    return {result, channel, {-3 * place, -place}};
}

// Transforms weights of layout `of` to 16 planes of `rows` and `columns`.
void weights_to_planes(int of, bool turned, const float *weights, float *planes, std::size_t rows, std::size_t columns,
        int threads) {
    const Steps steps = steps_of(of, turned, rows, columns, weights);
    const auto transform = ForCpu<transform_weights<4>, transform_weights<8>, transform_weights<16>>::of();
    const std::size_t lanes = has_avx512() ? 16 : has_avx2() ? 8 : 4;
    share(rows * columns, threads, columns, [&](std::size_t begin, std::size_t end) {
        for (std::size_t at = begin; at < end; at += lanes) {
            const auto row = static_cast<std::ptrdiff_t>(at / columns), column = static_cast<std::ptrdiff_t>(at % columns);
            transform(weights + row * steps.row + column * steps.column, steps, planes + at, rows * columns);
        }
    });
}

// A transform of Winograd's convolution F(2x2, 3x3): of its weights, or of some of the tiles of a batch of images.
//
// A tile is 2x2 places of dst and the 4x4 places of src that they depend on. The first transform takes src
// (N, height, width, channels) and gives 16 planes (16, tiles, channels), which the caller multiplies by the transformed
// weights (16, channels of src, channels of dst). The second one takes these products, a bias, src and the weights, and
// writes the places of its tiles in dst; it computes NaN and infinities again from src and the weights. The transform of
// weights takes (O, I, 3, 3) or (3, 3, I, O). Channels are a multiple of 16, and all tensors are dense.
//
// of: what is transformed, `layout`: that of the weights. slope: the factor of negative results; 1, or 0 for a ReLU. rows,
// columns: of the tiles of an image. first: the number of the first tile, counted over images, rows and columns. top, left:
// padding before src. turned: whether the weights are those of the gradient by src: turned around, with channels swapped.
class Winograd : public Runnable {
public:
    explicit Winograd(const KernelArguments &arguments);
    void run(void *const *addresses, int threads) const override;

private:
    struct Tile {
        std::ptrdiff_t image, row, column;
    };

    Tile tile(std::size_t index) const;
    void src(void *const *addresses, std::size_t begin, std::size_t end) const;
    void dst(void *const *addresses, std::size_t begin, std::size_t end) const;
    void repair(void *const *addresses, const Tile &at, std::ptrdiff_t row, std::ptrdiff_t column, float *results) const;

    int operand_, layout_;
    bool turned_;
    float slope_; // the factor of negative results
    std::ptrdiff_t height_, width_, rows_, columns_, first_, top_, left_;
    std::size_t channels_, tiles_; // of the image; the columns and rows of a plane of weights
    std::array<std::ptrdiff_t, 3> source_ {}; // height, width and channels of src, for the second transform
};

Winograd::Winograd(const KernelArguments &arguments)
    : operand_(arguments.number("of")), layout_(arguments.number("layout")), turned_(arguments.flag("turned")),
      slope_(arguments.real("slope")), rows_(arguments.number("rows")), columns_(arguments.number("columns")),
      first_(arguments.number("first")), top_(arguments.number("top")), left_(arguments.number("left")) {
    const std::size_t count = arguments.count;
    const auto tensors = arguments.tensors;
    const bool is_dst = operand_ == DST;
    if (count != (is_dst ? 5u : 2u)) throw std::invalid_argument("other tensors than those of a transform");
    const dnnl_graph_logical_tensor_t &image = *tensors[is_dst ? 4 : 0], &planes = *tensors[is_dst ? 0 : 1];
    const bool is_weights = operand_ == OIX || operand_ == XIO;
    for (std::size_t i = 0; i < count; i++)
        if (tensors[i]->data_type != dnnl_f32) throw std::invalid_argument("no transform of this data type");
    if (image.ndims != 4 || planes.ndims != 3 || (is_dst && tensors[2]->ndims != 4)) throw std::invalid_argument("no such transform");
    height_ = image.dims[1], width_ = image.dims[2];
    channels_ = static_cast<std::size_t>(is_weights ? planes.dims[2] : image.dims[3]);
    tiles_ = static_cast<std::size_t>(planes.dims[1]);
    if (is_dst)
        source_ = {tensors[2]->dims[1], tensors[2]->dims[2], tensors[2]->dims[3]};
    const std::size_t of_window = 9 * channels_; // weights of a channel
    bool fits = channels_ > 0 && channels_ % GROUP == 0 && elements_of(planes) == PLANES * tiles_ * channels_;
    if (is_weights)
        fits = fits && elements_of(image) == tiles_ * of_window;
    else
        fits = fits && rows_ > 0 && columns_ > 0 && first_ >= 0
                && first_ + static_cast<std::ptrdiff_t>(tiles_) <= image.dims[0] * rows_ * columns_;
    if (is_dst)
        fits = fits && elements_of(*tensors[1]) == channels_ && tensors[2]->dims[0] == image.dims[0]
                && elements_of(*tensors[3]) == static_cast<std::size_t>(source_[2]) * of_window;
    if (!fits) throw std::invalid_argument("other sizes than those of a transform");
}

void Winograd::run(void *const *addresses, int threads) const {
    if (operand_ == OIX || operand_ == XIO)
        return weights_to_planes(operand_, turned_, static_cast<const float *>(addresses[0]),
                static_cast<float *>(addresses[1]), tiles_, channels_, threads);
    share(tiles_ * channels_, threads, channels_, [&](std::size_t begin, std::size_t end) {
        if (operand_ == DST)
            dst(addresses, begin / channels_, end / channels_);
        else
            src(addresses, begin / channels_, end / channels_);
    });
}

// The image, row and column of a tile.
Winograd::Tile Winograd::tile(std::size_t index) const {
    const std::ptrdiff_t whole = first_ + static_cast<std::ptrdiff_t>(index), row = whole / columns_;
    return {row / rows_, row % rows_, whole % columns_};
}

void Winograd::src(void *const *addresses, std::size_t begin, std::size_t end) const {
    static const float zeros[GROUP] = {};
    const auto *image = static_cast<const float *>(addresses[0]);
    auto *planes = static_cast<float *>(addresses[1]);
    const auto transform = ForCpu<transform_src<4>, transform_src<8>, transform_src<16>>::of();
    for (std::size_t index = begin; index < end; index++) {
        const Tile at = tile(index);
        Place places[PLANES];
        for (std::size_t place = 0; place < PLANES; place++) {
            const std::ptrdiff_t y = 2 * at.row - top_ + static_cast<std::ptrdiff_t>(place / TILE);
            const std::ptrdiff_t x = 2 * at.column - left_ + static_cast<std::ptrdiff_t>(place % TILE);
            const bool is_inside = y >= 0 && y < height_ && x >= 0 && x < width_;
            const std::ptrdiff_t pixel = (at.image * height_ + y) * width_ + x;
            if (is_inside)
                places[place] = {image + static_cast<std::size_t>(pixel) * channels_, 1};
            else
                places[place] = {zeros, 0};
        }
        transform(places, planes + index * channels_, tiles_ * channels_, channels_);
    }
}

void Winograd::dst(void *const *addresses, std::size_t begin, std::size_t end) const {
    const auto *planes = static_cast<const float *>(addresses[0]), *bias = static_cast<const float *>(addresses[1]);
    auto *image = static_cast<float *>(addresses[4]);
    const auto transform = ForCpu<transform_dst<4>, transform_dst<8>, transform_dst<16>>::of();
    for (std::size_t index = begin; index < end; index++) {
        const Tile at = tile(index);
        float *places[4];
        for (std::ptrdiff_t place = 0; place < 4; place++) {
            const std::ptrdiff_t y = 2 * at.row + place / 2, x = 2 * at.column + place % 2;
            const std::ptrdiff_t pixel = (at.image * height_ + y) * width_ + x;
            places[place] = y < height_ && x < width_ ? image + static_cast<std::size_t>(pixel) * channels_ : nullptr;
        }
        const auto write = [&](float slope) {
            return transform(planes + index * channels_, tiles_ * channels_, bias, places, channels_, slope);
        };
        if (!write(slope_)) continue;
        write(1);
        for (std::ptrdiff_t place = 0; place < 4; place++)
            if (places[place]) repair(addresses, at, 2 * at.row + place / 2, 2 * at.column + place % 2, places[place]);
    }
}

// Computes the numbers of a place that are NaN or infinite as a direct convolution does: a transform spreads such a number
// of src to its whole tile. Other numbers do not depend on one. Then applies the slope.
void Winograd::repair(
        void *const *addresses, const Tile &at, std::ptrdiff_t row, std::ptrdiff_t column, float *results) const {
    const auto *bias = static_cast<const float *>(addresses[1]), *image = static_cast<const float *>(addresses[2]);
    const auto *weights = static_cast<const float *>(addresses[3]);
    const auto [height, width, channels] = source_;
    const Steps steps = steps_of(layout_, turned_, static_cast<std::size_t>(channels), channels_, weights);
    const auto sum = [&](std::ptrdiff_t result) {
        float total = bias[result];
        for (std::ptrdiff_t place = 0; place < 9; place++) {
            const std::ptrdiff_t y = row + place / 3 - top_, x = column + place % 3 - left_;
            if (y < 0 || y >= height || x < 0 || x >= width) continue;
            const float *pixel = image + ((at.image * height + y) * width + x) * channels;
            const float *window = weights + place / 3 * steps.window[0] + place % 3 * steps.window[1];
            for (std::ptrdiff_t channel = 0; channel < channels && total == total; channel++) // NaN remains NaN
                total += pixel[channel] * window[channel * steps.row + result * steps.column];
        }
        return total;
    };
    for (std::size_t i = 0; i < channels_; i++) {
        const float found = results[i];
        const float exact = found - found == 0 ? found : sum(static_cast<std::ptrdiff_t>(i));
        results[i] = exact < 0 && slope_ != 1 ? (slope_ == 0 ? 0 : slope_ * exact) : exact;
    }
}

const Registered<Winograd> WINOGRAD {"winograd",
        "of: src|dst|oix|xio, slope: f32, rows, columns, first, top, left, turned, layout: src|dst|oix|xio"};

} // namespace
} // namespace onegraph
