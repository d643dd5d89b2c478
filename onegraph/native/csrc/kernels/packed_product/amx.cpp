// Products of many rows and packed weights by the tiles of AMX, which multiply bf16 and add in f32; or by vectors of bf16.
//
// The columns of the weights are the rows of the first operand, so that their numbers lie as in a packed row; tiles of src
// are arranged once for all columns. So a tile of results has a column of the weights in each of its rows. Codes of 4 and
// 8 bits are whole numbers that bf16 has exactly, and so are three numbers of bf16 whose sum is one of f32. Products of
// these have the digits of f32; the scales multiply the sums of a segment. Where src may be rounded to bf16, so are the
// unpacked weights, and sums go along the whole depth.

#include <algorithm>
#include <cstring>

#include "problem.h"

#include "../amx.h"
#include "../floats.h"
#pragma GCC optimize("fp-contract=fast")

#if defined(__x86_64__)
// gcc 12 warns of variables of its own intrinsics that are uninitialized on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,f16c,prefer-vector-width=512")

namespace onegraph {
namespace {

constexpr long ROW = 64; // bytes of a row of a tile
constexpr long COLUMNS_AHEAD = 8; // columns between the one that is unpacked and the one that is fetched into the cache
constexpr long BATCH = 4; // segments whose sums are scaled together

// Tiles 0 to 3 are sums, 4 and 5 columns of the weights, 6 and 7 rows of src.
void configure(long step) {
    TileShapes tiles;
    for (int tile = 0; tile < 8; tile++) {
        const bool is_src = tile > 5, is_weights = tile > 3 && !is_src;
        tiles.bytes[tile] = static_cast<std::uint16_t>(is_weights ? 2 * step : ROW);
        tiles.rows[tile] = static_cast<std::uint8_t>(is_src ? step / 2 : TILE);
    }
    shape_tiles(tiles);
}

void release() {
    release_tiles();
}

#include "transpose.inc"

// 32 numbers as bf16, one behind another.
ONEGRAPH_INLINE __m512i halves(__m512 first, __m512 second) {
    return (__m512i)_mm512_cvtne2ps_pbh(second, first);
}

ONEGRAPH_INLINE __m512 low_half(__m512i numbers) {
    return (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(numbers)), 16);
}

ONEGRAPH_INLINE __m512 high_half(__m512i numbers) {
    return (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(numbers, 1)), 16);
}

ONEGRAPH_INLINE __mmask16 first_lanes(long count) {
    return static_cast<__mmask16>(count >= 16 ? 0xffff : count <= 0 ? 0 : (1 << count) - 1);
}

void arrange(const float *const *rows, long known, long depth, long step, long pieces, Half *tiles) {
    for (long at = 0; at < depth; at += step, tiles += pieces * step * TILE) {
        __m512i words[3][TILE];
        for (long row = 0; row < TILE; row++) {
            const __mmask16 some[2] = {first_lanes(known - at), first_lanes(step > 16 ? known - at - 16 : 0)};
            __m512 first {}, second {};
            if (rows[row]) {
                first = _mm512_maskz_loadu_ps(some[0], rows[row] + at);
                second = _mm512_maskz_loadu_ps(some[1], rows[row] + at + 16);
            }
            for (long piece = 0; piece < pieces; piece++) {
                const __m512i rounded = words[piece][row] = halves(first, second);
                first -= low_half(rounded);
                second -= high_half(rounded);
            }
        }
        for (long piece = 0; piece < pieces; piece++) {
            transpose(words[piece]);
            std::memcpy(tiles + piece * step * TILE, words[piece], static_cast<std::size_t>(step / 2 * ROW));
        }
    }
}

// 16 codes of 4 bits as numbers that a table has.
ONEGRAPH_INLINE __m512 signed_numbers(int flip) {
    const __m512i codes = _mm512_xor_si512(
            _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), _mm512_set1_epi32(flip & 15));
    return _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(codes, 28), 28));
}

// Writes 16 or 32 numbers.
ONEGRAPH_INLINE void store(Half *target, __m512i numbers, long count) {
    if (count == STEP)
        _mm512_storeu_si512(target, numbers);
    else
        _mm256_storeu_si256((__m256i *)target, _mm512_castsi512_si256(numbers));
}

template <long WIDTH, bool SCALED>
ONEGRAPH_INLINE void unpack_column(
        const PackedMatrix &matrix, const PackedColumn &column, long begin, long end, Half *numbers) {
    const __m512 codes = signed_numbers(matrix.flip);
    const __m256i flip = _mm256_set1_epi32(matrix.flip), mask = _mm256_set1_epi32(0xf000f);
    const long run = std::min(matrix.group, STEP);
    const __mmask32 all = run == STEP ? 0xffffffff : 0xffff;
    const __mmask16 some = run == STEP ? 0xffff : 0xff;
    long at = begin;
    for (long group = begin / matrix.group; at < end; group++) {
        const __m512 scale = _mm512_set1_ps(SCALED ? column.scales[group] : 1);
        const __m512 zero = _mm512_set1_ps(column.zeros ? column.zeros[group] : 0);
        const __m512 found = (codes - zero) * scale;
        const __m512i table = halves(found, found);
        for (const long stop = std::min((group + 1) * matrix.group, end); at < stop; at += run, numbers += run) {
            // The CPU does not follow pieces of rows.
            ONEGRAPH_FETCH(column.codes + at * WIDTH / 8 + COLUMNS_AHEAD * matrix.bytes);
            if constexpr (WIDTH == FOUR) {
                const __m512i bytes = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(some, column.codes + at / 2));
                const __m512i places = _mm512_or_si512(bytes, _mm512_slli_epi32(bytes, 12));
                store(numbers, _mm512_permutexvar_epi16(_mm512_and_si512(places, _mm512_broadcast_i64x4(mask)), table), run);
            } else {
                const __m256i bytes = _mm256_xor_si256(_mm256_maskz_loadu_epi8(all, column.codes + at), flip);
                const auto number = [&](__m128i half) {
                    return (_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(half)) - zero) * scale;
                };
                store(numbers,
                        halves(number(_mm256_castsi256_si128(bytes)), number(_mm256_extracti128_si256(bytes, 1))), run);
            }
        }
    }
}

// Copies numbers of bf16, and writes zeros behind the known ones.
ONEGRAPH_INLINE void copy_column(
        const PackedMatrix &matrix, const PackedColumn &column, long begin, long end, Half *numbers) {
    for (long at = begin; at < end; at += STEP, numbers += STEP) {
        const long rest = matrix.known - at;
        const __mmask32 some = rest >= STEP ? 0xffffffff : rest <= 0 ? 0 : (1U << rest) - 1;
        const char *const source = column.codes + at * 2;
        ONEGRAPH_FETCH(source + COLUMNS_AHEAD * matrix.bytes);
        _mm512_storeu_si512(numbers, _mm512_maskz_loadu_epi16(some, source));
    }
}

// Unpacks a column from `begin` to `end`. Scaled numbers are rounded; others are whole.
void unpack(const PackedMatrix &matrix, const PackedColumn &column, long width, bool is_scaled, long begin, long end,
        Half *numbers) {
    if (width == HALF_BF16)
        copy_column(matrix, column, begin, end, numbers);
    else if (width == FOUR)
        is_scaled ? unpack_column<FOUR, true>(matrix, column, begin, end, numbers)
                  : unpack_column<FOUR, false>(matrix, column, begin, end, numbers);
    else
        is_scaled ? unpack_column<EIGHT, true>(matrix, column, begin, end, numbers)
                  : unpack_column<EIGHT, false>(matrix, column, begin, end, numbers);
}

// The sums of two tiles of columns over a segment of `steps`. Pieces take turns of two registers.
template <long PIECES, int FIRST, int SECOND>
ONEGRAPH_INLINE void segment(const Half *panel, long stride, const Half *tiles, long step, long steps, float *sums) {
    const long size = step * TILE;
    zero_tile<FIRST>();
    zero_tile<SECOND>();
    for (long i = 0; i < steps; i++, tiles += PIECES * size) {
        load_tile<4>(panel + i * step, 2 * stride);
        load_tile<6>(tiles, ROW);
        multiply_tiles<FIRST, 4, 6>();
        load_tile<5>(panel + TILE * stride + i * step, 2 * stride);
        multiply_tiles<SECOND, 5, 6>();
        load_tile<7>(tiles + size, ROW);
        multiply_tiles<FIRST, 4, 7>();
        multiply_tiles<SECOND, 5, 7>();
        if constexpr (PIECES == 3) {
            load_tile<6>(tiles + 2 * size, ROW);
            multiply_tiles<FIRST, 4, 6>();
            multiply_tiles<SECOND, 5, 6>();
        }
    }
    store_tile<FIRST>(sums, ROW);
    store_tile<SECOND>(sums + TILE * TILE, ROW);
}

// Adds sums of segments, multiplied by the scales of their columns.
ONEGRAPH_INLINE void add_scaled(const float *sums, const float *scales, long count, float *results) {
    for (long half = 0; half < 2; half++, sums += TILE * TILE, scales += TILE, results += TILE * TILE) {
        __m512 found[TILE];
#pragma GCC unroll 16
        for (long i = 0; i < TILE; i++)
            found[i] = _mm512_load_ps(results + i * TILE);
        for (long at = 0; at < count; at++)
#pragma GCC unroll 16
            for (long i = 0; i < TILE; i++)
                found[i] += _mm512_load_ps(sums + at * PANEL * TILE + i * TILE) * _mm512_set1_ps(scales[at * PANEL + i]);
#pragma GCC unroll 16
        for (long i = 0; i < TILE; i++)
            _mm512_store_ps(results + i * TILE, found[i]);
    }
}

template <long PIECES>
void multiply_segments(const Half *panel, long stride, const Half *tiles, long step, long steps,
        long n_segments, const float *scales, float *results) {
    alignas(64) float sums[2][BATCH * PANEL * TILE];
    const long jump = steps * PIECES * step * TILE;
    for (long at = 0; at < n_segments + BATCH; at += BATCH) {
        const long count = std::min(BATCH, n_segments - at);
        float *const target = sums[at / BATCH % 2];
        for (long i = 0; i < count; i += 2) {
            segment<PIECES, 0, 1>(panel + (at + i) * steps * step, stride, tiles + (at + i) * jump, step, steps,
                    target + i * PANEL * TILE);
            if (i + 1 < count)
                segment<PIECES, 2, 3>(panel + (at + i + 1) * steps * step, stride, tiles + (at + i + 1) * jump, step, steps,
                        target + (i + 1) * PANEL * TILE);
        }
        // The vectors of the segments before are computed while the tiles are.
        if (at > 0)
            add_scaled(sums[(at / BATCH + 1) % 2], scales + (at - BATCH) * PANEL, std::min(BATCH, n_segments - at + BATCH),
                    results);
    }
}

void multiply_scaled(const Half *panel, long stride, const Half *tiles, long pieces, long step, long steps,
        long n_segments, const float *scales, float *results) {
    (pieces == 2 ? multiply_segments<2> : multiply_segments<3>)(
            panel, stride, tiles, step, steps, n_segments, scales, results);
}

// Adds the products of one or two tiles of rows.
template <bool IS_PAIR>
ONEGRAPH_INLINE void multiply_some(
        const Half *panel, long stride, const Half *tiles, long jump, long steps, float *results) {
    constexpr long SIZE = TILE * TILE;
    load_tile<0>(results, ROW);
    load_tile<1>(results + SIZE, ROW);
    if constexpr (IS_PAIR) {
        load_tile<2>(results + 2 * SIZE, ROW);
        load_tile<3>(results + 3 * SIZE, ROW);
    }
    for (long i = 0; i < steps; i++) {
        load_tile<4>(panel + i * STEP, 2 * stride);
        load_tile<6>(tiles + i * STEP * TILE, ROW);
        multiply_tiles<0, 4, 6>();
        load_tile<5>(panel + TILE * stride + i * STEP, 2 * stride);
        multiply_tiles<1, 5, 6>();
        if constexpr (IS_PAIR) {
            load_tile<7>(tiles + jump + i * STEP * TILE, ROW);
            multiply_tiles<2, 4, 7>();
            multiply_tiles<3, 5, 7>();
        }
    }
    store_tile<0>(results, ROW);
    store_tile<1>(results + SIZE, ROW);
    if constexpr (IS_PAIR) {
        store_tile<2>(results + 2 * SIZE, ROW);
        store_tile<3>(results + 3 * SIZE, ROW);
    }
}

void multiply(const Half *panel, long stride, const Half *tiles, long jump, long n_tiles, long steps, float *results) {
    if (n_tiles > 1) return multiply_some<true>(panel, stride, tiles, jump, steps, results);
    multiply_some<false>(panel, stride, tiles, jump, steps, results);
}

// The same sums without tiles: a pair of numbers of a column meets the pairs of all rows of a tile.
template <long TILES>
ONEGRAPH_INLINE void multiply_vectors(
        const Half *panel, long stride, const Half *tiles, long jump, long steps, float *results) {
    constexpr long COLUMNS = 8;
    for (long first = 0; first < PANEL; first += COLUMNS, panel += COLUMNS * stride) {
        float *const target = results + first * TILE;
        __m512 sums[TILES][COLUMNS];
#pragma GCC unroll 16
        for (long i = 0; i < TILES * COLUMNS; i++)
            sums[i / COLUMNS][i % COLUMNS] = _mm512_loadu_ps(target + i / COLUMNS * PANEL * TILE + i % COLUMNS * TILE);
        for (long pair = 0; pair < steps * STEP / 2; pair++) {
            __m512bh rows[TILES];
#pragma GCC unroll 2
            for (long tile = 0; tile < TILES; tile++)
                rows[tile] = (__m512bh)_mm512_loadu_si512(tiles + tile * jump + pair * 2 * TILE);
#pragma GCC unroll 8
            for (long i = 0; i < COLUMNS; i++) {
                int numbers;
                std::memcpy(&numbers, panel + i * stride + 2 * pair, sizeof numbers);
                const auto column = (__m512bh)_mm512_set1_epi32(numbers);
#pragma GCC unroll 2
                for (long tile = 0; tile < TILES; tile++)
                    sums[tile][i] = _mm512_dpbf16_ps(sums[tile][i], rows[tile], column);
            }
        }
#pragma GCC unroll 16
        for (long i = 0; i < TILES * COLUMNS; i++)
            _mm512_storeu_ps(target + i / COLUMNS * PANEL * TILE + i % COLUMNS * TILE, sums[i / COLUMNS][i % COLUMNS]);
    }
}

void multiply_in_vectors(
        const Half *panel, long stride, const Half *tiles, long jump, long n_tiles, long steps, float *results) {
    if (n_tiles > 1) return multiply_vectors<2>(panel, stride, tiles, jump, steps, results);
    multiply_vectors<1>(panel, stride, tiles, jump, steps, results);
}

void write(const float *results, long rows, long columns, const float *bias, float *target, long stride) {
    for (long first = 0; first < columns; first += TILE, results += TILE * TILE) {
        __m512i square[TILE];
        std::memcpy(square, results, sizeof square);
        transpose(square);
        const __mmask16 some = first_lanes(columns - first);
        const __m512 more = bias ? _mm512_maskz_loadu_ps(some, bias + first) : __m512 {};
        for (long row = 0; row < rows; row++)
            _mm512_mask_storeu_ps(target + row * stride + first, some, (__m512)square[row] + more);
    }
}

} // namespace

const TileProducts *tile_products(bool is_rounded) {
    static const TileProducts tiles {configure, release, arrange, unpack, multiply_scaled, multiply, write};
    static const TileProducts vectors {[](long) {}, [] {}, arrange, unpack, nullptr, multiply_in_vectors, write};
    if (has_tiles()) return &tiles;
    return is_rounded && has_bf16() ? &vectors : nullptr;
}

} // namespace onegraph
#else
namespace onegraph {

const TileProducts *tile_products(bool) {
    return nullptr;
}

} // namespace onegraph
#endif
