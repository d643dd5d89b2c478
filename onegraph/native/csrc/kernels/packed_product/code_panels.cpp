// Products of several rows of 8-bit codes and packed weights by sums of products of bytes.
//
// The codes of 16 columns are turned, so that a register has four of each column, and four codes of a row meet all of
// them at once. So a block of codes needs one conversion for 16 columns, where a register of one column needs one for each.

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "problem.h"

#include "../floats.h"
#pragma GCC optimize("fp-contract=fast")

#if defined(__x86_64__)
// gcc 12 warns of variables of its own intrinsics that are uninitialized on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,f16c,prefer-vector-width=512")

namespace onegraph {
namespace {

#include "transpose.inc"

constexpr long LANES = 16, LINE = 64; // numbers and bytes of a register

// Turns a unit of each column: four codes of all columns in each line, unsigned.
template <long WIDTH>
ONEGRAPH_INLINE void turn_unit(const PackedMatrix &matrix, const char *const *columns, long offset, int flip, char *lines) {
    __m512i words[LANES];
#pragma GCC unroll 16
    for (long i = 0; i < LANES; i++) {
        words[i] = _mm512_xor_si512(_mm512_loadu_si512(columns[i] + offset), _mm512_set1_epi32(flip));
        // The CPU does not follow so many rows.
        ONEGRAPH_FETCH(columns[i] + offset + LANES * matrix.bytes);
    }
    transpose(words);
    const __m512i low = _mm512_set1_epi32(0x0f0f0f0f);
#pragma GCC unroll 16
    for (long i = 0; i < LANES; i++)
        if constexpr (WIDTH == FOUR) {
            _mm512_store_si512(lines + 2 * i * LINE, _mm512_and_si512(words[i], low));
            _mm512_store_si512(lines + (2 * i + 1) * LINE, _mm512_and_si512(_mm512_srli_epi32(words[i], 4), low));
        } else {
            _mm512_store_si512(lines + i * LINE, words[i]);
        }
}

template <long WIDTH>
ONEGRAPH_INLINE void turn_columns(const PackedMatrix &matrix, const char *const *columns, long begin, long end, char *panel) {
    const int flip = matrix.flip ^ static_cast<int>(WIDTH == FOUR ? 0x88888888 : 0x80808080);
    for (long offset = begin; offset < end; offset += LINE, panel += per_word(WIDTH) / 4 * LANES * LINE)
        turn_unit<WIDTH>(matrix, columns, offset, flip, panel);
}

void turn_codes(const PackedMatrix &matrix, const char *const *columns, long width, char *panel) {
    width == FOUR ? turn_columns<FOUR>(matrix, columns, 0, matrix.bytes, panel)
                  : turn_columns<EIGHT>(matrix, columns, 0, matrix.bytes, panel);
}

// Groups of all columns side by side, from those of each column.
void turn_scales(const float *const *columns, long groups, float *lines) {
    for (long at = 0; at < groups; at += LANES, lines += LANES * LANES) {
        const long count = std::min(LANES, groups - at);
        const auto some = static_cast<__mmask16>(count == LANES ? 0xffff : (1 << count) - 1);
        __m512i words[LANES];
#pragma GCC unroll 16
        for (long i = 0; i < LANES; i++)
            words[i] = _mm512_maskz_loadu_epi32(some, columns[i] + at);
        transpose(words);
        for (long i = 0; i < count; i++)
            _mm512_store_si512(lines + i * LANES, words[i]);
    }
}

// The lines of a panel, or those of a unit after the other, which stay in the first cache.
template <long UNITS, bool HAS_ZEROS, long WIDTH>
ONEGRAPH_INLINE void multiply_units(const CodePanel &panel, const CodedRows &rows, float *results) {
    constexpr long COUNT = UNITS * CODED_ROWS, UNIT = LANES * per_word(WIDTH);
    alignas(64) char turned[UNIT / 4 * LINE];
    __m512 found[COUNT] = {};
    const char *line = panel.codes;
    const float *scales = panel.scales, *zeros = panel.zeros;
    const long fours = UNIT / 4 / rows.fours;
    for (long block = 0, in_group = 0; block < rows.blocks; block++) {
        if (!panel.codes && block % fours == 0) {
            const long offset = block / fours * LINE;
            turn_columns<WIDTH>(*panel.matrix, panel.columns, offset, offset + LINE, turned);
            line = turned;
        }
        const long place = block * CODED_ROWS;
        __m512i sums[COUNT];
#pragma GCC unroll 16
        for (long i = 0; i < COUNT; i++)
            sums[i] = HAS_ZEROS ? _mm512_setzero_si512()
                                : _mm512_set1_epi32(rows.offsets[i / CODED_ROWS * rows.stride + place + i % CODED_ROWS]);
        const std::int8_t *codes = rows.codes + block * rows.fours * 4 * CODED_ROWS;
        for (long four = 0; four < rows.fours; four++, line += LINE, codes += 4 * CODED_ROWS) {
            const __m512i words = _mm512_load_si512(line);
#pragma GCC unroll 16
            for (long i = 0; i < COUNT; i++) {
                int some;
                std::memcpy(&some, codes + i / CODED_ROWS * rows.stride * rows.fours * 4 + i % CODED_ROWS * 4, sizeof some);
                sums[i] = _mm512_dpbusd_epi32(sums[i], words, _mm512_set1_epi32(some));
            }
        }
        const __m512 scale = _mm512_load_ps(scales);
        const __m512 zero = HAS_ZEROS ? _mm512_load_ps(zeros) : _mm512_setzero_ps();
#pragma GCC unroll 16
        for (long i = 0; i < COUNT; i++) {
            const long at = i / CODED_ROWS * rows.stride + place + i % CODED_ROWS;
            __m512 part = _mm512_cvtepi32_ps(sums[i]);
            if constexpr (HAS_ZEROS) part -= zero * _mm512_set1_ps(rows.sums[at]);
            found[i] += part * _mm512_set1_ps(rows.steps[at]) * scale;
        }
        if (++in_group == panel.blocks_of_group) in_group = 0, scales += LANES, zeros += LANES;
    }
#pragma GCC unroll 16
    for (long i = 0; i < COUNT; i++)
        _mm512_storeu_ps(results + i * LANES, found[i]);
}

template <long WIDTH>
long multiply_some(const CodePanel &panel, const CodedRows &rows, long units, float *results) {
    const auto some = [&](auto few) {
        panel.zeros ? multiply_units<few.value, true, WIDTH>(panel, rows, results)
                    : multiply_units<few.value, false, WIDTH>(panel, rows, results);
        return few.value;
    };
    if (units >= 3) return some(std::integral_constant<long, 3> {});
    if (units == 2) return some(std::integral_constant<long, 2> {});
    return some(std::integral_constant<long, 1> {});
}

long multiply(const CodePanel &panel, const CodedRows &rows, long width, long units, float *results) {
    return (width == FOUR ? multiply_some<FOUR> : multiply_some<EIGHT>)(panel, rows, units, results);
}

constexpr CodeProducts PRODUCTS {turn_codes, turn_scales, multiply};

} // namespace

const CodeProducts *code_products() {
    return has_vnni() ? &PRODUCTS : nullptr;
}

} // namespace onegraph
#else
namespace onegraph {

const CodeProducts *code_products() {
    return nullptr;
}

} // namespace onegraph
#endif
