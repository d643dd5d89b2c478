// Shares the elements of one run among threads.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "openmp.h"

namespace onegraph {

constexpr std::size_t SHARE = 8192; // elements that are worth a thread

// Calls `compute(begin, end)` for all elements from 0 to `total`, on at most `threads` threads, which take pieces of a
// multiple of `unit` elements.
template <typename Compute>
void share(std::size_t total, int threads, std::size_t unit, const Compute &compute) {
    struct Shares {
        const Compute &compute;
        std::size_t total, piece;
        std::atomic<std::size_t> next {0};

        static void take(void *self) {
            Shares &shares = *static_cast<Shares *>(self);
            for (std::size_t begin; (begin = shares.next.fetch_add(shares.piece)) < shares.total;)
                shares.compute(begin, std::min(begin + shares.piece, shares.total));
        }
    };
    const std::size_t wanted = std::min(static_cast<std::size_t>(std::max(threads, 1)), total / SHARE);
    if (wanted < 2 || !openmp().parallel) return compute(0, total);
    Shares shares {compute, total, (total / (4 * wanted) / unit + 1) * unit};
    openmp().parallel(Shares::take, &shares, static_cast<unsigned>(wanted), 0);
}

} // namespace onegraph
