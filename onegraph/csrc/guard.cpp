#include "guard.h"

#include <cxxabi.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <shared_mutex>

extern "C" void *__dso_handle __attribute__((visibility("hidden")));

namespace {
thread_local char what_text[512] = "";
bool forked = false; // set in a child of one thread
std::atomic<int> inside {0}, forking {0}; // threads in the library, and those that are about to fork
constexpr useconds_t nap = 20; // microseconds
std::mutex ending; // held by a thread that ends, or destroys a kernel
std::shared_mutex cache; // held alone by who changes the capacity of the cache of compiled partitions
thread_local std::uint64_t executions = 0;
thread_local bool has_begun_to_end = false;

// Called when a thread ends, before the library frees what it has for the thread.
void ends(void *) {
    if (has_begun_to_end) return;
    has_begun_to_end = true;
    onegraph::enter();
    ending.lock();
}

// Called after that.
void has_ended(void *) {
    if (!has_begun_to_end) return;
    ending.unlock();
    onegraph::leave();
}
} // namespace

namespace onegraph {
void keep_what(const char *text) noexcept {
    std::snprintf(what_text, sizeof what_text, "%s", text);
}

bool threads_are_lost() noexcept {
    return forked;
}
void enter() noexcept {
    while (true) {
        inside.fetch_add(1);
        if (!forking.load()) return;
        inside.fetch_sub(1);
        while (forking.load())
            usleep(nap);
    }
}

void leave() noexcept {
    inside.fetch_sub(1);
}

Execution::Execution() noexcept {
    if (executions == 0) abi::__cxa_thread_atexit(has_ended, nullptr, &__dso_handle);
}

Execution::~Execution() {
    // What is registered last is called first: before all that the library had for the thread until now. It may have more
    // after a later execution of another kind of kernel, so this is done again, ever more seldom.
    if ((executions & (executions + 1)) == 0) abi::__cxa_thread_atexit(ends, nullptr, &__dso_handle);
    executions++;
}

Destruction::Destruction() noexcept {
    ending.lock();
}

Destruction::~Destruction() {
    ending.unlock();
}

Uncached::Uncached() {
    cache.lock_shared();
    dnnl_graph_get_compiled_partition_cache_capacity(&capacity_);
    if (capacity_ == 0) return;
    cache.unlock_shared();
    cache.lock();
    alone_ = true;
    dnnl_graph_get_compiled_partition_cache_capacity(&capacity_);
    const Destruction destruction;
    dnnl_graph_set_compiled_partition_cache_capacity(0);
}

Uncached::~Uncached() {
    if (alone_) {
        dnnl_graph_set_compiled_partition_cache_capacity(capacity_);
        cache.unlock();
    } else {
        cache.unlock_shared();
    }
}

CacheRead::CacheRead() noexcept {
    cache.lock_shared();
}

CacheRead::~CacheRead() {
    cache.unlock_shared();
}

CacheChange::CacheChange() noexcept {
    cache.lock();
    ending.lock();
}

CacheChange::~CacheChange() {
    ending.unlock();
    cache.unlock();
}
} // namespace onegraph

extern "C" void onegraph_before_fork(void) {
    forking.fetch_add(1);
    while (inside.load())
        usleep(nap);
}

extern "C" void onegraph_after_fork(int in_child) {
    if (in_child)
        forking = 0, inside = 0;
    else
        forking.fetch_sub(1);
}

extern "C" void onegraph_lose_threads(void) {
    forked = true;
}

extern "C" const char *onegraph_what(void) {
    // Reading empties it, so that a later failure without an exception is not given this text.
    thread_local char last[sizeof what_text];
    std::snprintf(last, sizeof last, "%s", what_text);
    what_text[0] = '\0';
    return last;
}
