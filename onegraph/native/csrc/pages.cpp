#include "pages.h"

#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdint>

namespace onegraph {
namespace {

using Clock = std::chrono::steady_clock;
// A large page is cleared in 0.2 ms, small pages of the same size in 0.7 ms. A virtual machine may have lent its free
// memory to others. It then takes up to 4 ms to get a large page back, but keeps small pieces, which make small pages.
constexpr auto SLOW = std::chrono::microseconds {1500};
std::atomic<bool> are_slow {false};

} // namespace

void use_large_pages(void *memory, std::size_t size) noexcept {
    const auto begin = reinterpret_cast<std::uintptr_t>(memory), start = rounded_up(begin, LARGE_PAGE);
    if (are_slow || begin + size < start + LARGE_PAGE) return;
    const std::size_t whole = (begin + size - start) / LARGE_PAGE * LARGE_PAGE;
    auto *first = reinterpret_cast<char *>(start);
    if (madvise(first, whole, MADV_HUGEPAGE)) return;
    const auto asked = Clock::now();
    *reinterpret_cast<volatile char *>(first) = 0; // the system makes the page now
    if (Clock::now() - asked < SLOW) return;
    are_slow = true;
    madvise(first + LARGE_PAGE, whole - LARGE_PAGE, MADV_NOHUGEPAGE);
}

} // namespace onegraph
