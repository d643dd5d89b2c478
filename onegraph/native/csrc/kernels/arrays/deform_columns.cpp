// The columns of a deformable convolution: for each window the elements that it reads between the pixels.

#include "samples.h"

namespace onegraph {
namespace {

constexpr std::int64_t CHUNK = 1024; // windows that are computed together

// One tap of some windows: where it reads, and the shares of its four neighbours times the mask.
template <typename T>
void fill_tap(const T *down, const T *beside, const T *mask, std::int64_t row, std::int64_t column, std::int64_t first,
        std::int64_t windows, std::int64_t rise, std::int64_t run, std::int64_t height, std::int64_t width,
        const Samples<T> &samples) {
    const auto tall = static_cast<T>(height), wide = static_cast<T>(width);
    for (std::int64_t p = 0; p < samples.count; p++) {
        const std::int64_t window = first + p;
        const T y = static_cast<T>(window / windows * rise + row) + down[window];
        const T x = static_cast<T>(window % windows * run + column) + beside[window];
        const T factor = mask ? mask[window] : T(1);
        // A window far outside reads nothing; one that is NaN is NaN.
        const bool is_near = y > T(-1) && y < tall && x > T(-1) && x < wide;
        const T low = is_near ? std::floor(y) : T(0), left = is_near ? std::floor(x) : T(0);
        const T below = is_near ? y - low : T(0), next = is_near ? x - left : T(0);
        const T nothing = is_nan(y) || is_nan(x) ? std::numeric_limits<T>::quiet_NaN() : T(0);
        const auto top = static_cast<std::int32_t>(low), start = static_cast<std::int32_t>(left);
        const T shares[] {(1 - below) * (1 - next), (1 - below) * next, below * (1 - next), below * next};
        for (int corner = 0; corner < 4; corner++) {
            const std::int32_t at = top + corner / 2, along = start + corner % 2;
            const bool counts = is_near && at >= 0 && at < height && along >= 0 && along < width;
            samples.places[corner * CHUNK + p] = counts ? static_cast<std::int32_t>(at * width + along) : -1;
            samples.shares[corner * CHUNK + p] = (is_near ? shares[corner] : nothing) * factor;
        }
    }
}

// src, offsets, a mask or nothing; columns (batch, channels, taps of a window, windows). Numbers: the kernel, strides,
// padding before and dilations, two each, and the number of groups of channels with offsets of their own.
template <typename T>
void columns(const ArrayCall &call) {
    const std::int64_t batch = call.dim(0, 0), channels = call.dim(0, 1), height = call.dim(0, 2), width = call.dim(0, 3);
    const std::int64_t rows = call.integer(0), across = call.integer(1), taps = rows * across, parts = call.integer(8);
    const std::int64_t down = call.dim(1, 2), windows = call.dim(1, 3), all = down * windows, each = channels / parts;
    const std::int64_t chunks = (all + CHUNK - 1) / CHUNK;
    divide(batch * parts * chunks, each * taps * CHUNK * 2, call.threads, [&](std::int64_t begin, std::int64_t end) {
        std::int32_t places[4 * CHUNK];
        T shares[4 * CHUNK];
        for (std::int64_t task = begin; task < end; task++) {
            const std::int64_t first = task % chunks * CHUNK, group = task / chunks, image = group / parts;
            const std::int64_t channel = image * channels + group % parts * each;
            const T *offsets = call.data<const T>(1) + group * 2 * taps * all;
            const T *mask = call.has(2) ? call.data<const T>(2) + group * taps * all : nullptr;
            const Samples<T> samples {places, shares, 4, CHUNK, std::min(CHUNK, all - first)};
            for (std::int64_t tap = 0; tap < taps; tap++) {
                fill_tap(offsets + 2 * tap * all, offsets + (2 * tap + 1) * all, mask ? mask + tap * all : nullptr,
                        tap / across * call.integer(6) - call.integer(4), tap % across * call.integer(7) - call.integer(5),
                        first, windows, call.integer(2), call.integer(3), height, width, samples);
                sample<T>(samples, call.data<const T>(0) + channel * height * width, height * width,
                        call.data<T>(3) + (channel * taps + tap) * all + first, taps * all, each);
            }
        }
    });
}

const NamedKernel entry("DeformColumns", [](const ArrayCall &call) {
    with_float(call.type(0), [&](auto zero) { columns<decltype(zero)>(call); });
});

} // namespace
} // namespace onegraph
