// Host memory for the library, and what of it the library keeps for prepared constants.

#pragma once

#include <cstddef>

#include "guard.h"

namespace onegraph {

// Marks an execution that may prepare constants, such as weights in the layout of a kernel. From 3.3 on, the library
// finds prepared constants by a hash that may collide, so that a partition may run with those of another one, and may
// read beyond their end. Memory that is allocated meanwhile is therefore followed by memory that can be read.
class Preparation {
public:
    Preparation() noexcept;
    ~Preparation();
    Preparation(const Preparation &) = delete;
    Preparation &operator=(const Preparation &) = delete;

    // Bytes of the blocks that were allocated meanwhile and not freed; 0 if nothing had to be prepared; -1 if the
    // library took constants that another partition had prepared.
    std::ptrdiff_t kept() const;
};

// Marks a run of a plan, whose executions are in one order. Memory that one of them frees can be used by the next one,
// although a library built for SYCL may not have executed the first one yet.
class InOrder {
public:
    // `is_prepared`: whether all constants are prepared, so that the executions free all that they allocate.
    explicit InOrder(bool is_prepared) noexcept;
    ~InOrder();
    InOrder(const InOrder &) = delete;
    InOrder &operator=(const InOrder &) = delete;

private:
    const bool is_prepared_;
};

// How often the library's cache of constants was emptied. Plans prepare their constants again after that.
std::size_t flushes();

} // namespace onegraph
