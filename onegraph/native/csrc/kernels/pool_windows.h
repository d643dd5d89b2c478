// The windows of a pool on tensors of any strides, and the rows of its result.

#pragma once

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "registry.h"

namespace onegraph {

constexpr std::size_t FEW_ROWS = 64, MANY_CHANNELS = 128, PART = 64; // few rows of many channels are divided into parts

struct PoolAxis {
    std::ptrdiff_t size = 1, results = 1, from = 0, to = 0; // elements of src and dst, and strides in elements
};

struct PoolWindows {
    struct Spatial {
        PoolAxis axis;
        std::ptrdiff_t kernel = 1, stride = 1, dilation = 1, begin = 0;

        // The place in src of element `tap` of a window.
        std::ptrdiff_t at(std::ptrdiff_t window, std::ptrdiff_t tap) const {
            return window * stride + tap * dilation - begin;
        }

        // The results whose windows have an element `tap` in src: from the first one up to the second one.
        std::pair<std::ptrdiff_t, std::ptrdiff_t> inside(std::ptrdiff_t tap) const {
            std::ptrdiff_t left = 0, right = axis.results;
            while (left < right && at(left, tap) < 0)
                left++;
            while (right > left && at(right - 1, tap) >= axis.size)
                right--;
            return {left, right};
        }

        bool has(std::ptrdiff_t place) const { return place >= 0 && place < axis.size; }
    };

    // A row of dst: its place, the offsets of its image and channels in src and of itself in dst, and its channels.
    struct Row {
        std::ptrdiff_t depth, height, from, to;
        std::size_t inner;
    };

    // For src and dst, whose spatial axes have four numbers each: kernel, stride, dilation and padding before.
    PoolWindows(const dnnl_graph_logical_tensor_t &source, const dnnl_graph_logical_tensor_t &target, std::size_t channels,
            const int *numbers, std::size_t n_numbers);
    Row row(std::size_t index) const;

    // Calls `function` with the offset of each row of src that a row of dst depends on.
    template <typename Function>
    void for_each_line(const Row &row, const Function &function) const {
        const Spatial &depth = spatial[0], &height = spatial[1];
        for (std::ptrdiff_t k = 0; k < depth.kernel; k++)
            for (std::ptrdiff_t j = 0; j < height.kernel; j++) {
                const std::ptrdiff_t d = depth.at(row.depth, k), h = height.at(row.height, j);
                if (depth.has(d) && height.has(h)) function(row.from + d * depth.axis.from + h * height.axis.from);
            }
    }

    std::size_t taps() const { return static_cast<std::size_t>(spatial[0].kernel * spatial[1].kernel * spatial[2].kernel); }

    PoolAxis images, channels;
    std::array<Spatial, 3> spatial; // the first ones of fewer axes have a single element
    std::size_t inner = 1, parts, rows; // channels that are computed together, such parts, and rows of dst in all
};

inline PoolWindows::PoolWindows(const dnnl_graph_logical_tensor_t &source, const dnnl_graph_logical_tensor_t &target,
        std::size_t channel, const int *numbers, std::size_t n_numbers) {
    const auto rank = static_cast<std::size_t>(source.ndims);
    const bool is_known = rank >= 3 && rank <= 5 && target.ndims == source.ndims && channel > 0 && channel < rank && n_numbers == 4 * (rank - 2);
    if (!is_known) throw std::invalid_argument("other tensors than those of a pool");
    const auto axis = [&](std::size_t at) {
        if (source.dims[at] < 1) throw std::invalid_argument("no kernel for tensors without elements");
        return PoolAxis {source.dims[at], target.dims[at], source.layout.strides[at], target.layout.strides[at]};
    };
    images = axis(0), channels = axis(channel);
    if (images.size != images.results || channels.size != channels.results) throw std::invalid_argument("a result of another size");
    for (std::size_t i = 0, at = 1; i < rank - 2; i++, at++, numbers += 4) {
        at += at == channel;
        spatial[5 - rank + i] = {axis(at), numbers[0], numbers[1], numbers[2], numbers[3]};
    }
    rows = static_cast<std::size_t>(images.size * spatial[0].axis.results * spatial[1].axis.results);
    if (channels.from == 1) {
        const auto size = static_cast<std::size_t>(channels.size);
        inner = rows < FEW_ROWS && size >= MANY_CHANNELS ? PART : size;
    }
    parts = (static_cast<std::size_t>(channels.size) + inner - 1) / inner;
    rows *= parts;
}

inline PoolWindows::Row PoolWindows::row(std::size_t index) const {
    auto rest = static_cast<std::ptrdiff_t>(index);
    const auto take = [&](std::ptrdiff_t size) {
        const std::ptrdiff_t at = rest % size;
        rest /= size;
        return at;
    };
    // The parts of the channels of one place follow one another if they lie side by side.
    const auto count = static_cast<std::ptrdiff_t>(parts);
    const bool is_last = channels.from == 1;
    std::ptrdiff_t part = is_last ? take(count) : 0;
    const std::ptrdiff_t y = take(spatial[1].axis.results), z = take(spatial[0].axis.results);
    if (!is_last) part = take(count);
    const std::ptrdiff_t first = part * static_cast<std::ptrdiff_t>(inner);
    const std::ptrdiff_t to = spatial[0].axis.to * z + spatial[1].axis.to * y;
    return {z, y, rest * images.from + first * channels.from, rest * images.to + first * channels.to + to,
            std::min(inner, static_cast<std::size_t>(channels.size - first))};
}

} // namespace onegraph
