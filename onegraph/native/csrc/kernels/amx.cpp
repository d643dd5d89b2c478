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
    if (!has_bf16() || !may_use(dnnl_cpu_isa_avx512_core_amx) || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    if ((d & (TILES | OF_BF16)) != (TILES | OF_BF16)) return false;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & SAVES)) return false;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & SAVED) == SAVED && syscall(SYS_arch_prctl, PERMIT, TILE_DATA) == 0;
}

} // namespace

bool has_tiles() {
    static const bool found = may_use_tiles();
    return found;
}

bool has_byte_tiles() {
    constexpr unsigned OF_BYTES = 1U << 25;
    unsigned a, b, c, d = 0;
    static const bool found = has_tiles() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & OF_BYTES);
    return found;
}
#else
bool has_tiles() {
    return false;
}

bool has_byte_tiles() {
    return false;
}
#endif

} // namespace onegraph
