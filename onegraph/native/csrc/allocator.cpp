// Host memory for the library's scratch: aligned to a cache line. The thread that frees a block keeps it, so the next
// execution needs no system call and no fresh pages.

#include "allocator.h"

#include <dlfcn.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "pages.h"
#include "results.h"

namespace {
using onegraph::rounded_up, onegraph::use_large_pages;

constexpr std::size_t cache_line = 64;
constexpr std::size_t kept_blocks = 16;
constexpr std::size_t kept_bytes = std::size_t {512} << 20; // maximum for one thread
constexpr std::size_t large_block = std::size_t {16} << 20; // a smaller one is in a cache when it is used again
constexpr std::size_t readable_bytes = std::size_t {8} << 30; // behind a block for constants; takes no memory
std::atomic<std::size_t> live {0}, prepared_bytes {0}, prepared_blocks {0}, n_flushes {1};

// Precedes each block, in its own cache line.
struct Header {
    void *memory; // NULL for memory that is lent
    std::size_t capacity;
    std::size_t mapped; // bytes of the mapping that holds the block; 0 for memory of the heap
};

Header *header(void *pointer) {
    return reinterpret_cast<Header *>(static_cast<char *>(pointer) - cache_line);
}

// Set when the cache of an ending thread is destroyed, because blocks may be freed even later. A bool has no
// destructor, so it can still be read then.
thread_local bool closed = false;
thread_local int in_order = 0;
thread_local bool temporary = false; // whether all that is allocated is freed soon
thread_local char *room = nullptr, *room_end = nullptr; // what is left of the memory that is lent
thread_local int lent_blocks = 0;
// Of the current Preparation: how many there are, the bytes and the number of blocks, and whether none was asked for.
thread_local int preparations = 0;
thread_local std::ptrdiff_t gained_bytes = 0, gained_blocks = 0;
thread_local bool asked_for_none = false;

struct Cache {
    void *blocks[kept_blocks];
    std::size_t count = 0, bytes = 0;

    ~Cache() {
        closed = true;
        while (count)
            std::free(header(blocks[--count])->memory);
    }

    // The smallest block with at least `size` bytes; nullptr if there is none. What may stay for long gets at most about
    // twice as many bytes.
    void *take(std::size_t size, bool is_temporary) {
        std::size_t best = count;
        for (std::size_t i = 0; i < count; i++) {
            const std::size_t capacity = header(blocks[i])->capacity;
            if (capacity < size || (!is_temporary && capacity / 2 > size)) continue;
            if (best == count || capacity < header(blocks[best])->capacity) best = i;
        }
        if (best == count) return nullptr;
        void *found = blocks[best];
        blocks[best] = blocks[--count];
        bytes -= header(found)->capacity;
        return found;
    }

    bool has_room(void *pointer) const {
        return count < kept_blocks && bytes + header(pointer)->capacity <= kept_bytes;
    }

    bool keep(void *pointer) {
        const std::size_t capacity = header(pointer)->capacity;
        if (capacity > kept_bytes) return false;
        // Drop the oldest blocks: a block that every execution needs was freed recently.
        while (!has_room(pointer)) {
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

// A block in a mapping of its own: a page for the header, the block, and memory that can only be read.
void *map_block(std::size_t size) {
    static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    if (size > SIZE_MAX / 2) throw std::bad_alloc();
    const std::size_t capacity = rounded_up(size, page), mapped = page + capacity + readable_bytes;
    void *memory = mmap(nullptr, mapped, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    if (mprotect(memory, page + capacity, PROT_READ | PROT_WRITE)) {
        munmap(memory, mapped);
        throw std::bad_alloc();
    }
    use_large_pages(memory, page + capacity);
    void *pointer = static_cast<char *>(memory) + page;
    *header(pointer) = {memory, capacity, mapped};
    prepared_bytes += capacity, prepared_blocks++;
    return pointer;
}

// A block in the room that is lent to the execution; nullptr if there is not enough.
void *room_block(std::size_t size) {
    const std::size_t left = static_cast<std::size_t>(room_end - room);
    if (size < large_block || left < cache_line || size > (left - cache_line) / cache_line * cache_line) return nullptr;
    void *pointer = room + cache_line;
    *header(pointer) = {nullptr, rounded_up(size, cache_line), 0};
    room += cache_line + header(pointer)->capacity;
    lent_blocks++;
    return pointer;
}

void *heap_block(std::size_t size, std::size_t alignment, bool is_temporary) {
    const bool ordinary = alignment <= cache_line;
    void *pointer = ordinary && is_temporary ? room_block(size) : nullptr;
    if (!pointer && ordinary && !closed) pointer = cache.take(size, is_temporary);
    if (pointer) return pointer;
    if (ordinary) alignment = cache_line;
    if (size > SIZE_MAX - 3 * alignment) throw std::bad_alloc();
    // aligned_alloc needs a size that is a multiple of the alignment, which is a power of two.
    const std::size_t capacity = rounded_up(size, alignment);
    void *memory = std::aligned_alloc(alignment, capacity + alignment);
    if (!memory) throw std::bad_alloc();
    use_large_pages(memory, capacity + alignment);
    pointer = static_cast<char *>(memory) + alignment;
    *header(pointer) = {memory, capacity, 0};
    return pointer;
}

// Frees a block. `settle` is called before memory is given back that a kernel may still use.
template <typename Settle>
void release(void *pointer, Settle settle) {
    live.fetch_sub(1, std::memory_order_relaxed);
    const Header found = *header(pointer);
    if (preparations) gained_bytes -= static_cast<std::ptrdiff_t>(found.capacity), gained_blocks--;
    if (!found.memory) {
        lent_blocks--;
        return;
    }
    if (found.mapped) {
        settle();
        prepared_bytes -= found.capacity, prepared_blocks--;
        munmap(found.memory, found.mapped);
        return;
    }
    if (closed || !in_order || !cache.has_room(pointer)) settle();
    if (closed || !cache.keep(pointer)) std::free(found.memory);
}

// A function of the library, or of a library that it is linked to; null if there is none of this name.
template <typename Function>
Function find(const char *name) {
    Dl_info info;
    if (!dladdr(reinterpret_cast<void *>(&dnnl_version), &info)) return nullptr;
    void *library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    return library ? reinterpret_cast<Function>(dlsym(library, name)) : nullptr;
}

void *sycl_allocate(std::size_t size, std::size_t alignment, const void *, const void *) {
    return onegraph_host_allocate(size, alignment);
}

// sycl::event::wait, which has no C name.
void (*wait_for)(void *event) = nullptr;

void sycl_deallocate(void *pointer, const void *, const void *, void *event) {
    if (pointer) release(pointer, [&] { if (event) wait_for(event); });
}

dnnl_status_t flush() {
    n_flushes++;
    dnnl_status_t status = dnnl_graph_set_constant_tensor_cache(0);
    const dnnl_status_t second = dnnl_graph_set_constant_tensor_cache(1);
    return status ? status : second;
}
} // namespace

// No other thread may be in the library: a kernel may use constants of the cache.
template <>
struct onegraph::Meanwhile<&flush> : onegraph::Alone {};

namespace onegraph {
Preparation::Preparation() noexcept {
    if (preparations++ == 0) gained_bytes = gained_blocks = 0, asked_for_none = false;
}

Preparation::~Preparation() {
    preparations--;
}

std::ptrdiff_t Preparation::kept() const {
    return gained_blocks > 0 ? gained_bytes : asked_for_none ? 0 : -1;
}

InOrder::InOrder() noexcept {
    in_order++;
}

InOrder::~InOrder() {
    in_order--;
}

Scratch::Scratch(void *lent, std::size_t size) noexcept {
    const auto begin = reinterpret_cast<std::uintptr_t>(lent), start = rounded_up(begin, cache_line);
    temporary = true, lent_blocks = 0;
    room = static_cast<char *>(lent) + (start - begin);
    room_end = start - begin < size ? static_cast<char *>(lent) + size : room;
}

Scratch::~Scratch() {
    temporary = false;
    room = room_end = nullptr;
}

bool Scratch::is_in_use() const {
    return lent_blocks != 0;
}

std::size_t flushes() {
    return n_flushes.load();
}
} // namespace onegraph

extern "C" {
void *onegraph_host_allocate(std::size_t size, std::size_t alignment) {
    // The library does not check for NULL and would write to it. The guard turns bad_alloc into out_of_memory.
    if (size == 0) asked_for_none = true; // and keeps it, as the constants of a partition without constants
    const std::size_t least = size ? size : 1;
    void *pointer = preparations && size ? map_block(least) : heap_block(least, alignment, temporary && size);
    if (preparations) gained_bytes += static_cast<std::ptrdiff_t>(header(pointer)->capacity), gained_blocks++;
    live.fetch_add(1, std::memory_order_relaxed);
    return pointer;
}

void onegraph_host_deallocate(void *pointer) {
    if (pointer) release(pointer, [] {});
}

void onegraph_trim(void) {
    onegraph::drop_results();
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
}

std::size_t onegraph_host_allocations(void) {
    return live.load(std::memory_order_relaxed);
}

int onegraph_allocator_create(dnnl_graph_allocator_t *allocator) {
    const onegraph::Inside inside;
    return onegraph::guarded([&] {
        if (dnnl_version()->cpu_runtime != DNNL_RUNTIME_SYCL)
            return dnnl_graph_allocator_create(allocator, onegraph_host_allocate, onegraph_host_deallocate);
        using Create = dnnl_status_t (*)(dnnl_graph_allocator_t *, decltype(&sycl_allocate), decltype(&sycl_deallocate));
        const auto create = find<Create>("dnnl_graph_sycl_interop_allocator_create");
        wait_for = find<decltype(wait_for)>("_ZN4sycl3_V15event4waitEv");
        return create && wait_for ? create(allocator, sycl_allocate, sycl_deallocate) : dnnl_unimplemented;
    });
}

int onegraph_can_prepare(void) {
    const onegraph::Inside inside;
    return onegraph::guarded([] {
        void *block = map_block(1);
        live++;
        release(block, [] {});
        return dnnl_success;
    });
}

int onegraph_flush_constants(void) {
    return onegraph::guard<&flush>();
}

void onegraph_prepared(size_t *bytes, size_t *blocks) {
    *bytes = prepared_bytes, *blocks = prepared_blocks;
}
}
