// What the files of panel products share: the operands of a run, and the function for one instruction set.

#pragma once

#include <cstddef>

namespace onegraph {

constexpr long PANEL = 32; // columns of a panel
constexpr long DEPTH = 256; // lines of a panel that meet all rows before the next ones are read: they stay in the first cache
constexpr long MOST_ROWS = 14; // whose sums are kept in registers
constexpr long ROW_BLOCK = 36 * MOST_ROWS; // rows of which so many elements stay in the second cache
constexpr long AHEAD = 1024 / sizeof(float); // numbers between what is read and what is fetched into the cache
constexpr long COPY = DEPTH + 16; // numbers between copies of rows, which lie in other sets of the cache

struct PanelProblem {
    const float *rows, *panels, *bias; // the bias may be NULL
    float *sums;
    long depth, columns;
};

// What a thread computes. `copies` has room for a block of rows, or is NULL.
struct PanelShare {
    long row, end_row, panel, end_panel;
    float *copies;
};

using AddPanels = void (*)(const PanelProblem &, const PanelShare &);

extern const AddPanels ADD_PANELS_AVX2, ADD_PANELS_AVX512;

} // namespace onegraph
