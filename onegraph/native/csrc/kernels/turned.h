// Copies of elements that lie side by side along one axis in the source, and along another one in the target.

#pragma once

#include <cstdint>
#include <cstring>

#include "cpu.h"

namespace onegraph {

template <typename T>
ONEGRAPH_INLINE void move_element(char *target, const char *source) {
    std::memcpy(target, source, sizeof(T));
}

// Turns a square of vectors: element j of vector i becomes element i of vector j.
template <typename T>
ONEGRAPH_INLINE void turn_square(const char *source, std::int64_t from, char *target, std::int64_t to) {
    constexpr std::size_t LANES = 16 / sizeof(T);
    typedef T Vector __attribute__((vector_size(16)));
    Vector vectors[LANES], low, high;
    for (std::size_t i = 0; i < LANES; i++) {
        low[i] = static_cast<T>(i / 2 + i % 2 * LANES);
        high[i] = static_cast<T>(LANES / 2 + i / 2 + i % 2 * LANES);
        std::memcpy(&vectors[i], source + static_cast<std::int64_t>(i) * from, sizeof(Vector));
    }
    for (std::size_t step = 1; step < LANES; step *= 2) {
        Vector mixed[LANES];
        for (std::size_t i = 0; i < LANES / 2; i++) {
            mixed[2 * i] = __builtin_shuffle(vectors[i], vectors[i + LANES / 2], low);
            mixed[2 * i + 1] = __builtin_shuffle(vectors[i], vectors[i + LANES / 2], high);
        }
        std::memcpy(vectors, mixed, sizeof vectors);
    }
    for (std::size_t i = 0; i < LANES; i++)
        std::memcpy(target + static_cast<std::int64_t>(i) * to, &vectors[i], sizeof(Vector));
}

// Turns a block of columns of the source into lines of the target.
template <typename T>
inline void turn_block(const char *from, std::int64_t source, std::int64_t rows, char *to, std::int64_t target, std::int64_t count) {
    constexpr std::int64_t SIZE = sizeof(T), LANES = 16 / SIZE;
    std::int64_t column = 0;
    for (; column + LANES <= count && rows >= LANES; column += LANES) {
        const char *first = from + column * SIZE;
        char *result = to + column * target;
        std::int64_t i = 0;
        for (; i + LANES <= rows; i += LANES)
            turn_square<T>(first + i * source, source, result + i * SIZE, target);
        for (; i < rows; i++)
            for (std::int64_t line = 0; line < LANES; line++)
                move_element<T>(result + line * target + i * SIZE, first + i * source + line * SIZE);
    }
    for (; column < count; column++)
        for (std::int64_t i = 0; i < rows; i++)
            move_element<T>(to + column * target + i * SIZE, from + i * source + column * SIZE);
}

} // namespace onegraph
