// The tiles of AMX: registers of 16 rows of 64 bytes, whose products of bf16 are added in f32, and those of bytes in s32.

#pragma once

#include <cstdint>

#include "cpu.h"

namespace onegraph {

// Whether the CPU has tiles of bf16, and the system lets this process use them.
bool has_tiles();
bool has_byte_tiles(); // likewise of bytes

#if defined(__x86_64__)
// How many rows each register has, and bytes of a row. It is loaded from memory.
struct TileShapes {
    std::uint8_t palette = 1, start = 0, reserved[14] = {};
    std::uint16_t bytes[16] = {};
    std::uint8_t rows[16] = {};
};

// Instructions on tiles, which are numbers of registers. gcc's own intrinsics do not say what memory they read.
ONEGRAPH_INLINE void shape_tiles(const TileShapes &shapes) {
    asm volatile("ldtilecfg %0" : : "m"(shapes));
}

ONEGRAPH_INLINE void release_tiles() {
    asm volatile("tilerelease");
}

template <int TILE_NUMBER>
ONEGRAPH_INLINE void load_tile(const void *source, long stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(source), "r"(stride), "i"(TILE_NUMBER) : "memory");
}

template <int TILE_NUMBER>
ONEGRAPH_INLINE void store_tile(void *target, long stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(target), "r"(stride), "i"(TILE_NUMBER) : "memory");
}

template <int TILE_NUMBER>
ONEGRAPH_INLINE void zero_tile() {
    asm volatile("tilezero %%tmm%c0" : : "i"(TILE_NUMBER));
}

template <int SUMS, int FIRST, int SECOND>
ONEGRAPH_INLINE void multiply_tiles() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(SUMS), "i"(FIRST), "i"(SECOND));
}

// Of u8 by s8.
template <int SUMS, int FIRST, int SECOND>
ONEGRAPH_INLINE void multiply_codes() {
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(SUMS), "i"(FIRST), "i"(SECOND));
}
#endif

} // namespace onegraph
