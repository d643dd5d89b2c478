// RoiAlign: means or maxima of samples between the pixels in the cells of boxes.

#include "samples.h"

namespace onegraph {
namespace {

constexpr std::int64_t MOST_SAMPLES = std::int64_t {1} << 22; // of a box

// The samples along one axis of a box.
template <typename T>
struct Side {
    T start, cell;
    std::int64_t cells, samples, dim; // samples: in each cell

    bool is_known() const { return std::isfinite(start) && std::isfinite(cell); }

    // The two neighbours of a sample, and the share of the second one; false if it is too far outside.
    bool at(std::int64_t cell_number, std::int64_t sample, std::int64_t &low, std::int64_t &high, T &share) const {
        T place = start + static_cast<T>(cell_number) * cell
                + (static_cast<T>(sample) + T(0.5)) * cell / static_cast<T>(samples);
        if (!(place >= T(-1) && place <= static_cast<T>(dim))) return false;
        place = std::max(place, T(0));
        low = std::min(static_cast<std::int64_t>(place), dim - 1);
        high = std::min(low + 1, dim - 1);
        share = low == dim - 1 ? T(0) : place - static_cast<T>(low);
        return true;
    }
};

template <typename T>
Side<T> side_of(T from, T to, T scale, bool is_half, std::int64_t cells, std::int64_t ratio, std::int64_t dim) {
    Side<T> side {from * scale - (is_half ? T(0.5) : T(0)), 0, cells, 0, dim};
    T size = to * scale - (is_half ? T(0.5) : T(0)) - side.start;
    if (!is_half && !(size >= 1)) size = std::isnan(size) ? size : T(1);
    side.cell = size / static_cast<T>(cells);
    if (!side.is_known()) return side;
    const T wanted = ratio > 0 ? static_cast<T>(ratio) : std::ceil(side.cell);
    if (wanted > static_cast<T>(MOST_SAMPLES)) throw std::length_error("RoiAlign: a box has millions of samples");
    side.samples = wanted >= 1 ? static_cast<std::int64_t>(wanted) : 0;
    return side;
}

template <typename T>
void fill_box(const Side<T> &rows, const Side<T> &columns, bool is_mean, const Samples<T> &samples) {
    const T part = is_mean ? T(1) / static_cast<T>(rows.samples * columns.samples) : T(1);
    std::int64_t tap = 0;
    for (std::int64_t down = 0; down < rows.samples; down++)
        for (std::int64_t right = 0; right < columns.samples; right++, tap += 4)
            for (std::int64_t row = 0, p = 0; row < rows.cells; row++) {
                std::int64_t top = 0, bottom = 0, left = 0, beside = 0;
                T below = 0, next = 0;
                const bool is_inside = rows.at(row, down, top, bottom, below);
                for (std::int64_t column = 0; column < columns.cells; column++, p++) {
                    const bool is_known = is_inside && columns.at(column, right, left, beside, next);
                    const std::int64_t places[] {top * columns.dim + left, top * columns.dim + beside,
                            bottom * columns.dim + left, bottom * columns.dim + beside};
                    const T shares[] {(1 - below) * (1 - next), (1 - below) * next, below * (1 - next), below * next};
                    for (int corner = 0; corner < 4; corner++) {
                        const std::int64_t at = (tap + corner) * samples.stride + p;
                        samples.places[at] = is_known ? static_cast<std::int32_t>(places[corner]) : -1;
                        samples.shares[at] = is_known ? shares[corner] * part : T(0);
                    }
                }
            }
}

// src, boxes (count, 4), batch indices; dst. Numbers: samples of a cell, the scale, whether pixels are half away, maximum.
template <typename T>
void align(const ArrayCall &call) {
    const auto *boxes = call.data<const T>(1);
    const auto *images = call.data<const std::int64_t>(2);
    const std::int64_t batch = call.dim(0, 0), channels = call.dim(0, 1), height = call.dim(0, 2), width = call.dim(0, 3);
    const std::int64_t count = call.dim(1, 0), rows = call.dim(3, 2), columns = call.dim(3, 3), cells = rows * columns;
    for (std::int64_t box = 0; box < count; box++)
        if (images[box] < 0 || images[box] >= batch) throw BadIndex {2, box, images[box]};
    const bool is_half = call.flag(2), is_most = call.flag(3);
    const auto sides = [&](std::int64_t box, Side<T> &down, Side<T> &right) {
        const T *corners = boxes + box * 4, scale = static_cast<T>(call.number(1));
        down = side_of(corners[1], corners[3], scale, is_half, rows, call.integer(0), height);
        right = side_of(corners[0], corners[2], scale, is_half, columns, call.integer(0), width);
    };
    std::int64_t most = 1;
    for (std::int64_t box = 0; box < count; box++) {
        Side<T> down, right;
        sides(box, down, right);
        most = std::max(most, down.samples * right.samples);
    }
    if (most > MOST_SAMPLES) throw std::length_error("RoiAlign: a box has millions of samples");
    constexpr std::int64_t LANES = Samples<T>::LANES;
    const std::int64_t stride = (cells + LANES - 1) / LANES * LANES, lanes = std::max(call.threads, 1);
    // Few boxes are divided by channels too.
    const std::int64_t parts = count >= 4 * lanes ? 1 : std::min(channels, 4 * lanes), tasks = count * parts;
    const bool is_large = count * channels * cells * 4 * most > static_cast<std::int64_t>(2 * SHARE);
    const auto threads = static_cast<int>(is_large ? std::min(lanes, tasks) : 1);
    std::vector<std::int32_t> places(static_cast<std::size_t>(threads * 4 * most * stride));
    std::vector<T> shares(places.size());
    std::atomic<std::int64_t> taken {0};
    together(threads, [&](std::size_t thread) {
        const auto begin = static_cast<std::int64_t>(thread) * 4 * most * stride;
        for (std::int64_t task; (task = taken.fetch_add(1)) < tasks;) {
            const std::int64_t box = task / parts, first = task % parts * channels / parts;
            const std::int64_t some = (task % parts + 1) * channels / parts - first;
            T *result = call.data<T>(3) + (box * channels + first) * cells;
            Side<T> down, right;
            sides(box, down, right);
            const Samples<T> samples {places.data() + begin, shares.data() + begin, 4 * down.samples * right.samples, stride, cells};
            if (!samples.taps || !height || !width) {
                const bool is_known = down.is_known() && right.is_known();
                std::fill_n(result, some * cells, is_known ? T(0) : std::numeric_limits<T>::quiet_NaN());
                continue;
            }
            fill_box(down, right, !is_most, samples);
            const T *source = call.data<const T>(0) + (images[box] * channels + first) * height * width;
            if (is_most)
                sample<T, true>(samples, source, height * width, result, cells, some);
            else
                sample<T, false>(samples, source, height * width, result, cells, some);
        }
    });
}

const NamedKernel entry("RoiAlign", [](const ArrayCall &call) {
    with_float(call.type(0), [&](auto zero) { align<decltype(zero)>(call); });
});

} // namespace
} // namespace onegraph
