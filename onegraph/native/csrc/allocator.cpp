// Host memory for the library's scratch: aligned to a cache line, and kept by the thread that frees it, so that the
// next execution neither asks the system nor pays for fresh pages.

#include <atomic>
#include <cstdlib>

#include "guard.h"

namespace {
constexpr std::size_t cache_line = 64;
constexpr std::size_t kept_blocks = 16;
constexpr std::size_t kept_bytes = std::size_t {256} << 20; // by one thread at most
std::atomic<std::size_t> live {0};

// Stands before each block, in a cache line of its own.
struct Header {
    void *memory;
    std::size_t capacity;
};

Header *header(void *pointer) {
    return reinterpret_cast<Header *>(static_cast<char *>(pointer) - cache_line);
}

// At the end of a thread blocks may still be freed after its cache is gone. Has no destructor, so it can be read then.
thread_local bool closed = false;

struct Cache {
    void *blocks[kept_blocks];
    std::size_t count = 0, bytes = 0;

    ~Cache() {
        closed = true;
        while (count)
            std::free(header(blocks[--count])->memory);
    }

    // The smallest block that holds `size` bytes and is not much larger; nullptr where there is none.
    void *take(std::size_t size) {
        std::size_t best = count;
        for (std::size_t i = 0; i < count; i++) {
            const std::size_t capacity = header(blocks[i])->capacity;
            if (capacity < size || capacity / 2 > size) continue;
            if (best == count || capacity < header(blocks[best])->capacity) best = i;
        }
        if (best == count) return nullptr;
        void *found = blocks[best];
        blocks[best] = blocks[--count];
        bytes -= header(found)->capacity;
        return found;
    }

    bool keep(void *pointer) {
        const std::size_t capacity = header(pointer)->capacity;
        if (capacity > kept_bytes) return false;
        // The oldest make room: what is asked for in every execution comes back soonest.
        while (count == kept_blocks || bytes + capacity > kept_bytes) {
            bytes -= header(blocks[0])->capacity;
            std::free(header(blocks[0])->memory);
            count--;
            for (std::size_t i = 0; i < count; i++)
                blocks[i] = blocks[i + 1];
        }
        blocks[count++] = pointer;
        bytes += capacity;
        return true;
    }
};

thread_local Cache cache;
} // namespace

extern "C" void *onegraph_host_allocate(std::size_t size, std::size_t alignment) {
    if (size == 0) size = 1;
    const bool ordinary = alignment <= cache_line;
    void *pointer = ordinary && !closed ? cache.take(size) : nullptr;
    if (!pointer) {
        if (ordinary) alignment = cache_line;
        // The library does not look for NULL here: it would write to it. The guard makes this out_of_memory.
        if (size > SIZE_MAX - 3 * alignment) throw std::bad_alloc();
        // aligned_alloc wants a size that is a multiple of the alignment, which is a power of two.
        const std::size_t capacity = (size + alignment - 1) & ~(alignment - 1);
        void *memory = std::aligned_alloc(alignment, capacity + alignment);
        if (!memory) throw std::bad_alloc();
        pointer = static_cast<char *>(memory) + alignment;
        *header(pointer) = {memory, capacity};
    }
    live.fetch_add(1, std::memory_order_relaxed);
    return pointer;
}

extern "C" void onegraph_host_deallocate(void *pointer) {
    if (!pointer) return;
    live.fetch_sub(1, std::memory_order_relaxed);
    if (closed || !cache.keep(pointer)) std::free(header(pointer)->memory);
}

extern "C" std::size_t onegraph_host_allocations(void) {
    return live.load(std::memory_order_relaxed);
}
