// Host memory for the library's scratch: aligned to a cache line. The thread that frees a block keeps it, so the next
// execution needs no system call and no fresh pages.

#include <atomic>
#include <cstdlib>

#include "guard.h"

namespace {
constexpr std::size_t cache_line = 64;
constexpr std::size_t kept_blocks = 16;
constexpr std::size_t kept_bytes = std::size_t {256} << 20; // maximum for one thread
std::atomic<std::size_t> live {0};

// Precedes each block, in its own cache line.
struct Header {
    void *memory;
    std::size_t capacity;
};

Header *header(void *pointer) {
    return reinterpret_cast<Header *>(static_cast<char *>(pointer) - cache_line);
}

// Set when the cache of an ending thread is destroyed, because blocks may be freed even later. A bool has no
// destructor, so it can still be read then.
thread_local bool closed = false;

struct Cache {
    void *blocks[kept_blocks];
    std::size_t count = 0, bytes = 0;

    ~Cache() {
        closed = true;
        while (count)
            std::free(header(blocks[--count])->memory);
    }

    // The smallest block with at least `size` bytes, and at most about twice as many; nullptr if there is none.
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
        // Drop the oldest blocks: a block that every execution needs was freed recently.
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
        // The library does not check for NULL and would write to it. The guard turns bad_alloc into out_of_memory.
        if (size > SIZE_MAX - 3 * alignment) throw std::bad_alloc();
        // aligned_alloc needs a size that is a multiple of the alignment, which is a power of two.
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
