// Tells whether memory has changed: by its digest, but for pages of which the system knows that nobody wrote to them.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "memory_digest.h"
#include "guard.h"
#include "kernels/shares.h"
#include "page_writes.h"

using onegraph::Digest;
using onegraph::PageWrites;

namespace {
const pid_t loader = getpid(); // the child of a fork has no threads beside its first
}

struct onegraph_watch {
    static constexpr std::size_t PIECE = std::size_t {1} << 20; // bytes that a thread reads at once

    struct Piece {
        const char *begin;
        std::size_t size;
        const PageWrites *pages; // null if the system does not watch them
        Digest digest;
        bool differs = false; // at the last reading
    };

    std::mutex mutex; // a thread that finds no marks must wait for the one that took them
    std::vector<std::unique_ptr<PageWrites>> pages;
    std::vector<Piece> pieces;

    void add(const char *begin, const char *end, const PageWrites *watched) {
        for (; begin < end; begin += PIECE)
            pieces.push_back({begin, std::min(PIECE, static_cast<std::size_t>(end - begin)), watched, {}, false});
    }

    // Notes the contents. Writes from now on are changes.
    void note(std::size_t count, void *const *addresses, const std::size_t *sizes, int threads) {
        const onegraph::Extents alone = onegraph::memory_of_this_process();
        for (std::size_t i = 0; i < count; i++) {
            const char *const begin = static_cast<const char *>(addresses[i]), *const end = begin + sizes[i];
            const auto address = reinterpret_cast<std::uintptr_t>(begin);
            auto watched = std::make_unique<PageWrites>(address, address + sizes[i], alone);
            if (!watched->is_watched()) {
                add(begin, end, nullptr);
                continue;
            }
            const char *const first = begin + (watched->begin() - address), *const last = begin + (watched->end() - address);
            add(begin, first, nullptr);
            add(first, last, watched.get());
            add(last, end, nullptr);
            pages.push_back(std::move(watched));
        }
        for_each(threads, [](const Piece &) { return true; }, [](Piece &piece) {
            piece.digest = onegraph::digest(piece.begin, piece.size);
        });
    }

    // Calls `body` for some of the pieces.
    template <typename Chosen, typename Body>
    void for_each(int threads, const Chosen &is_chosen, const Body &body) {
        std::vector<Piece *> chosen;
        std::size_t size = 0;
        for (Piece &piece : pieces)
            if (is_chosen(piece)) chosen.push_back(&piece), size += piece.size;
        if (size <= PIECE || loader != getpid()) threads = 1;
        std::atomic<std::size_t> next {0};
        onegraph::together(threads, [&](std::size_t) {
            for (std::size_t at; (at = next.fetch_add(1)) < chosen.size();)
                body(*chosen[at]);
        });
    }

    bool is_changed(int threads) {
        const std::lock_guard<std::mutex> lock(mutex);
        std::vector<const PageWrites *> written;
        for (const auto &one : pages)
            if (one->take_writes()) written.push_back(one.get());
        for_each(threads, [&](const Piece &piece) {
            if (!piece.pages || piece.differs) return true;
            return std::find(written.begin(), written.end(), piece.pages) != written.end();
        }, [](Piece &piece) { piece.differs = onegraph::digest(piece.begin, piece.size) != piece.digest; });
        return std::any_of(pieces.begin(), pieces.end(), [](const Piece &piece) { return piece.differs; });
    }
};

extern "C" {

int onegraph_watch_create(onegraph_watch **watch, size_t count, void *const *addresses, const size_t *sizes, int threads) {
    const onegraph::Inside inside;
    return onegraph::guarded([&] {
        auto made = std::make_unique<onegraph_watch>();
        made->note(count, addresses, sizes, threads);
        *watch = made.release();
        return dnnl_success;
    });
}

void onegraph_watch_destroy(onegraph_watch *watch) {
    delete watch;
}

int onegraph_watch_changed(uintptr_t watch, int threads) {
    const onegraph::Inside inside;
    bool is_changed = true; // also without the memory that it takes to know
    onegraph::guarded([&] {
        is_changed = reinterpret_cast<onegraph_watch *>(watch)->is_changed(threads);
        return dnnl_success;
    });
    return is_changed;
}

size_t onegraph_watch_bytes(const onegraph_watch *watch) {
    std::size_t size = 0;
    for (const auto &piece : watch->pieces)
        size += !piece.pages || !piece.pages->is_watched() ? piece.size : 0;
    return size;
}

} // extern "C"
