// What a program that runs in parts needs of its plan.

#pragma once

#include <cstddef>
#include <cstdint>

namespace onegraph {

// Binds slots of a plan, of which 0 stands for none, unless an address is misaligned.
int place(std::uintptr_t plan, std::size_t count, const std::size_t *slots, void *const *addresses) noexcept;

} // namespace onegraph
