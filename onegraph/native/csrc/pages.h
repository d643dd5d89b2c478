// Large pages of memory, 2 MB each.

#pragma once

#include <cstddef>

namespace onegraph {

constexpr std::size_t LARGE_PAGE = std::size_t {2} << 20;

constexpr std::size_t rounded_up(std::size_t size, std::size_t unit) {
    return (size + unit - 1) / unit * unit;
}

// Asks for large pages in new memory, where they are fast. Only whole ones, so that it takes no more memory.
void use_large_pages(void *memory, std::size_t size) noexcept;

} // namespace onegraph
