// GridSample: elements of images at places between the pixels.

#include "samples.h"

namespace onegraph {
namespace {

constexpr std::int64_t ELEMENTS = 4096; // of places that are computed together, whose shares stay in a cache
constexpr int MOST_AXES = 3, MOST_TAPS = 4; // along an axis
enum Mode { NEAREST, LINEAR, CUBIC };
enum Padding { ZEROS, BORDER, REFLECTION };

template <typename T>
struct Sampler {
    int axes, mode, padding;
    bool is_aligned;
    std::int64_t dims[MOST_AXES], strides[MOST_AXES];

    // A place mirrored at the borders of the image.
    T reflected(T place, std::int64_t dim) const {
        const T low = is_aligned ? T(0) : T(-0.5), span = is_aligned ? static_cast<T>(dim - 1) : static_cast<T>(dim);
        if (!(span > 0)) return T(0);
        const T distance = std::abs(place - low), turns = std::floor(distance / span), extra = std::fmod(distance, span);
        return std::fmod(turns, T(2)) == 0 ? extra + low : span - extra + low;
    }

    // A place moved into the image, as the padding says. NaN moves to the first element.
    T inside(T place, std::int64_t dim) const {
        if (padding == REFLECTION) place = reflected(place, dim);
        if (padding == ZEROS) return place;
        const T last = static_cast<T>(dim - 1);
        return place > 0 ? std::min(place, last) : T(0);
    }

    // The index of an element, or -1 if there is none.
    std::int64_t index(T place, std::int64_t dim) const {
        return place >= 0 && place <= static_cast<T>(dim - 1) ? static_cast<std::int64_t>(place) : -1;
    }

    // The elements along one axis that a place reads, and their shares; returns their number.
    int along(T place, std::int64_t dim, std::int64_t *indices, T *shares) const {
        const T size = static_cast<T>(dim);
        T at = is_aligned ? (place + 1) / 2 * (size - 1) : ((place + 1) * size - 1) / 2;
        if (mode != CUBIC) at = inside(at, dim);
        if (mode == NEAREST) {
            indices[0] = index(std::nearbyint(at), dim), shares[0] = 1;
            return 1;
        }
        const T low = std::floor(at), rest = at - low;
        if (mode == LINEAR) {
            indices[0] = index(low, dim), indices[1] = index(low + 1, dim);
            shares[0] = 1 - rest, shares[1] = rest;
            return 2;
        }
        constexpr T A = T(-0.75);
        const auto inner = [](T d) { return ((A + 2) * d - (A + 3)) * d * d + 1; };
        const auto outer = [](T d) { return ((A * d - 5 * A) * d + 8 * A) * d - 4 * A; };
        shares[0] = outer(rest + 1), shares[1] = inner(rest), shares[2] = inner(1 - rest), shares[3] = outer(2 - rest);
        for (int tap = 0; tap < 4; tap++)
            indices[tap] = index(inside(low + static_cast<T>(tap - 1), dim), dim);
        return 4;
    }

    void fill(const T *grid, const Samples<T> &samples) const {
        for (std::int64_t p = 0; p < samples.count; p++, grid += axes) {
            std::int64_t indices[MOST_AXES][MOST_TAPS];
            T shares[MOST_AXES][MOST_TAPS];
            int taps = 1;
            for (int axis = 0; axis < axes; axis++) // the last number of a place belongs to the first axis
                taps = along(grid[axes - 1 - axis], dims[axis], indices[axis], shares[axis]);
            for (std::int64_t tap = 0; tap < samples.taps; tap++) {
                std::int64_t at = 0, rest = tap;
                T share = 1;
                for (int axis = axes; axis-- > 0; rest /= taps) {
                    const std::int64_t index = indices[axis][rest % taps];
                    at = at < 0 || index < 0 ? -1 : at + index * strides[axis];
                    share *= shares[axis][rest % taps];
                }
                samples.places[tap * samples.stride + p] = static_cast<std::int32_t>(at);
                samples.shares[tap * samples.stride + p] = share;
            }
        }
    }
};

// src (batch, channels, dims), grid (batch, places, axes); dst (batch, channels, places). Numbers: the mode, the padding and
// whether the corners are aligned.
template <typename T>
void sample_grid(const ArrayCall &call) {
    Sampler<T> sampler {call.rank(0) - 2, static_cast<int>(call.integer(0)), static_cast<int>(call.integer(1)), call.flag(2), {}, {}};
    if (sampler.axes < 1 || sampler.axes > MOST_AXES) throw std::invalid_argument("GridSample: wrong number of axes");
    std::int64_t plane = 1, taps = 1;
    for (int axis = sampler.axes; axis-- > 0; plane *= sampler.dims[axis]) {
        sampler.dims[axis] = call.dim(0, axis + 2), sampler.strides[axis] = plane;
        taps *= sampler.mode == NEAREST ? 1 : sampler.mode == LINEAR ? 2 : 4;
    }
    const std::int64_t batch = call.dim(0, 0), channels = call.dim(0, 1), count = call.size(1, 1, call.rank(1) - 1);
    call.check(call.dim(1, 0) == batch && call.dim(1, call.rank(1) - 1) == sampler.axes && call.size(2) == batch * channels * count);
    if (!plane) {
        std::fill_n(call.data<T>(2), call.size(2), T(0));
        return;
    }
    const std::int64_t lanes = std::max(call.threads, 1), LANES = Samples<T>::LANES;
    const auto rounded = [&](std::int64_t number) { return (number + LANES - 1) / LANES * LANES; };
    const bool is_large = batch * count * taps * (channels + 4) > static_cast<std::int64_t>(2 * SHARE);
    // A plane stays in the first cache for all places of a chunk; each thread has chunks.
    const std::int64_t chunk = rounded(std::min(ELEMENTS / taps, is_large ? (count + 2 * lanes - 1) / (2 * lanes) : count));
    const std::int64_t chunks = (count + chunk - 1) / chunk, tasks = batch * chunks;
    const auto threads = is_large ? static_cast<int>(std::min(lanes, tasks)) : 1;
    std::vector<std::int32_t> places(static_cast<std::size_t>(threads * taps * chunk));
    std::vector<T> shares(places.size());
    std::atomic<std::int64_t> taken {0};
    together(threads, [&](std::size_t thread) {
        const auto begin = static_cast<std::int64_t>(thread) * taps * chunk;
        for (std::int64_t task; (task = taken.fetch_add(1)) < tasks;) {
            const std::int64_t image = task / chunks, first = task % chunks * chunk;
            const Samples<T> samples {
                    places.data() + begin, shares.data() + begin, taps, chunk, std::min(chunk, count - first)};
            const T *grid = call.data<const T>(1) + (image * count + first) * sampler.axes;
            with_vectors([&]() ONEGRAPH_VECTORS { sampler.fill(grid, samples); });
            sample<T>(samples, call.data<const T>(0) + image * channels * plane, plane,
                    call.data<T>(2) + image * channels * count + first, count, channels);
        }
    });
}

const NamedKernel entry("GridSample", [](const ArrayCall &call) {
    with_float(call.type(0), [&](auto zero) { sample_grid<decltype(zero)>(call); });
});

} // namespace
} // namespace onegraph
