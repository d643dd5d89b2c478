// MaxPool with the places of the largest elements, and the way back.

#include "arrays.h"

namespace onegraph {
namespace {

constexpr int AXES = 3;

struct Axis {
    std::int64_t size, windows, kernel, stride, begin, dilation, weight;

    std::int64_t at(std::int64_t window, std::int64_t tap) const { return window * stride - begin + tap * dilation; }
    bool has(std::int64_t place) const { return place >= 0 && place < size; }

    // The windows whose tap lies in src.
    std::int64_t first(std::int64_t tap) const {
        return std::clamp<std::int64_t>((begin - tap * dilation + stride - 1) / stride, 0, windows);
    }
    std::int64_t last(std::int64_t tap) const {
        const std::int64_t room = size - 1 + begin - tap * dilation;
        return room < 0 ? 0 : std::min(room / stride + 1, windows);
    }
};

// Takes the elements of a row, one for each window, that are larger than those so far.
template <typename T, typename Step>
ONEGRAPH_INLINE void take_row(const T *source, Step step, std::int32_t place, std::int64_t weight, std::int64_t count,
        T *__restrict best, std::int32_t *__restrict places) {
    for (std::int64_t i = 0; i < count; i++) {
        const T element = source[i * step];
        const bool takes = element > best[i] || (is_nan(element) && !is_nan(best[i])) || places[i] < 0;
        best[i] = takes ? element : best[i];
        places[i] = takes ? static_cast<std::int32_t>(place + i * step * weight) : places[i];
    }
}

constexpr std::int64_t CHUNK = 256; // windows that are computed together

// src (planes, 3 dims); dst and the places of its elements (planes, 3 dims). Numbers: six for each axis: kernel, stride,
// padding before, dilation, and the weight of an index in a place.
template <typename T>
void pool(const ArrayCall &call) {
    Axis axes[AXES];
    for (int axis = 0; axis < AXES; axis++) {
        const auto first = static_cast<std::size_t>(axis) * 5;
        axes[axis] = {call.dim(0, axis + 1), call.dim(1, axis + 1), call.integer(first), call.integer(first + 1),
                call.integer(first + 2), call.integer(first + 3), call.integer(first + 4)};
    }
    const auto [depth, height, width] = axes;
    const std::int64_t plane = depth.size * height.size * width.size, rows = depth.windows * height.windows;
    const std::int64_t taps = depth.kernel * height.kernel * width.kernel;
    divide(call.dim(0, 0) * rows, width.windows * taps, call.threads, [&](std::int64_t begin, std::int64_t end) {
        T best[CHUNK];
        std::int32_t places[CHUNK];
        for (std::int64_t row = begin; row < end; row++) {
            const std::int64_t image = row / rows, down = row % rows / height.windows, beside = row % rows % height.windows;
            const T *source = call.data<const T>(0) + image * plane;
            for (std::int64_t from = 0; from < width.windows; from += CHUNK) {
                const std::int64_t to = std::min(from + CHUNK, width.windows);
                constexpr T least = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                                         : std::numeric_limits<T>::lowest();
                std::fill_n(best, to - from, least);
                std::fill_n(places, to - from, -1);
                with_vectors([&]() ONEGRAPH_VECTORS {
                    for (std::int64_t tap = 0; tap < taps; tap++) {
                        const std::int64_t z = depth.at(down, tap / width.kernel / height.kernel);
                        const std::int64_t y = height.at(beside, tap / width.kernel % height.kernel);
                        const std::int64_t x = tap % width.kernel;
                        const std::int64_t first = std::max(width.first(x), from), last = std::min(width.last(x), to);
                        if (!depth.has(z) || !height.has(y) || first >= last) continue;
                        const std::int64_t at = width.at(first, x);
                        const auto place = static_cast<std::int32_t>(z * depth.weight + y * height.weight + at * width.weight);
                        const T *elements = source + (z * height.size + y) * width.size + at;
                        const std::int64_t some = last - first, shift = first - from;
                        if (width.stride == 1)
                            take_row(elements, std::integral_constant<std::int64_t, 1>(), place, width.weight, some,
                                    best + shift, places + shift);
                        else if (width.stride == 2)
                            take_row(elements, std::integral_constant<std::int64_t, 2>(), place, width.weight, some,
                                    best + shift, places + shift);
                        else
                            take_row(elements, width.stride, place, width.weight, some, best + shift, places + shift);
                    }
                });
                T *result = call.data<T>(1) + row * width.windows + from;
                auto *found = call.data<std::int64_t>(2) + row * width.windows + from;
                for (std::int64_t i = 0; i < to - from; i++) {
                    result[i] = best[i];
                    found[i] = (places[i] < 0 ? 0 : places[i]) + image * plane;
                }
            }
        }
    });
}

// src and the places of its elements; dst, the pooled tensor, which is 0 elsewhere.
template <typename T>
void unpool(const ArrayCall &call) {
    const std::int64_t count = call.size(0), size = call.size(2);
    const auto *places = call.data<const std::int64_t>(1);
    const T *source = call.data<const T>(0);
    T *result = call.data<T>(2);
    call.check(call.size(1) == count);
    for (std::int64_t i = 0; i < count; i++)
        if (places[i] < 0 || places[i] >= size) throw BadIndex {1, i, places[i]};
    divide(size, 1, call.threads, [&](std::int64_t begin, std::int64_t end) {
        std::memset(static_cast<void *>(result + begin), 0, static_cast<std::size_t>(end - begin) * sizeof(T));
    });
    for (std::int64_t i = 0; i < count; i++)
        result[places[i]] = source[i];
}

const NamedKernel pooling("MaxPoolPlaces", [](const ArrayCall &call) {
    with_type(call.type(0), [&](auto zero) { pool<decltype(zero)>(call); });
});
const NamedKernel unpooling("MaxUnpool", [](const ArrayCall &call) {
    with_size(call.type(0), [&](auto zero) { unpool<decltype(zero)>(call); });
});

} // namespace
} // namespace onegraph
