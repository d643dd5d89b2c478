// Asks the CPU and the system for the tiles of AMX.

#include "amx.h"

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace onegraph {

#if defined(__x86_64__)
namespace {

bool may_use_tiles() {
    constexpr unsigned TILES = 1U << 24, OF_BF16 = 1U << 22, SAVED = 3U << 17, SAVES = 1U << 27;
    constexpr long PERMIT = 0x1023, TILE_DATA = 18;
    unsigned a, b, c, d = 0, low, high;
    if (!has_bf16() || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & (TILES | OF_BF16)) != (TILES | OF_BF16)) return false;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & SAVES)) return false;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & SAVED) == SAVED && syscall(SYS_arch_prctl, PERMIT, TILE_DATA) == 0;
}

} // namespace

bool has_tiles() {
    static const bool found = may_use_tiles();
    return found;
}
#else
bool has_tiles() {
    return false;
}
#endif

} // namespace onegraph
