#include "guard.h"

#include <cxxabi.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <shared_mutex>

extern "C" void *__dso_handle __attribute__((visibility("hidden")));

namespace {
thread_local char what_text[512] = "";
bool forked = false; // set in the child of a fork, which has one thread
std::atomic<int> inside {0}; // threads in the library
std::atomic<int> forking {0}; // threads about to fork
std::atomic<int> closed {0}; // threads that fork now, or are Alone
thread_local int depth = 0; // how often this thread has entered the library
thread_local int passes = 0; // number of reasons why this thread does not wait for forks
constexpr useconds_t nap = 20; // microseconds
// A waiting thread may hold a lock of Python that another fork handler waits for. After this many naps with no thread
// in the library, the waiting threads continue until the fork itself.
constexpr int patience = 5000;
std::atomic<int> naps {0};
std::mutex ending; // held by a thread that ends, and by a thread that may destroy kernels
std::shared_mutex cache; // of compiled partitions: shared by compilations, exclusive for a change of its capacity
thread_local std::uint64_t executions = 0;
thread_local bool has_begun_to_end = false;

// Called when a thread ends, before the library frees its memory for the thread.
void ends(void *) {
    if (has_begun_to_end) return;
    has_begun_to_end = true;
    onegraph::enter();
    ending.lock();
}

// Called when a thread ends, after the library has freed its memory for the thread.
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
        if (depth || passes || !(closed.load() || (forking.load() && naps.load() < patience))) break;
        if (inside.fetch_sub(1) == 1) naps.fetch_add(1);
        usleep(nap);
    }
    depth++;
}

void leave() noexcept {
    depth--;
    inside.fetch_sub(1);
}

void pass() noexcept {
    passes++;
}

Alone::Alone() noexcept {
    leave(); // otherwise two threads that want to be alone would wait for each other
    for (int nobody = 0; !closed.compare_exchange_weak(nobody, 1); nobody = 0)
        usleep(nap);
    while (true) {
        inside.fetch_add(1);
        if (closed.load() == 1 && inside.load() == depth + 1) break; // and no thread forks
        inside.fetch_sub(1);
        usleep(nap);
    }
    depth++;
}

Alone::~Alone() {
    closed.fetch_sub(1);
}

Execution::Execution() noexcept {
    if (executions == 0) abi::__cxa_thread_atexit(has_ended, nullptr, &__dso_handle);
}

Execution::~Execution() {
    // The handler that is registered last is called first, before the library frees the memory that it has for the
    // thread now. Another kind of kernel may add memory later, so `ends` is registered again, after 1, 2, 4, 8, ...
    // executions.
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

Compilation::Compilation() noexcept {
    cache.lock_shared();
    dnnl_graph_get_compiled_partition_cache_capacity(&capacity_);
    if (capacity_) ending.lock();
}

Compilation::~Compilation() {
    if (capacity_) ending.unlock();
    cache.unlock_shared();
}
} // namespace onegraph

namespace {
void close() {
    closed.fetch_add(1);
    while (inside.load() > depth)
        usleep(nap);
}

void open() {
    closed.fetch_sub(1);
}

void open_in_child() {
    closed = 0, inside = depth;
}

// No Python code runs between these handlers and the fork. They hold the interpreter while they wait, so
// onegraph_before_fork, which does not hold it, waits first and leaves almost nothing to wait for.
[[maybe_unused]] const int handled = pthread_atfork(close, open, open_in_child);
} // namespace

extern "C" void onegraph_before_fork(void) {
    onegraph::pass(); // other handlers may run the garbage collector, and its destructors enter the library
    naps = 0;
    forking.fetch_add(1);
    while (inside.load() > depth)
        usleep(nap);
}

extern "C" void onegraph_after_fork(int in_child) {
    if (in_child)
        forking = 0, passes = 0;
    else if (passes > 0) // it is 0 if another handler forked too
        forking.fetch_sub(1), passes--;
}

extern "C" int onegraph_engine_count(dnnl_engine_kind_t kind, size_t *count) {
    const onegraph::Inside inside;
    return onegraph::guarded([&] {
        *count = dnnl_engine_get_count(kind);
        return dnnl_success;
    });
}

extern "C" int onegraph_call_newer(uintptr_t function, const uintptr_t *given) {
    using Word = uintptr_t;
    const auto newer = reinterpret_cast<dnnl_status_t (*)(Word, Word, Word, Word, Word, Word, Word)>(function);
    const onegraph::Inside inside;
    return onegraph::guarded(
            [&] { return newer(given[0], given[1], given[2], given[3], given[4], given[5], given[6]); });
}

extern "C" void onegraph_lose_threads(void) {
    forked = true;
}

extern "C" const char *onegraph_what(void) {
    // Reading clears the text, so that a later failure without an exception does not get it.
    thread_local char last[sizeof what_text];
    std::snprintf(last, sizeof last, "%s", what_text);
    what_text[0] = '\0';
    return last;
}
