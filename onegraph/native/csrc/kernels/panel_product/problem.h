// What the files of panel products share: the operands of a run, and the functions for one instruction set.

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

// The windows along an axis: that of result `i` reads the elements `begin + i * stride + tap * step` of src, so far as
// there are any.
struct WindowAxis {
    long size; // of src
    long results, begin, stride, taps, step;
    long first, every; // result `i` is element `first + i * every` of dst
};

constexpr int SPATIAL = 3; // axes of windows; the first ones of fewer axes have a single element
constexpr long STRIP = 8 * MOST_ROWS; // windows whose elements lie in rows at once

// Windows on some channels of src. All channels of an element of src lie side by side.
struct Windows {
    WindowAxis axes[SPATIAL];
    long channels, src_channels; // that a window reads, and of an element
    long depth, src_image; // elements under a window, and of an image

    long windows() const { return axes[0].results * axes[1].results * axes[2].results; } // on an image

    // Whether windows are single elements, which lie as rows do.
    bool is_product() const {
        for (const WindowAxis &axis : axes)
            if (axis.taps != 1 || axis.begin != 0 || axis.stride != 1 || axis.size != axis.results) return false;
        return channels == src_channels;
    }
};

// Windows, each with a row of sums.
struct WindowProblem : Windows {
    const float *src, *lines, *bias; // lines of the first panel, or those of all channels; the bias may be NULL
    float *dst;
    long panel_stride, columns, dst_channels;
    long dst_image, dst_strides[SPATIAL];
    float slope; // of negative results

    // Whether the results lie one behind the other.
    bool is_dense() const {
        return axes[0].every == 1 && axes[1].every == 1 && axes[2].every == 1;
    }
};

// Windows from `begin` to `end`, those of all images one behind the other, and panels. `copies` has room for the elements
// of a strip; `sums` for its sums, if they are not dense.
struct WindowShare {
    long begin, end, panel, end_panel;
    float *copies, *sums;
};

// The functions of an instruction set.
struct Panels {
    void (*add)(const PanelProblem &, const PanelShare &);
    void (*convolve)(const WindowProblem &, const WindowShare &);
    void (*convolve_channels)(const WindowProblem &, long begin, long end); // each channel by itself: depthwise
};

extern const Panels PANELS_AVX2, PANELS_AVX512;
const Panels &panels_of(int level); // the highest one that the CPU has

} // namespace onegraph
