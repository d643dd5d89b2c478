// The guard: no C++ exception of the library meets a C or Python frame.
//
// The graph C API lets C++ exceptions out of compile and execute, and any call may run out of memory.
// The glue that cffi generates is compiled as C++, and build_ffi.py redirects every call in it that
// returns a status through guard<>: it is noexcept, catches, keeps what() for this thread and answers
// with a status of the API. Costs nothing where nothing is thrown.

#pragma once

#include <cstddef>
#include <exception>
#include <new>
#include <utility>

#include "oneapi/dnnl/dnnl.h"
#include "oneapi/dnnl/dnnl_graph.h"

namespace onegraph {

// Replaces the text of the exception that onegraph_what() returns. Never throws.
void keep_what(const char *text) noexcept;

// What `body` returns, or the status that stands for the exception that left it.
template <typename Body>
auto guarded(Body body) noexcept -> decltype(body()) {
    try {
        return body();
    } catch (const std::bad_alloc &error) {
        keep_what(error.what());
        return dnnl_out_of_memory;
    } catch (const std::exception &error) {
        keep_what(error.what());
        return dnnl_runtime_error;
    } catch (...) {
        keep_what("an exception that is not a std::exception");
        return dnnl_runtime_error;
    }
}

// Whether this is the child of a fork without the threads that the library has work for, so that it would wait for ever.
bool threads_are_lost() noexcept;

// What the library gives to its threads, or waits for them in.
template <auto function>
constexpr bool needs_threads = false;
template <>
inline constexpr bool needs_threads<&dnnl_graph_partition_compile> = true;
template <>
inline constexpr bool needs_threads<&dnnl_graph_compiled_partition_execute> = true;
template <>
inline constexpr bool needs_threads<&dnnl_stream_wait> = true;

constexpr auto lost = static_cast<dnnl_status_t>(-3); // onegraph_lost

// The thread is in the library, which may hold locks: a fork waits until no thread is, as nobody would let go of them in
// the child.
void enter() noexcept;
void leave() noexcept;
void pass() noexcept; // from now on the thread does not wait for forks
class Inside {
public:
    Inside() noexcept { enter(); }
    ~Inside() { leave(); }
    Inside(const Inside &) = delete;
    Inside &operator=(const Inside &) = delete;
};

// No other thread is in the library meanwhile.
class Alone {
public:
    Alone() noexcept;
    ~Alone();
    Alone(const Alone &) = delete;
    Alone &operator=(const Alone &) = delete;
};

// The thread executes a kernel, which keeps things for it that the library frees when the thread ends. A thread must not
// be in the midst of that while a kernel is destroyed: the library would not find what the destructor has just freed, and
// free it all the same.
class Execution {
public:
    Execution() noexcept;
    ~Execution();
    Execution(const Execution &) = delete;
    Execution &operator=(const Execution &) = delete;
};

// Kernels are destroyed, and no thread ends meanwhile.
class Destruction {
public:
    Destruction() noexcept;
    ~Destruction();
    Destruction(const Destruction &) = delete;
    Destruction &operator=(const Destruction &) = delete;
};

// The library's cache of compiled partitions gives them to any thread, and destroys them in any. What belongs to the
// thread that compiles it is compiled while the cache keeps nothing; the others that ask or set how much wait meanwhile.
class Uncached {
public:
    Uncached();
    ~Uncached();
    Uncached(const Uncached &) = delete;
    Uncached &operator=(const Uncached &) = delete;

private:
    int capacity_ = 0;
    bool alone_ = false;
};

// The capacity of that cache is read.
class CacheRead {
public:
    CacheRead() noexcept;
    ~CacheRead();
    CacheRead(const CacheRead &) = delete;
    CacheRead &operator=(const CacheRead &) = delete;
};

// It is set, which may destroy kernels.
class CacheChange {
public:
    CacheChange() noexcept;
    ~CacheChange();
    CacheChange(const CacheChange &) = delete;
    CacheChange &operator=(const CacheChange &) = delete;
};

// What is compiled goes into that cache, which destroys others to make room.
class Compilation {
public:
    Compilation() noexcept;
    ~Compilation();
    Compilation(const Compilation &) = delete;
    Compilation &operator=(const Compilation &) = delete;

private:
    int capacity_ = 0;
};

// What is there while a function runs.
struct Nothing {};
template <auto function>
struct Meanwhile : Nothing {};
template <>
struct Meanwhile<&dnnl_graph_partition_compile> : Compilation {};
template <>
struct Meanwhile<&dnnl_graph_compiled_partition_execute> : Execution {};
template <>
struct Meanwhile<&dnnl_graph_compiled_partition_destroy> : Destruction {};
template <>
struct Meanwhile<&dnnl_graph_get_compiled_partition_cache_capacity> : CacheRead {};
template <>
struct Meanwhile<&dnnl_graph_set_compiled_partition_cache_capacity> : CacheChange {};
// 3.2 crashes where its cache of primitives changes while it is used.
template <>
struct Meanwhile<&dnnl_set_primitive_cache_capacity> : Alone {};

template <auto function, typename... Arguments>
dnnl_status_t guard(Arguments... arguments) noexcept {
    const Inside inside;
    if constexpr (needs_threads<function>)
        if (threads_are_lost()) return lost;
    [[maybe_unused]] const Meanwhile<function> meanwhile {};
    return guarded([&] { return function(arguments...); });
}

} // namespace onegraph

extern "C" {
#include "onegraph.h"
}
