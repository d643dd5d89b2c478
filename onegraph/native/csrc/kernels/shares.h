// Shares the elements of one run among threads.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "openmp.h"

namespace onegraph {

constexpr std::size_t SHARE = 8192; // elements that are worth a thread
constexpr std::size_t MOST_SHARES = 512; // more threads take no part, so that a kernel needs no memory that may lack

// Calls `body(thread)` on at most `threads` threads at once. A thread has the same number, from 0 on, in every call.
template <typename Body>
void together(int threads, const Body &body) {
    struct Team {
        const Body &body;

        static void join(void *self) {
            static_cast<Team *>(self)->body(static_cast<std::size_t>(openmp().number()));
        }
    };
    if (threads < 2 || !openmp().parallel) return body(0);
    Team team {body};
    openmp().parallel(Team::join, &team, static_cast<unsigned>(threads), 0);
}

// Calls `compute(begin, end)` for all elements from 0 to `total`, on at most `threads` threads, which take pieces of a
// multiple of `unit` elements. A thread begins with its own part, which lies in its cache if the step before divided the
// tensor in the same way, and then takes what is left of the others' parts.
template <typename Compute>
void share(std::size_t total, int threads, std::size_t unit, const Compute &compute) {
    const std::size_t wanted = std::min({static_cast<std::size_t>(std::max(threads, 1)), total / SHARE, MOST_SHARES});
    if (wanted < 2 || !openmp().parallel) return compute(0, total);
    const std::size_t piece = (total / (4 * wanted) / unit + 1) * unit, count = (total - 1) / piece + 1;
    const auto first = [&](std::size_t part) { return part * count / wanted; };
    std::atomic<std::size_t> next[MOST_SHARES];
    for (std::size_t part = 0; part < wanted; part++)
        next[part] = first(part);
    together(static_cast<int>(wanted), [&](std::size_t thread) {
        for (std::size_t i = 0; i < wanted; i++) {
            const std::size_t part = (thread + i) % wanted;
            for (std::size_t at; (at = next[part].fetch_add(1)) < first(part + 1);)
                compute(at * piece, std::min((at + 1) * piece, total));
        }
    });
}

} // namespace onegraph
