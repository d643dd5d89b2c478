// Products of any number of windows or rows of 8-bit codes and constant codes, whose columns lie in panels.

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "../amx.h"
#include "../registry.h"
#include "../shares.h"
#include "problem.h"

#include "../floats.h"

namespace onegraph {
namespace {

constexpr long NUMBERS = 4; // for each axis: taps, stride, dilation, padding at the begin
constexpr double LEAST = 128 * static_cast<double>(SHARE); // multiplications that are worth a thread

#define ONEGRAPH_LANES 4
#include "tiles.inc"

constexpr CodeTiles ON_ANY {multiply, multiply_channels};

std::int32_t integer_of(dnnl_data_type_t type, const void *source) {
    if (type == dnnl_s8) return *static_cast<const signed char *>(source);
    if (type == dnnl_u8) return *static_cast<const Code *>(source);
    return *static_cast<const std::int32_t *>(source);
}

// The exact sums of products of codes without their zero points, times a scale for each column, as f32; then steps of f32;
// then codes, if the result has some. All are dense.
//
// src (images, axes ..., channels), or (..., depth) without axes; panels (groups and panels, groups of the depth, PANEL,
// GROUP) of s8 codes, or those of depthwise windows as f32 (1, taps, channels); for the columns of all panels their scales
// (f32), and their sums without zero points (s32); their zero points (s32), if they have `zeros`; the zero point of src,
// if it is `dynamic`; an operand for each step but activations; the result.
class CodeProduct : public Runnable {
public:
    explicit CodeProduct(const KernelArguments &arguments);
    void run(void *const *addresses, int threads) const override;

private:
    void add_axes(const KernelArguments &arguments, int axes);
    void add_steps(const KernelArguments &arguments, std::size_t first, std::size_t begin);

    CodeProblem all_ {};
    bool has_zeros_, is_dynamic_, is_depthwise_ = false;
    long images_ = 1, groups_, per_group_;
    dnnl_data_type_t zero_type_ = dnnl_u8;
    std::vector<std::size_t> operands_; // by step: the place of its operand
    const CodeTiles *tiles_;
};

CodeProduct::CodeProduct(const KernelArguments &arguments)
    : has_zeros_(arguments.flag("zeros")), is_dynamic_(arguments.flag("dynamic")), groups_(arguments.number("groups")) {
    const auto tensors = arguments.tensors;
    const std::size_t count = arguments.count;
    const std::size_t least = 5 + std::size_t {has_zeros_} + is_dynamic_;
    const int axes = arguments.number("axes");
    bool fits = count >= least && arguments.n_inputs == count - 1 && axes >= 0 && axes <= SPATIAL && groups_ > 0
            && arguments.n_list() >= static_cast<std::size_t>(NUMBERS * axes);
    for (std::size_t i = 0; i < count && fits; i++)
        fits = tensors[i]->ndims >= 0 && elements_of(*tensors[i]) > 0;
    fits = fits && is_of_codes(tensors[0]->data_type) && tensors[0]->ndims > axes && tensors[count - 1]->ndims == tensors[0]->ndims
            && tensors[2]->data_type == dnnl_f32 && tensors[3]->data_type == dnnl_s32
            && (!has_zeros_ || tensors[4]->data_type == dnnl_s32)
            && (is_of_codes(tensors[count - 1]->data_type) || tensors[count - 1]->data_type == dnnl_f32);
    if (!fits) throw std::invalid_argument("no kernel for these tensors");
    const dnnl_graph_logical_tensor_t &src = *tensors[0], &panels = *tensors[1], &dst = *tensors[count - 1];
    const long src_channels = src.dims[src.ndims - 1], dst_channels = dst.dims[dst.ndims - 1];
    is_depthwise_ = panels.data_type == dnnl_f32;
    all_.flip = src.data_type == dnnl_s8 ? 128 : 0;
    all_.zero = arguments.number("zero") + all_.flip;
    all_.src_channels = src_channels, all_.channels = is_depthwise_ ? 1 : src_channels / groups_;
    all_.dst_channels = dst_channels, all_.columns = dst_channels / groups_;
    if (is_dynamic_) {
        const dnnl_graph_logical_tensor_t &zero = *tensors[least - 2];
        zero_type_ = zero.data_type;
        if (elements_of(zero) != 1 || !(is_of_codes(zero_type_) || zero_type_ == dnnl_s32))
            throw std::invalid_argument("other zero points than those of codes");
    }
    add_axes(arguments, axes);
    per_group_ = (all_.columns + PANEL - 1) / PANEL;
    all_.filled = (all_.depth + UNIT - 1) / UNIT * UNIT;
    all_.panel_stride = all_.filled * PANEL;
    const long width = is_depthwise_ ? std::max(dst_channels, PANEL) : groups_ * per_group_ * PANEL;
    const auto whole = is_depthwise_ ? all_.depth * width : groups_ * per_group_ * all_.panel_stride;
    fits = src_channels % groups_ == 0 && dst_channels % groups_ == 0
            && elements_of(panels) == static_cast<std::size_t>(whole) && (is_depthwise_ || panels.data_type == dnnl_s8)
            && (!is_depthwise_ || (groups_ == src_channels && groups_ == dst_channels && !has_zeros_));
    for (std::size_t i = 2; i < 4 + std::size_t {has_zeros_}; i++)
        fits = fits && elements_of(*tensors[i]) == static_cast<std::size_t>(width);
    if (!fits) throw std::invalid_argument("other sizes than those of a product");
    add_steps(arguments, static_cast<std::size_t>(NUMBERS * axes), least - 1);
    all_.is_rounded = dst.data_type != dnnl_f32;
    all_.factor = arguments.real("factor"), all_.dst_zero = arguments.real("dst_zero");
    all_.lowest = dst.data_type == dnnl_s8 ? -128 : 0, all_.highest = dst.data_type == dnnl_s8 ? 127 : 255;
    tiles_ = &code_tiles_of(arguments.number("level"), is_depthwise_);
}

void CodeProduct::add_axes(const KernelArguments &arguments, int axes) {
    const dnnl_graph_logical_tensor_t &src = *arguments.tensors[0], &dst = *arguments.tensors[arguments.count - 1];
    const int *const numbers = arguments.list();
    all_.depth = all_.channels;
    for (int axis = 0; axis < SPATIAL; axis++)
        all_.axes[axis] = {1, 1, 0, 1, 1, 1, 0, 1};
    const int before = src.ndims - 1 - axes; // axes of images
    long rows = 1;
    for (int axis = 0; axis < before; axis++) {
        rows *= src.dims[axis];
        if (src.dims[axis] != dst.dims[axis]) throw std::invalid_argument("other sizes than those of a product");
    }
    all_.src_image = all_.src_channels;
    if (axes == 0) { // the rows of a product are windows on one line
        all_.axes[SPATIAL - 1] = {rows, rows, 0, 1, 1, 1, 0, 1};
        all_.src_image *= rows;
        return;
    }
    images_ = rows;
    for (int axis = SPATIAL - axes, of = 0; axis < SPATIAL; axis++, of++) {
        const int *const given = numbers + NUMBERS * of;
        const long size = src.dims[before + of], results = dst.dims[before + of];
        all_.axes[axis] = {size, results, -given[3], given[1], given[0], given[2], 0, 1};
        if (given[0] < 1 || given[1] < 1 || given[2] < 1) throw std::invalid_argument("no windows");
        all_.depth *= given[0];
        all_.src_image *= size;
    }
}

void CodeProduct::add_steps(const KernelArguments &arguments, std::size_t first, std::size_t begin) {
    const auto tensors = arguments.tensors;
    const dnnl_graph_logical_tensor_t &dst = *tensors[arguments.count - 1];
    const long total = static_cast<long>(elements_of(dst)), columns = all_.dst_channels;
    std::size_t next = begin;
    for (std::size_t i = first; i < arguments.n_list(); i++) {
        if (all_.n_steps == MOST_STEPS) throw std::invalid_argument("too many steps");
        SumStep step {static_cast<StepKind>(arguments.list()[i]), nullptr, 0, 0};
        const bool has_operand = step.kind != ACTIVATE;
        if (has_operand) {
            if (next + 1 >= arguments.count || tensors[next]->data_type != dnnl_f32)
                throw std::invalid_argument("a step without an operand");
            const long elements = static_cast<long>(elements_of(*tensors[next]));
            if (elements != 1 && elements != columns && elements != total)
                throw std::invalid_argument("other sizes than those of an operand");
            step.column = elements != 1, step.row = elements == total && total != columns ? columns : 0;
        }
        operands_.push_back(has_operand ? next++ : 0);
        all_.steps[all_.n_steps++] = step;
    }
    all_.slope = arguments.real("slope");
    if (next + 1 != arguments.count) throw std::invalid_argument("operands without a step");
}

void CodeProduct::run(void *const *addresses, int threads) const {
    const std::size_t last = 4 + std::size_t {has_zeros_} + is_dynamic_;
    CodeProblem common = all_;
    if (is_dynamic_) common.zero = integer_of(zero_type_, addresses[last - 1]) + common.flip;
    const long groups = is_depthwise_ ? 1 : groups_, total = images_ * common.windows();
    const double of_window = static_cast<double>(is_depthwise_ ? 16 * common.depth * groups_ : common.depth * common.columns * groups);
    const bool is_alone = threads < 2 || !openmp().parallel || static_cast<double>(total) * of_window < 2 * LEAST;
    const long blocks = (total + BLOCK_ROWS - 1) / BLOCK_ROWS;
    // Threads share the windows; of few windows, the panels.
    const bool by_panels = !is_alone && !is_depthwise_ && blocks < 2 * threads && per_group_ > 1;
    const long wanted = is_alone ? 1 : std::min(static_cast<long>(threads), by_panels ? per_group_ : blocks);
    const long strip = strip_of(common.filled);
    const long room = strip * (common.filled + static_cast<long>(sizeof(std::int32_t)));
    const std::unique_ptr<Code[]> memory(is_depthwise_ ? nullptr : new Code[static_cast<std::size_t>(room * wanted) + UNIT]);
    together(static_cast<int>(wanted), [&](std::size_t thread) {
        const long number = static_cast<long>(thread), piece = (blocks + wanted - 1) / wanted * BLOCK_ROWS;
        const long begin = by_panels ? 0 : std::min(total, number * piece), end = by_panels ? total : std::min(total, begin + piece);
        Code *const own = is_depthwise_ ? nullptr : at_line(memory.get()) + number * room;
        for (long group = 0; group < groups; group++) {
            CodeProblem problem = common;
            const long column = group * common.columns, filled = group * per_group_ * PANEL;
            problem.src = static_cast<const Code *>(addresses[0]) + group * common.channels;
            problem.lines = static_cast<const signed char *>(addresses[1]) + group * per_group_ * common.panel_stride;
            problem.channel_lines = static_cast<const float *>(addresses[1]);
            problem.scales = static_cast<const float *>(addresses[2]) + filled;
            problem.sums = static_cast<const std::int32_t *>(addresses[3]) + filled;
            problem.zeros = has_zeros_ ? static_cast<const std::int32_t *>(addresses[4]) + filled : nullptr;
            for (long i = 0; i < common.n_steps; i++) {
                SumStep &step = problem.steps[i];
                step.operand = static_cast<const float *>(addresses[operands_[static_cast<std::size_t>(i)]]);
                if (step.kind != ACTIVATE) step.operand += column * step.column;
            }
            void *const dst = addresses[last + static_cast<std::size_t>(std::count_if(common.steps,
                    common.steps + common.n_steps, [](const SumStep &step) { return step.kind != ACTIVATE; }))];
            problem.dst = static_cast<char *>(dst) + column * (problem.is_rounded ? 1 : static_cast<long>(sizeof(float)));
            if (begin >= end) continue;
            if (is_depthwise_) {
                tiles_->multiply_channels(problem, begin, end);
                continue;
            }
            tiles_->multiply(problem, {begin, end, by_panels ? number * per_group_ / wanted : 0,
                    by_panels ? (number + 1) * per_group_ / wanted : per_group_, strip, own,
                    reinterpret_cast<std::int32_t *>(own + strip * common.filled)});
        }
    });
}

const Registered<CodeProduct> CODE_PRODUCT {"code_product",
        "groups, axes, zero, zeros, dynamic, slope: f32, factor: f32, dst_zero: f32, level, steps...: "
        "add|subtract|multiply|divide|activate"};

} // namespace

const CodeTiles &code_tiles_of(int level, bool is_depthwise) {
#if defined(__x86_64__)
    if (level > 3 && !is_depthwise && has_byte_tiles()) return CODES_AMX;
    if (level > 2 && has_vnni()) return CODES_VNNI;
    if (level > 0 && has_avx2()) return CODES_AVX2;
#endif
    (void)level, (void)is_depthwise;
    return ON_ANY;
}

} // namespace onegraph
