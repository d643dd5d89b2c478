// What the files of products of codes share: the operands of a run, and the functions for one instruction set.

#pragma once

#include <algorithm>
#include <cstdint>

#include "guard.h"

#include "../panel_product/problem.h"

namespace onegraph {

using Code = unsigned char;

constexpr long GROUP = 4; // codes of a column that lie side by side
constexpr long UNIT = 64; // codes of a row that the tiles of AMX take at once; panels are filled up
constexpr long BLOCK_ROWS = 32; // whose sums with a panel are finished together
constexpr long MOST_STEPS = 8;

// What happens to sums one after the other. An operand has one number, one for each column, or one for each result.
enum StepKind { ADD, SUBTRACT, MULTIPLY, DIVIDE, ACTIVATE };

struct SumStep {
    StepKind kind;
    const float *operand; // of the first column and window; NULL for an activation
    long column, row; // from a number to that of the next column, and of the next window
};

// Windows of codes, and columns of codes that lie in panels; each depthwise channel has a column of numbers.
struct CodeProblem : Windows {
    const Code *src;
    Code flip; // of the highest bit of src, so that its codes are unsigned
    int zero; // of the unsigned codes
    const signed char *lines; // (panels, groups of the depth, PANEL, GROUP)
    const float *channel_lines; // (taps, channels) of depthwise windows: codes minus their zero points
    long panel_stride, filled, columns, dst_channels;
    const float *scales; // of all columns of panels, as the following are
    const std::int32_t *sums, *zeros; // of the columns without their zero points; the zero points, or NULL
    SumStep steps[MOST_STEPS];
    long n_steps;
    float slope; // of negative numbers in an activation
    void *dst;
    bool is_rounded; // to codes: times a factor, plus a zero point, not below the lowest code nor above the highest one
    float factor, dst_zero, lowest, highest;
};

// Windows from `begin` to `end`, those of all images one behind the other, and panels. `copies` has room for the codes of a
// strip of windows, `sums` for their sums.
struct CodeShare {
    long begin, end, panel, end_panel, strip;
    Code *copies;
    std::int32_t *sums;
};

struct CodeTiles {
    void (*multiply)(const CodeProblem &, const CodeShare &);
    void (*multiply_channels)(const CodeProblem &, long begin, long end); // each channel by itself: depthwise
};

extern const CodeTiles CODES_AVX2, CODES_VNNI, CODES_AMX;
const CodeTiles &code_tiles_of(int level, bool is_depthwise); // the highest ones that the CPU has

constexpr long STRIP_CODES = 1 << 18; // of a strip of windows, which stay in the second cache

inline long strip_of(long filled) {
    return std::clamp(STRIP_CODES / filled / BLOCK_ROWS * BLOCK_ROWS, BLOCK_ROWS, 4 * BLOCK_ROWS);
}

inline bool is_of_codes(dnnl_data_type_t type) {
    return type == dnnl_s8 || type == dnnl_u8;
}

// The first address from `memory` on where a line of the cache begins.
inline Code *at_line(Code *memory) {
    const auto misplaced = reinterpret_cast<std::uintptr_t>(memory) % UNIT;
    return memory + (misplaced ? UNIT - misplaced : 0);
}

} // namespace onegraph
