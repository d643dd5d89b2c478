// The order of floating-point numbers as that of unsigned integers, in which NaN is larger than every number.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "cpu.h"

namespace onegraph {

// Unsigned integers in the order of elements: minus infinity is 0, and NaN of both signs are larger than infinity.
template <typename T, T EXPONENT>
struct Order {
    static constexpr int BITS = 8 * sizeof(T);
    static constexpr T SIGN = static_cast<T>(T {1} << (BITS - 1)), SIZE = static_cast<T>(SIGN - 1);
    static constexpr T LEAST = static_cast<T>(SIGN | (SIZE & ~EXPONENT));

    ONEGRAPH_INLINE static T of(T x) {
        const T negative = static_cast<T>(-static_cast<T>(x >> (BITS - 1)));
        return static_cast<T>(static_cast<T>(x ^ (negative & SIZE)) - LEAST);
    }

    ONEGRAPH_INLINE static T element(T order) {
        const T x = static_cast<T>(order + LEAST), negative = static_cast<T>(-static_cast<T>(x >> (BITS - 1)));
        return static_cast<T>(x ^ (negative & SIZE));
    }
};

// Rows of elements. `flip` is 0, or the sign, which turns the order of all numbers but NaN around.
template <typename T, T EXPONENT>
struct Lines {
    // most[i] = the larger of it and element i
    ONEGRAPH_INLINE static void raise(
            const T *__restrict source, T *__restrict most, std::size_t count, T flip) {
        for (std::size_t i = 0; i < count; i++) {
            const T order = Order<T, EXPONENT>::of(static_cast<T>(source[i] ^ flip));
            most[i] = most[i] > order ? most[i] : order;
        }
    }

    // most[0] = the larger of it and the elements
    ONEGRAPH_INLINE static void largest(
            const T *__restrict source, T *__restrict most, std::size_t count, T flip) {
        typedef T Vector __attribute__((vector_size(64)));
        constexpr std::size_t LANES = 64 / sizeof(T);
        std::size_t i = 0;
        T found = most[0];
        if (count >= LANES) {
            Vector wide = {};
            for (; i + LANES <= count; i += LANES) {
                Vector x;
                std::memcpy(&x, source + i, sizeof x);
                x ^= flip;
                const Vector order = (x ^ (-(x >> (Order<T, EXPONENT>::BITS - 1)) & Order<T, EXPONENT>::SIZE))
                        - Order<T, EXPONENT>::LEAST;
                wide = wide > order ? wide : order;
            }
            for (std::size_t j = 0; j < LANES; j++)
                found = std::max(found, static_cast<T>(wide[j]));
        }
        for (; i < count; i++)
            found = std::max(found, Order<T, EXPONENT>::of(static_cast<T>(source[i] ^ flip)));
        most[0] = found;
    }

    ONEGRAPH_INLINE static void write(
            const T *__restrict most, T *__restrict result, std::size_t count, T flip) {
        for (std::size_t i = 0; i < count; i++)
            result[i] = static_cast<T>(Order<T, EXPONENT>::element(most[i]) ^ flip);
    }
};

} // namespace onegraph
