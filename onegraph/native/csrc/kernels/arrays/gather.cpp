// Gather, GatherElements and GatherND: elements and slices that indices name. NonZero: where elements are not 0.

#include "indexing.h"

namespace onegraph {
namespace {

// src, which may lie at any address, indices of s64; dst. Numbers: the axis.
void gather(const ArrayCall &call) {
    const auto axis = static_cast<int>(call.integer(0));
    const std::int64_t dim = call.dim(0, axis), outer = call.size(0, 0, axis), count = call.size(1);
    const auto row = static_cast<std::int64_t>(size_of_type(call.type(0))) * call.size(0, axis + 1);
    call.check(call.size(2) == outer * count * call.size(0, axis + 1));
    check_indices(call, 1, dim);
    const auto *indices = call.data<const std::int64_t>(1);
    std::vector<std::int64_t> places(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; i++)
        places[static_cast<std::size_t>(i)] = wrapped(indices[i], dim);
    with_size(call.type(0), [&](auto element) {
        using T = decltype(element);
        const auto size = static_cast<std::int64_t>(sizeof(T));
        if (row == size && outer >= call.threads)
            return divide(outer, count, call.threads, [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; i++) {
                    const char *source = call.data<const char>(0) + i * dim * size;
                    T *target = call.data<T>(2) + i * count;
                    for (std::int64_t k = 0; k < count; k++)
                        std::memcpy(target + k, source + places[static_cast<std::size_t>(k)] * size, sizeof(T));
                }
            });
        divide(outer * count, row / 4 + 1, call.threads, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; i++) {
                const std::int64_t at = i / count * dim + places[static_cast<std::size_t>(i % count)];
                if (row == size)
                    std::memcpy(call.data<T>(2) + i, call.data<const char>(0) + at * size, sizeof(T));
                else
                    std::memcpy(call.data<char>(2) + i * row, call.data<const char>(0) + at * row, static_cast<std::size_t>(row));
            }
        });
    });
}

// src, indices of s64; dst of the shape of the indices. Numbers: the axis.
void gather_elements(const ArrayCall &call) {
    const auto axis = static_cast<int>(call.integer(0));
    const std::int64_t dim = call.dim(0, axis), stride = call.size(0, axis + 1), count = call.dim(1, axis);
    check_inside(call, 1, 0, axis);
    call.check(call.size(2) == call.size(1));
    const auto outer = places(call, 1, 0, 0, axis), inner = places(call, 1, 0, axis + 1, call.rank(1));
    const auto n_outer = static_cast<std::int64_t>(outer.size()), n_inner = static_cast<std::int64_t>(inner.size());
    check_indices(call, 1, dim);
    const auto *indices = call.data<const std::int64_t>(1);
    with_size(call.type(0), [&](auto element) {
        using T = decltype(element);
        if (n_inner == 1)
            return divide(n_outer, count, call.threads, [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t row = begin; row < end; row++) {
                    const T *source = call.data<const T>(0) + outer[static_cast<std::size_t>(row)];
                    const auto *own = indices + row * count;
                    T *target = call.data<T>(2) + row * count;
                    for (std::int64_t k = 0; k < count; k++)
                        target[k] = source[wrapped(own[k], dim) * stride];
                }
            });
        divide(n_outer * count, n_inner, call.threads, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; row++) {
                const T *source = call.data<const T>(0) + outer[static_cast<std::size_t>(row / count)];
                for (std::int64_t k = 0, i = row * n_inner; k < n_inner; k++, i++)
                    call.data<T>(2)[i] = source[wrapped(indices[i], dim) * stride + inner[static_cast<std::size_t>(k)]];
            }
        });
    });
}

// src, indices of s64; dst. Numbers: the axes of a batch.
void gather_nd(const ArrayCall &call) {
    const auto batch = static_cast<int>(call.integer(0));
    const auto at = slices(call, 1, 0, batch);
    const auto element = static_cast<std::int64_t>(size_of_type(call.type(0)));
    const std::int64_t row = element * call.size(0, batch + static_cast<int>(call.dim(1, call.rank(1) - 1)));
    call.check(call.size(2) * element == static_cast<std::int64_t>(at.size()) * row);
    with_size(call.type(0), [&](auto zero) {
        using T = decltype(zero);
        divide(static_cast<std::int64_t>(at.size()), row / 4 + 1, call.threads, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; i++) {
                const T *source = call.data<const T>(0) + at[static_cast<std::size_t>(i)];
                if (row == element)
                    call.data<T>(2)[i] = *source;
                else
                    std::memcpy(call.data<char>(2) + i * row, source, static_cast<std::size_t>(row));
            }
        });
    });
}

constexpr std::int64_t PART = 4096; // elements whose number is counted before

// src; the number of elements other than 0 in each part of PART, which the caller sums up to begins; the indices (rank,
// all), in a second call that has them.
void non_zero(const ArrayCall &call) {
    const std::int64_t size = call.size(0), parts = call.size(1);
    const int rank = call.rank(0);
    with_type(call.type(0), [&](auto zero) {
        using T = decltype(zero);
        const T *source = call.data<const T>(0);
        auto *begins = call.data<std::int64_t>(1);
        divide(parts, PART, call.threads, [&](std::int64_t first, std::int64_t last) {
            for (std::int64_t part = first; part < last; part++) {
                const std::int64_t begin = part * PART, end = std::min(begin + PART, size);
                if (!call.has(2)) {
                    std::int32_t count = 0;
                    with_vectors([&]() ONEGRAPH_VECTORS {
                        for (std::int64_t i = begin; i < end; i++)
                            count += source[i] != 0;
                    });
                    begins[part] = count;
                    continue;
                }
                const std::int64_t all = call.dim(2, 1);
                auto *indices = call.data<std::int64_t>(2) + begins[part];
                for (std::int64_t i = begin; i < end; i++) {
                    if (source[i] == 0) continue;
                    std::int64_t rest = i;
                    for (int axis = rank; axis-- > 1; rest /= call.dim(0, axis))
                        indices[axis * all] = rest % call.dim(0, axis);
                    indices[0] = rest;
                    indices++;
                }
            }
        });
    });
}

const NamedKernel of_rows("Gather", gather);
const NamedKernel of_elements("GatherElements", gather_elements);
const NamedKernel of_tuples("GatherND", gather_nd);
const NamedKernel of_places("NonZero", non_zero);

} // namespace
} // namespace onegraph
