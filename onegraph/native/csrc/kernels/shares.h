// Shares the elements of one run among threads.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "openmp.h"

namespace onegraph {

constexpr std::size_t SHARE = 8192; // elements that are worth a thread

// Calls `body(thread)` on `threads` threads at once, which are counted from 0.
template <typename Body>
void together(int threads, const Body &body) {
    struct Team {
        const Body &body;
        std::atomic<std::size_t> arrived {0};

        static void join(void *self) {
            Team &team = *static_cast<Team *>(self);
            team.body(team.arrived++);
        }
    };
    if (threads < 2 || !openmp().parallel) return body(0);
    Team team {body};
    openmp().parallel(Team::join, &team, static_cast<unsigned>(threads), 0);
}

// Calls `compute(begin, end)` for all elements from 0 to `total`, on at most `threads` threads, which take pieces of a
// multiple of `unit` elements.
template <typename Compute>
void share(std::size_t total, int threads, std::size_t unit, const Compute &compute) {
    const std::size_t wanted = std::min(static_cast<std::size_t>(std::max(threads, 1)), total / SHARE);
    if (wanted < 2 || !openmp().parallel) return compute(0, total);
    const std::size_t piece = (total / (4 * wanted) / unit + 1) * unit;
    std::atomic<std::size_t> next {0};
    together(static_cast<int>(wanted), [&](std::size_t) {
        for (std::size_t begin; (begin = next.fetch_add(piece)) < total;)
            compute(begin, std::min(begin + piece, total));
    });
}

} // namespace onegraph
