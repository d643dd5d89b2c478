#include <atomic>
#include <cstdlib>

#include "guard.h"

namespace {
constexpr std::size_t cache_line = 64;
std::atomic<std::size_t> live {0};
} // namespace

extern "C" void *onegraph_host_allocate(std::size_t size, std::size_t alignment) {
    if (alignment < cache_line) alignment = cache_line;
    if (size > SIZE_MAX - alignment) throw std::bad_alloc();
    // aligned_alloc wants a size that is a multiple of the alignment, which is a power of two.
    const std::size_t rounded = (size + alignment - 1) & ~(alignment - 1);
    void *pointer = std::aligned_alloc(alignment, rounded ? rounded : alignment);
    // The library does not look for NULL here: it would write to it. The guard makes this out_of_memory.
    if (!pointer) throw std::bad_alloc();
    live.fetch_add(1, std::memory_order_relaxed);
    return pointer;
}

extern "C" void onegraph_host_deallocate(void *pointer) {
    if (!pointer) return;
    live.fetch_sub(1, std::memory_order_relaxed);
    std::free(pointer);
}

extern "C" std::size_t onegraph_host_allocations(void) {
    return live.load(std::memory_order_relaxed);
}
