// Convolutions of any number of windows with constant weights of f32, whose channels lie in panels.

#include <algorithm>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "registry.h"
#include "shares.h"
#include "panel_product/problem.h"

#include "floats.h"

namespace onegraph {
namespace {

constexpr long NUMBERS = 4; // for each axis: taps, stride, dilation, padding at the begin
constexpr long SETS = 2048 / sizeof(float); // rows that lie a multiple of this apart share few sets of the first cache
constexpr double LEAST = 2 * 16 * static_cast<double>(SHARE); // multiplications that are worth two threads

// A Convolution, or a ConvTranspose, of each of some groups of channels, and a bias, which may be missing; then negative
// results times a slope. All are dense f32. The sums go along the depth, for any number of windows and of threads.
//
// src (images, axes ..., channels), panels (groups and panels, depth, PANEL) of columns, the last one of each group of which
// is filled up, a bias (columns of all groups); the result (images, axes ..., columns of all groups). If each channel is a
// group with one column, there is one panel of all channels.
//
// A ConvTranspose is a convolution for each residue of a place of dst by the strides, which some of the taps reach: those of
// one residue lie one behind the other in the panels, the last axis of the residues first, and in the order of the elements
// of src that they meet.
class PanelConvolution : public Runnable {
public:
    explicit PanelConvolution(const KernelArguments &arguments);
    void run(void *const *addresses, int threads) const override;

private:
    void add_problems(const KernelArguments &arguments);

    bool has_bias_, is_depthwise_ = false;
    long images_;
    const Panels &panels_;
    std::vector<WindowProblem> problems_; // whose src, lines, bias and dst are places in those tensors
    std::vector<long> lines_, sources_, columns_; // the places
};

// The windows of a ConvTranspose for the places `residue`, `residue + stride`, ...; the first of their taps.
WindowAxis turned(long size, long dst_size, const int *numbers, long residue) {
    const long taps = numbers[0], stride = numbers[1], dilation = numbers[2], pad = numbers[3];
    const long step = stride / std::gcd(stride, dilation);
    long first = 0; // tap that meets the place `residue + pad` from an element of src
    while (first < step && (residue + pad - first * dilation) % stride != 0)
        first++;
    const long count = first < std::min(step, taps) ? (taps - 1 - first) / step + 1 : 0;
    const long last = first + (count - 1) * step; // which meets the first element
    const long results = residue < dst_size ? (dst_size - 1 - residue) / stride + 1 : 0;
    return {size, results, count ? (residue + pad - last * dilation) / stride : 0, 1, count, dilation * step / stride,
            residue, stride};
}

PanelConvolution::PanelConvolution(const KernelArguments &arguments)
    : has_bias_(arguments.flag("bias")),
      panels_(panels_of(arguments.number("level"))) {
    const std::size_t count = arguments.count;
    const auto tensors = arguments.tensors;
    const long axes = static_cast<long>(arguments.n_list()) / NUMBERS;
    bool fits = count == std::size_t {3} + has_bias_ && arguments.number("groups") > 0 && axes > 0 && axes <= SPATIAL
            && tensors[0]->ndims == axes + 2 && tensors[1]->ndims == 3 && tensors[count - 1]->ndims == axes + 2;
    for (std::size_t i = 0; i < count && fits; i++)
        fits = tensors[i]->data_type == dnnl_f32 && (i == 1 || elements_of(*tensors[i]) > 0);
    if (!fits) throw std::invalid_argument("no kernel for these tensors");
    images_ = tensors[0]->dims[0];
    add_problems(arguments);
}

void PanelConvolution::add_problems(const KernelArguments &arguments) {
    const dnnl_graph_logical_tensor_t &src = *arguments.tensors[0], &panels = *arguments.tensors[1],
                                      &dst = *arguments.tensors[arguments.count - 1];
    const int axes = src.ndims - 2, *const numbers = arguments.list();
    const bool is_turned = arguments.flag("transposed");
    const long groups = arguments.number("groups"), src_channels = src.dims[axes + 1], dst_channels = dst.dims[axes + 1];
    WindowProblem all {};
    all.src_channels = src_channels, all.channels = src_channels / groups;
    all.dst_channels = dst_channels, all.columns = dst_channels / groups;
    all.panel_stride = panels.dims[1] * PANEL, all.slope = arguments.real("slope");
    all.src_image = src_channels, all.dst_image = dst_channels;
    long residues = 1, residues_of[SPATIAL], taps = 1;
    for (int axis = SPATIAL - 1, of = axes - 1; axis >= 0; axis--, of--) {
        all.dst_strides[axis] = all.dst_image;
        all.src_image *= of < 0 ? 1 : src.dims[of + 1];
        all.dst_image *= of < 0 ? 1 : dst.dims[of + 1];
        residues_of[axis] = of < 0 || !is_turned ? 1 : numbers[NUMBERS * of + 1];
        residues *= residues_of[axis];
        taps *= of < 0 ? 1 : numbers[NUMBERS * of];
    }
    is_depthwise_ = groups > 1 && groups == src_channels && groups == dst_channels;
    const long per_group = (all.columns + PANEL - 1) / PANEL;
    const long n_panels = is_depthwise_ ? 1 : groups * per_group, width = is_depthwise_ ? groups : PANEL;
    if (src_channels % groups || dst_channels % groups || panels.dims[0] != n_panels || panels.dims[2] != width
            || panels.dims[1] != taps * all.channels || dst.dims[0] != images_
            || (has_bias_ && elements_of(*arguments.tensors[2]) != static_cast<std::size_t>(dst_channels)))
        throw std::invalid_argument("other sizes than those of a convolution");
    long line = 0;
    for (long residue = 0; residue < residues; residue++) {
        WindowProblem problem = all;
        problem.depth = all.channels;
        for (int axis = SPATIAL - 1, of = axes - 1; axis >= 0; axis--, of--) {
            long rest = residue; // the last axis changes fastest
            for (int behind = SPATIAL - 1; behind > axis; behind--)
                rest /= residues_of[behind];
            const int *const given = numbers + NUMBERS * std::max(of, 0);
            if (of < 0)
                problem.axes[axis] = {1, 1, 0, 1, 1, 1, 0, 1};
            else if (is_turned)
                problem.axes[axis] = turned(src.dims[of + 1], dst.dims[of + 1], given, rest % residues_of[axis]);
            else
                problem.axes[axis] = {src.dims[of + 1], dst.dims[of + 1], -given[3], given[1], given[0], given[2], 0, 1};
            problem.depth *= problem.axes[axis].taps;
        }
        for (long group = 0; group < (is_depthwise_ ? 1 : groups) && problem.windows() > 0; group++) {
            problems_.push_back(problem);
            lines_.push_back(group * per_group * all.panel_stride + line * width);
            sources_.push_back(group * all.channels);
            columns_.push_back(group * all.columns);
        }
        line += problem.depth;
    }
    if (line != panels.dims[1]) throw std::invalid_argument("other taps than those of a convolution");
}

void PanelConvolution::run(void *const *addresses, int threads) const {
    const auto at = [&](std::size_t i) { return static_cast<float *>(addresses[i]); };
    long total = 0, columns = 0;
    double multiplications = 0;
    bool copies = false, sums = false;
    for (const WindowProblem &problem : problems_) {
        const long windows = images_ * problem.windows();
        total += windows, columns = std::max(columns, problem.columns);
        const long of_window = (problem.depth + 1) * (is_depthwise_ ? 8 * problem.dst_channels : problem.columns);
        multiplications += static_cast<double>(windows) * static_cast<double>(of_window);
        copies |= !is_depthwise_ && (!problem.is_product() || problem.depth % SETS == 0);
        sums |= !is_depthwise_ && !problem.is_dense();
    }
    const bool is_alone = threads < 2 || !openmp().parallel || multiplications < LEAST;
    const long panels = (columns + PANEL - 1) / PANEL, most = (total + MOST_ROWS - 1) / MOST_ROWS;
    // Threads share the windows; of few windows, the panels.
    const bool by_panels = !is_alone && !is_depthwise_ && most < 2 * threads && panels > 1;
    const long wanted = is_alone ? 1 : std::min(static_cast<long>(threads), by_panels ? panels : most);
    const long room = (copies ? STRIP * COPY : 0) + (sums ? STRIP * panels * PANEL : 0);
    const std::unique_ptr<float[]> memory(room ? new float[static_cast<std::size_t>(room * wanted)] : nullptr);
    together(static_cast<int>(wanted), [&](std::size_t thread) {
        const long number = static_cast<long>(thread), piece = (most + wanted - 1) / wanted * MOST_ROWS;
        float *const own = memory.get() + number * room, *const own_sums = own + (copies ? STRIP * COPY : 0);
        const long begin = by_panels ? 0 : number * piece, end = by_panels ? total : std::min(total, begin + piece);
        for (std::size_t i = 0, first = 0; i < problems_.size(); i++) {
            WindowProblem problem = problems_[i];
            const long windows = images_ * problem.windows(), before = static_cast<long>(first);
            first += static_cast<std::size_t>(windows);
            problem.src = at(0) + sources_[i];
            problem.lines = at(1) + lines_[i];
            problem.bias = has_bias_ ? at(2) + columns_[i] : nullptr;
            problem.dst = at(has_bias_ ? 3 : 2) + columns_[i];
            if (is_depthwise_) {
                panels_.convolve_channels(problem, std::max(begin - before, 0L), std::min(end - before, windows));
                continue;
            }
            const long in_group = (problem.columns + PANEL - 1) / PANEL;
            const WindowShare share {std::max(begin - before, 0L), std::min(end - before, windows),
                    by_panels ? number * in_group / wanted : 0, by_panels ? (number + 1) * in_group / wanted : in_group,
                    problem.is_product() && problem.depth % SETS != 0 ? nullptr : own, own_sums};
            if (share.begin < share.end && share.panel < share.end_panel) panels_.convolve(problem, share);
        }
    });
}

const Registered<PanelConvolution> PANEL_CONVOLUTION {
        "panel_convolution", "transposed, groups, bias, slope: f32, level, windows..."};

} // namespace
} // namespace onegraph
