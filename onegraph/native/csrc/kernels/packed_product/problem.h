// What the files of packed products share: the operands of a call, and the functions for one instruction set.

#pragma once

#include <cstddef>
#include <cstdint>

namespace onegraph {

// Words are 32 bits of packed weights. A unit is as many words as a register has lanes. Element k of src belongs to word
// k / PER of its unit, where PER is the number of codes in a word. The prepared src has the elements of a unit ordered by
// their place in a word first, so that each shift of a register of words meets one register of src.
constexpr long WORD = 4; // bytes
constexpr long BLOCK_DEPTH = 1024; // elements of src whose products are summed before the next ones are unpacked
constexpr long COLUMNS = 96; // columns that are unpacked together
constexpr long TOGETHER = 4; // columns that are read at once
constexpr long AHEAD = 1024; // bytes between what is read and what is fetched into the cache

// A matrix (columns, depth) of codes, a row of which is the weights of one column of the result. The depth is a multiple
// of a unit of every instruction set.
struct PackedMatrix {
    const char *codes;
    long depth, bytes; // elements and bytes of a row
    long known; // elements of a row that are no padding
    int flip; // what makes signed codes of the codes, by exclusive or; of every word
    long group; // elements that share a scale: a divisor or a multiple of a unit
};

// Scales and zero points of a column, in f32 and filled up to the padded depth. Zero points are those of signed codes.
struct PackedColumn {
    const char *codes;
    const float *scales, *zeros; // zeros may be NULL in exact products
};

// Prepared rows of src, one behind another.
struct PackedRows {
    const float *numbers; // (rows, depth)
    const float *sums; // (rows, words of a row): of the numbers or codes of a word
    const std::int8_t *codes; // (rows, depth), in 8-bit products
    const float *steps; // (rows, words of a row): the scale of the codes of a word
};

struct PackedTiles {
    long lanes;
    // Products of 1, 2 or 4 rows and one column, or TOGETHER ones: writes a sum for each row of the first column, then
    // those of the others.
    void (*exact)(const PackedMatrix &, const PackedColumn *, long n_columns, const PackedRows &, long width, long rows,
            float *sums);
    void (*coded)(const PackedMatrix &, const PackedColumn *, long n_columns, const PackedRows &, long width, long rows,
            float *sums);
    // Unpacks the elements from `begin` to `end` of a column, both multiples of a unit, in the order of prepared rows.
    void (*unpack)(const PackedMatrix &, const PackedColumn &, long width, long begin, long end, float *numbers);
    // Adds the products of rows and columns of `depth` numbers to results, rows of which lie `stride` numbers apart.
    void (*multiply)(const float *rows, long row_stride, long n_rows, const float *columns, long column_stride,
            long n_columns, long depth, float *results, long stride);
};

extern const PackedTiles PACKED_PORTABLE, PACKED_AVX2, PACKED_AVX512, PACKED_VNNI;

// The widths of weights: bits of a code, and the numbers of 16 bits.
enum : long { FOUR = 4, EIGHT = 8, HALF_BF16 = 16, HALF_F16 = 17 };

constexpr long per_word(long width) {
    return width == FOUR ? 8 : width == EIGHT ? 4 : 2;
}

} // namespace onegraph
