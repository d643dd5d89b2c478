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
// Bytes between what is read and what is fetched into a cache. Codes take longer to multiply than to read.
constexpr long AHEAD = 1024, CODES_AHEAD = 4096;

// A matrix (columns, depth) of codes, a row of which is the weights of one column of the result. The depth is a multiple
// of a unit of every instruction set.
struct PackedMatrix {
    const char *codes;
    long depth, bytes; // elements and bytes of a row
    long known; // elements of a row that are no padding
    long whole; // of them, those in units; of numbers, nothing else is read behind them
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
    const std::int32_t *offsets; // (rows, words of a row): what unsigned codes add to a word; NULL if columns have zero points
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
    // Writes columns of a matrix (depth, stride) of numbers of 2 or 4 bytes as rows.
    void (*turn)(const void *source, long stride, long depth, long columns, std::size_t size, void *rows);
};

constexpr long TILE = 16; // rows and columns of a tile of results
constexpr long PANEL = 2 * TILE; // columns that meet rows together
constexpr long STEP = 32; // elements along the depth that tiles of bf16 have

// Products of many rows by the tiles of AMX. A tile of results has PANEL rows, those of two tiles, of TILE numbers: a
// column of the weights in a row, a row of src in a column. A panel has PANEL rows of bf16 numbers, `stride` apart.
struct TileProducts {
    void (*configure)(long step); // of this thread, for `step` elements along the depth in a tile
    void (*release)();
    // Writes tiles of TILE rows, of which some may be NULL: for each step as many tiles as there are `pieces`, bf16 numbers
    // whose sum is that of src. `known`: elements of a row that are no padding.
    void (*arrange)(const float *const *rows, long known, long depth, long step, long pieces, std::uint16_t *tiles);
    // Writes numbers of a column from `begin` to `end`, both multiples of a step: the weights, or codes minus zero points.
    void (*unpack)(const PackedMatrix &, const PackedColumn &, long width, bool is_scaled, long begin, long end,
            std::uint16_t *numbers);
    // Adds the products of a panel of whole numbers and a tile of rows; `steps` make a segment, whose PANEL scales lie one
    // behind another.
    void (*multiply_scaled)(const std::uint16_t *panel, long stride, const std::uint16_t *tiles, long pieces, long step,
            long steps, long n_segments, const float *scales, float *results);
    // Adds the products of a panel and one or two tiles of rows, which lie `jump` numbers apart.
    void (*multiply)(const std::uint16_t *panel, long stride, const std::uint16_t *tiles, long jump, long n_tiles, long steps,
            float *results);
    // Writes `rows` rows of `columns` numbers, `stride` apart, and adds a bias, which may be NULL.
    void (*write)(const float *results, long rows, long columns, const float *bias, float *target, long stride);
};

// Those of vectors of bf16 if the CPU has no such tiles, or the system does not let this process use them. These have no
// products of whole numbers, so that both operands are rounded. NULL if there are none.
const TileProducts *tile_products(bool is_rounded);

constexpr long CODED_ROWS = 4; // rows whose codes lie side by side
constexpr long CODED_COLUMNS = 16; // columns of a panel of codes
constexpr long MOST_SUMS = 3 * CODED_ROWS * CODED_COLUMNS; // that are computed at once

// The codes of CODED_ROWS rows of src, and more such rows behind them: a block of codes shares a step. Four codes along the
// depth belong to each four of a panel, those of all rows side by side, and so do steps and sums of blocks.
struct CodedRows {
    const std::int8_t *codes;
    const float *steps; // of blocks
    const float *sums; // of the codes of blocks
    const std::int32_t *offsets; // what the unsigned codes of weights add to a block, if no column has zero points
    long blocks, fours; // blocks of a row, and fours of codes of a block
    long stride; // between the blocks of CODED_ROWS rows and those of the next ones
};

// CODED_COLUMNS columns of unsigned codes, four of each side by side, and their scales and zero points, which may be NULL.
// The codes may be NULL too; then a product turns those of the columns.
struct CodePanel {
    const PackedMatrix *matrix;
    const char *const *columns;
    const char *codes;
    const float *scales, *zeros;
    long blocks_of_group;
};

// Products of several rows of 8-bit codes and panels of packed weights.
struct CodeProducts {
    void (*turn_codes)(const PackedMatrix &, const char *const *columns, long width, char *panel);
    // Groups of CODED_COLUMNS columns, side by side; memory for whole squares is written.
    void (*turn_scales)(const float *const *columns, long groups, float *lines);
    // Writes the sums of some of `units` of CODED_ROWS rows, and returns how many.
    long (*multiply)(const CodePanel &, const CodedRows &, long width, long units, float *results);
};

// NULL if the CPU has no sums of products of bytes.
const CodeProducts *code_products();

extern const PackedTiles PACKED_PORTABLE, PACKED_AVX2, PACKED_AVX512, PACKED_VNNI;

// The widths of weights: bits of a code, and the numbers of 16 and 32 bits.
enum : long { FOUR = 4, EIGHT = 8, HALF_BF16 = 16, HALF_F16 = 17, FULL = 32 };

constexpr long per_word(long width) {
    return width == FOUR ? 8 : width == EIGHT ? 4 : width == FULL ? 1 : 2;
}

} // namespace onegraph
