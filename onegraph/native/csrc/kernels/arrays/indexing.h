// Elements that indices name.

#pragma once

#include "arrays.h"

namespace onegraph {

// Throws BadIndex if an index is not one of an axis of size `dim`, counted from the begin or from the end. Looks at each
// `step`-th one of `count`.
inline void check_indices(const ArrayCall &call, std::size_t array, std::int64_t dim, std::int64_t begin = 0, std::int64_t step = 1) {
    const auto *indices = call.data<const std::int64_t>(array);
    const std::int64_t count = call.size(array);
    std::atomic<bool> is_bad {false};
    divide(count / step, 1, call.threads, [&](std::int64_t first, std::int64_t last) {
        bool found = false;
        with_vectors([&]() ONEGRAPH_VECTORS {
            const auto loop = [&](std::int64_t apart) ONEGRAPH_VECTORS {
                std::int64_t bad = 0;
                for (std::int64_t i = first; i < last; i++)
                    bad |= std::int64_t(indices[begin + i * apart] < -dim) | std::int64_t(indices[begin + i * apart] >= dim);
                return bad != 0;
            };
            found = step == 1 ? loop(1) : loop(step);
        });
        if (found) is_bad = true;
    });
    if (!is_bad) return;
    for (std::int64_t i = begin; i < count; i += step)
        if (indices[i] < -dim || indices[i] >= dim) throw BadIndex {array, i, indices[i]};
}

// Checks that `array` has the axes of `target`, none of which is longer but `axis`.
inline void check_inside(const ArrayCall &call, std::size_t array, std::size_t target, int axis) {
    call.check(call.rank(array) == call.rank(target));
    for (int other = 0; other < call.rank(array); other++)
        call.check(other == axis || call.dim(array, other) <= call.dim(target, other));
}

// The places of the slices that tuples in the last axis of the indices name, in elements of `target`. The first `batch` axes
// of both are the same.
inline std::vector<std::int64_t> slices(const ArrayCall &call, std::size_t array, std::size_t target, int batch = 0) {
    const auto *indices = call.data<const std::int64_t>(array);
    const std::int64_t width = call.dim(array, call.rank(array) - 1), count = call.size(array, 0, call.rank(array) - 1);
    std::vector<std::int64_t> found(static_cast<std::size_t>(count));
    for (int axis = 0; axis < batch; axis++)
        call.check(call.dim(array, axis) == call.dim(target, axis));
    for (std::int64_t axis = 0; axis < width; axis++)
        check_indices(call, array, call.dim(target, batch + static_cast<int>(axis)), axis, width);
    const std::int64_t of_image = count / std::max<std::int64_t>(call.size(array, 0, batch), 1);
    for (std::int64_t i = 0; i < count; i++) {
        std::int64_t at = batch ? i / of_image : 0;
        for (std::int64_t axis = 0; axis < width; axis++) {
            const std::int64_t dim = call.dim(target, batch + static_cast<int>(axis));
            at = at * dim + wrapped(indices[i * width + axis], dim);
        }
        found[static_cast<std::size_t>(i)] = at * call.size(target, batch + static_cast<int>(width));
    }
    return found;
}

// The places of all indices of some axes of `array`, in elements of `target`, whose dims may be larger.
inline std::vector<std::int64_t> places(const ArrayCall &call, std::size_t array, std::size_t target, int begin, int end) {
    std::vector<std::int64_t> found {0};
    for (int axis = begin; axis < end; axis++) {
        std::vector<std::int64_t> next;
        const std::int64_t stride = call.size(target, axis + 1);
        next.reserve(found.size() * static_cast<std::size_t>(call.dim(array, axis)));
        for (const std::int64_t at : found)
            for (std::int64_t i = 0; i < call.dim(array, axis); i++)
                next.push_back(at + i * stride);
        found.swap(next);
    }
    return found;
}

} // namespace onegraph
