// The exponential function, for kernels that compute it in vectors.

#pragma once

#include <cstring>

#include "floats.h"

namespace onegraph {

ONEGRAPH_INLINE Word bits_of(float number) {
    Word bits;
    std::memcpy(&bits, &number, sizeof bits);
    return bits;
}

ONEGRAPH_INLINE float of_bits(Word bits) {
    float number;
    std::memcpy(&number, &bits, sizeof number);
    return number;
}

// exp(x) for -87 to 88, with the same bits on every CPU.
ONEGRAPH_INLINE float exp_of(float x) {
    constexpr float rounder = 12582912.0f; // 1.5 * 2**23: the last bits of a sum with it are an integer
    // exp(x) = 2**n * exp(rest). ln(2) is a sum of two numbers; n times the first one is exact.
    const float shifted = __builtin_fmaf(x, 1.44269504f, rounder), n = shifted - rounder;
    const float rest = __builtin_fmaf(n, 2.12194440e-4f, __builtin_fmaf(n, -0.693359375f, x));
    float power = __builtin_fmaf(8.31248e-3f, rest, 4.189055e-2f);
    power = __builtin_fmaf(power, rest, 0.16667116f);
    power = __builtin_fmaf(power, rest, 0.49999229f);
    power = __builtin_fmaf(__builtin_fmaf(power, rest, 1.0f), rest, 1.0f);
    return of_bits(bits_of(power) + (bits_of(shifted) << 23));
}

} // namespace onegraph
