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
    InOrder() noexcept;
    ~InOrder();
    InOrder(const InOrder &) = delete;
    InOrder &operator=(const InOrder &) = delete;
};

// Marks an execution that prepares no constants, so that it frees all that it allocates. That is taken from the room that
// is lent to it, as long as it suffices.
class Scratch {
public:
    Scratch(void *room, std::size_t size) noexcept;
    ~Scratch();
    // Whether memory that was lent is still in use.
    bool is_in_use() const;
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;
};

// How often the library's cache of constants was emptied. Plans prepare their constants again after that.
std::size_t flushes();

} // namespace onegraph
