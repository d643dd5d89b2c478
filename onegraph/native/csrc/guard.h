// The guard: no C++ exception of the library reaches a C or Python frame.
//
// compile and execute of the graph C API can throw C++ exceptions, and any call may run out of memory.
// The glue that cffi generates is compiled as C++. build_ffi.py redirects every call in it that returns
// a status through guard<>. guard<> is noexcept: it catches the exception, stores what() for this thread
// and returns a status of the API. It costs nothing if nothing is thrown.

#pragma once

#include <cstddef>
#include <exception>
#include <new>
#include <stdexcept>
#include <utility>

#include "oneapi/dnnl/dnnl.h"
#include "oneapi/dnnl/dnnl_graph.h"

namespace onegraph {

// Replaces the text of the exception that onegraph_what() returns. Never throws.
void keep_what(const char *text) noexcept;

// Contents of a tensor that a kernel refuses, such as a place beyond a table.
class WrongContents : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

constexpr auto wrong_contents = static_cast<dnnl_status_t>(-6); // onegraph_wrong_contents

// Returns the result of `body`, or the status for the exception that `body` threw.
template <typename Body>
auto guarded(Body body) noexcept -> decltype(body()) {
    try {
        return body();
    } catch (const std::bad_alloc &error) {
        keep_what(error.what());
        return dnnl_out_of_memory;
    } catch (const WrongContents &error) {
        keep_what(error.what());
        return wrong_contents;
    } catch (const std::exception &error) {
        keep_what(error.what());
        return dnnl_runtime_error;
    } catch (...) {
        keep_what("an exception that is not a std::exception");
        return dnnl_runtime_error;
    }
}

// Whether this process is the child of a fork. It has none of the library's threads, so the library would wait for
// ever.
bool threads_are_lost() noexcept;

// Whether a function gives work to the library's threads, or waits for them.
template <auto function>
constexpr bool needs_threads = false;
template <>
inline constexpr bool needs_threads<&dnnl_graph_partition_compile> = true;
template <>
inline constexpr bool needs_threads<&dnnl_graph_compiled_partition_execute> = true;
template <>
inline constexpr bool needs_threads<&dnnl_stream_wait> = true;

constexpr auto lost = static_cast<dnnl_status_t>(-3); // onegraph_lost

// Marks that the thread is in the library, which may hold locks. A fork waits until no thread is in the library,
// because a lock held at the fork stays locked in the child for ever.
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

// While it lives, no other thread is in the library.
class Alone {
public:
    Alone() noexcept;
    ~Alone();
    Alone(const Alone &) = delete;
    Alone &operator=(const Alone &) = delete;
};

// Marks that the thread executes a kernel. The kernel keeps memory for the thread, and the library frees it when the
// thread ends. A thread must not end while another thread destroys the kernel: the library would free the memory twice.
class Execution {
public:
    Execution() noexcept;
    ~Execution();
    Execution(const Execution &) = delete;
    Execution &operator=(const Execution &) = delete;
};

// Marks the destruction of kernels. While it lives, no thread ends.
class Destruction {
public:
    Destruction() noexcept;
    ~Destruction();
    Destruction(const Destruction &) = delete;
    Destruction &operator=(const Destruction &) = delete;
};

// Empties the library's cache of compiled partitions and turns it off while it lives. The cache shares its partitions
// among all threads and destroys them in any thread, so kernels with thread affinity must not enter it. Threads that
// read or set the capacity of the cache wait.
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

// Marks that the capacity of that cache is read.
class CacheRead {
public:
    CacheRead() noexcept;
    ~CacheRead();
    CacheRead(const CacheRead &) = delete;
    CacheRead &operator=(const CacheRead &) = delete;
};

// Marks that the capacity of that cache is set, which may destroy kernels.
class CacheChange {
public:
    CacheChange() noexcept;
    ~CacheChange();
    CacheChange(const CacheChange &) = delete;
    CacheChange &operator=(const CacheChange &) = delete;
};

// Marks a compilation. Its result enters that cache, which may destroy other kernels to make room.
class Compilation {
public:
    Compilation() noexcept;
    ~Compilation();
    Compilation(const Compilation &) = delete;
    Compilation &operator=(const Compilation &) = delete;

private:
    int capacity_ = 0;
};

// The object that lives while a function of the library runs.
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
// oneDNN 3.2 crashes if its cache of primitives changes while it is used.
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

// What a function without a status returns. It may look at the CPU for the first time, under a lock.
template <auto function>
auto value_of() noexcept {
    const Inside inside;
    return function();
}

} // namespace onegraph

extern "C" {
#include "onegraph.h"
}
