// Blocks of memory for the intermediates of runs, which the plans of many programs share.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "pages.h"

// The blocks that no run uses. No lock: a fork copies it at any moment, and a block that is in use then is only lost.
struct onegraph_arenas {
    static constexpr std::size_t MOST = 8, ALIGNMENT = 64;

    struct Block {
        std::size_t size;
        char *memory() { return reinterpret_cast<char *>(this) + ALIGNMENT; }
    };

    ~onegraph_arenas() {
        for (auto &place : free_)
            std::free(place.load());
    }

    // A block of at least `size` bytes; NULL without memory. A smaller one gives way, so that few large ones are kept.
    Block *take(std::size_t size) {
        for (auto &place : free_) {
            Block *block = place.exchange(nullptr, std::memory_order_acq_rel);
            if (block && block->size >= size) return block;
            std::free(block);
        }
        const std::size_t whole = (size + 2 * ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        auto *made = static_cast<Block *>(std::aligned_alloc(ALIGNMENT, whole));
        if (!made) return nullptr;
        onegraph::use_large_pages(made, whole);
        made->size = whole - ALIGNMENT;
        return made;
    }

    void give(Block *block) {
        for (auto &place : free_) {
            Block *empty = nullptr;
            if (place.compare_exchange_strong(empty, block, std::memory_order_acq_rel)) return;
        }
        std::free(block);
    }

private:
    std::array<std::atomic<Block *>, MOST> free_ {};
};

namespace onegraph {

// A block in use.
class Arena {
public:
    Arena(onegraph_arenas &arenas, std::size_t size) : arenas_(arenas), block_(arenas.take(size)) {}
    ~Arena() {
        if (block_) arenas_.give(block_);
    }
    Arena(const Arena &) = delete;
    Arena &operator=(const Arena &) = delete;

    char *memory() const { return block_ ? block_->memory() : nullptr; }

private:
    onegraph_arenas &arenas_;
    onegraph_arenas::Block *block_;
};

} // namespace onegraph
