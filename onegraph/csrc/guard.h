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

template <auto function, typename... Arguments>
dnnl_status_t guard(Arguments... arguments) noexcept {
    return guarded([&] { return function(arguments...); });
}

} // namespace onegraph

extern "C" {
#include "onegraph.h"
}
