// The heap gives large blocks back to the system when they are freed, as the gradients of each step of training are. The
// next touch of each page then takes the system 2 us, which is a third of the step of a transformer. So freed blocks are
// kept for results of the same size, for some seconds, and new ones come in large pages.

#include "results.h"

#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <new>

#include "pages.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 // from Linux 5.14 on
#endif

namespace onegraph {
namespace {

constexpr std::size_t KEPT_BYTES = std::size_t {1} << 30;
constexpr std::size_t HELD_BYTES = std::size_t {64} << 20; // of them, whatever else needs memory
using Clock = std::chrono::steady_clock;
constexpr auto KEPT_TIME = std::chrono::seconds {10}; // until the next result is freed after that

std::size_t capacity_of(std::size_t size) {
    static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return rounded_up(size, page);
}

void *map(std::size_t capacity) {
    const std::size_t mapped = capacity + LARGE_PAGE;
    void *memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    const auto begin = reinterpret_cast<std::uintptr_t>(memory), start = rounded_up(begin, LARGE_PAGE);
    if (start > begin) munmap(memory, start - begin);
    munmap(reinterpret_cast<void *>(start + capacity), begin + mapped - start - capacity);
    const std::size_t whole = capacity / LARGE_PAGE * LARGE_PAGE;
    use_large_pages(reinterpret_cast<void *>(start), whole);
    if (whole < capacity) madvise(reinterpret_cast<void *>(start + whole), capacity - whole, MADV_POPULATE_WRITE);
    return reinterpret_cast<void *>(start);
}

// Blocks that were given back lately, the oldest first.
class Kept {
public:
    void *take(std::size_t capacity) {
        const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock); // a fork may have copied a locked mutex
        if (!lock) return nullptr;
        for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) {
            if (block->capacity != capacity) continue;
            void *memory = block->memory;
            bytes_ -= capacity;
            blocks_.erase(std::next(block).base());
            return memory;
        }
        return nullptr;
    }

    bool keep(void *memory, std::size_t capacity) {
        const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
        if (!lock || capacity > KEPT_BYTES) return false;
        const auto now = Clock::now();
        blocks_.push_back({memory, capacity, now});
        bytes_ += capacity;
        if (bytes_ > HELD_BYTES) madvise(memory, capacity, MADV_FREE); // the system takes the pages if memory is short
        while (bytes_ > KEPT_BYTES || now - blocks_.front().freed > KEPT_TIME)
            drop_oldest();
        return true;
    }

    void drop() {
        const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
        while (lock && !blocks_.empty())
            drop_oldest();
    }

private:
    struct Block {
        void *memory;
        std::size_t capacity;
        Clock::time_point freed;
    };

    void drop_oldest() {
        munmap(blocks_.front().memory, blocks_.front().capacity);
        bytes_ -= blocks_.front().capacity;
        blocks_.pop_front();
    }

    std::mutex mutex_;
    std::deque<Block> blocks_;
    std::size_t bytes_ = 0;
};

// Arrays are freed until the process ends, so it has no destructor.
Kept &kept() {
    static Kept *const found = new Kept;
    return *found;
}

} // namespace

void *take_result(std::size_t size) noexcept {
    const std::size_t capacity = capacity_of(size);
    try {
        if (void *memory = kept().take(capacity)) return memory;
    } catch (const std::bad_alloc &) {
        return nullptr;
    }
    return map(capacity);
}

void give_result(void *memory, std::size_t size) noexcept {
    const std::size_t capacity = capacity_of(size);
    try {
        if (kept().keep(memory, capacity)) return;
    } catch (const std::bad_alloc &) {
    }
    munmap(memory, capacity);
}

void drop_results() noexcept {
    try {
        kept().drop();
    } catch (const std::bad_alloc &) {
    }
}

} // namespace onegraph
