// Memory for large results, which callers get as numpy arrays.

#pragma once

#include <cstddef>

namespace onegraph {

// A result of fewer bytes has memory of numpy, whose heap keeps it between calls.
constexpr std::size_t LARGE_RESULT = std::size_t {2} << 20;

// Writable memory at a multiple of 2 MB; nullptr without memory. Any thread can call both functions.
void *take_result(std::size_t size) noexcept;
void give_result(void *memory, std::size_t size) noexcept;
// Gives the blocks that are kept for later results back to the system.
void drop_results() noexcept;

} // namespace onegraph
