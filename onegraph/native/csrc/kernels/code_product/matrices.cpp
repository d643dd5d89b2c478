// Products of matrices of 8-bit codes, of which none is known before a run.

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "../registry.h"
#include "../shares.h"
#include "problem.h"

#include "../floats.h"

namespace onegraph {
namespace {

constexpr double LEAST = 128 * static_cast<double>(SHARE); // multiplications that are worth a thread

// The codes of a matrix (depth, columns) whose elements lie `down` and `across` apart.
struct Matrix {
    const Code *codes;
    long down, across;
};

// Writes panels of s8 codes, and the sums of the columns.
void lay_out(const Matrix &matrix, Code flip, const CodeProblem &problem, long panels, Code *lines, std::int32_t *sums) {
    std::memset(lines, 0, static_cast<std::size_t>(panels * problem.panel_stride));
    for (long column = 0; column < panels * PANEL; column++)
        sums[column] = 0;
    for (long panel = 0; panel < panels; panel++, lines += problem.panel_stride) {
        const long first = panel * PANEL, width = std::min(PANEL, problem.columns - first);
        const Code *const source = matrix.codes + first * matrix.across;
        std::int32_t *const own = sums + first;
        if (matrix.down == 1) {
            for (long column = 0; column < width; column++) {
                const Code *const codes = source + column * matrix.across;
                std::int32_t sum = 0;
                for (long k = 0; k < problem.depth; k++)
                    sum += static_cast<signed char>(codes[k] ^ flip);
                own[column] = sum;
                Code *const target = lines + column * GROUP;
                const long whole = problem.depth / GROUP * GROUP;
                const std::uint32_t all = flip * 0x01010101U;
                for (long k = 0; k < whole; k += GROUP) {
                    std::uint32_t some;
                    std::memcpy(&some, codes + k, sizeof some);
                    some ^= all;
                    std::memcpy(target + k * PANEL, &some, sizeof some);
                }
                for (long k = whole; k < problem.depth; k++)
                    target[whole * PANEL + k - whole] = codes[k] ^ flip;
            }
            continue;
        }
        for (long k = 0; k < problem.depth; k++) {
            const Code *const codes = source + k * matrix.down;
            Code *const target = lines + k / GROUP * GROUP * PANEL + k % GROUP;
            for (long column = 0; column < width; column++) {
                const Code code = codes[column * matrix.across] ^ flip;
                target[column * GROUP] = code;
                own[column] += static_cast<signed char>(code);
            }
        }
    }
}

// The exact products of matrices of codes without their zero points, times a scale, as f32; then steps of f32, whose operands
// are single numbers or have the shape of the result; then codes, if the result has some.
//
// src (..., rows, depth) and weights (..., depth, columns), whose last axes are exchanged if `turned`, of any strides; an
// operand for each step but activations; the dense result.
class CodeMatrices : public Runnable {
public:
    explicit CodeMatrices(const KernelArguments &arguments);
    void run(void *const *addresses, int threads) const override;

private:
    CodeProblem all_ {};
    Code weights_flip_;
    int weights_zero_;
    float scale_;
    long rows_, matrices_ = 1, across_, src_row_; // between elements of a row, and between rows
    Matrix weights_ {};
    std::vector<long> src_places_, weights_places_;
    const CodeTiles &tiles_;
};

CodeMatrices::CodeMatrices(const KernelArguments &arguments)
    : weights_zero_(arguments.number("weights_zero")), scale_(arguments.real("scale")),
      tiles_(code_tiles_of(arguments.number("level"), false)) {
    const auto tensors = arguments.tensors;
    const std::size_t count = arguments.count;
    bool fits = count >= 3 && arguments.n_inputs == count - 1;
    for (std::size_t i = 0; i < count && fits; i++)
        fits = tensors[i]->ndims >= 0 && elements_of(*tensors[i]) > 0;
    const int rank = tensors[0]->ndims;
    fits = fits && rank >= 2 && is_of_codes(tensors[0]->data_type) && is_of_codes(tensors[1]->data_type)
            && tensors[1]->ndims == rank && tensors[count - 1]->ndims == rank
            && (is_of_codes(tensors[count - 1]->data_type) || tensors[count - 1]->data_type == dnnl_f32);
    if (!fits) throw std::invalid_argument("no kernel for these tensors");
    const dnnl_graph_logical_tensor_t &src = *tensors[0], &weights = *tensors[1], &dst = *tensors[count - 1];
    const auto *const src_strides = src.layout.strides, *const weights_strides = weights.layout.strides;
    const int down = rank - (arguments.flag("turned") ? 1 : 2), across = 2 * rank - 3 - down; // axes of the weights
    rows_ = src.dims[rank - 2], all_.depth = src.dims[rank - 1], all_.columns = weights.dims[across];
    fits = weights.dims[down] == all_.depth && dst.dims[rank - 2] == rows_ && dst.dims[rank - 1] == all_.columns;
    src_places_ = {0}, weights_places_ = {0};
    for (int axis = 0; axis + 2 < rank; axis++) {
        fits = fits && src.dims[axis] == weights.dims[axis] && src.dims[axis] == dst.dims[axis];
        const auto spread = [&](std::vector<long> &places, long stride) {
            std::vector<long> further;
            for (const long place : places)
                for (long i = 0; i < src.dims[axis]; i++)
                    further.push_back(place + i * stride);
            places = further;
        };
        spread(src_places_, src_strides[axis]);
        spread(weights_places_, weights_strides[axis]);
        matrices_ *= src.dims[axis];
    }
    if (!fits) throw std::invalid_argument("other sizes than those of a product");
    all_.flip = src.data_type == dnnl_s8 ? 128 : 0;
    all_.zero = arguments.number("zero") + all_.flip;
    weights_flip_ = weights.data_type == dnnl_u8 ? 128 : 0;
    weights_zero_ -= weights_flip_;
    weights_ = {nullptr, weights_strides[down], weights_strides[across]};
    across_ = src_strides[rank - 1], src_row_ = src_strides[rank - 2];
    all_.src_channels = across_ == 1 && rows_ > 1 ? src_strides[rank - 2] : all_.depth;
    all_.channels = all_.depth, all_.dst_channels = all_.columns;
    for (int axis = 0; axis < SPATIAL; axis++)
        all_.axes[axis] = {1, 1, 0, 1, 1, 1, 0, 1};
    all_.axes[SPATIAL - 1] = {rows_, rows_, 0, 1, 1, 1, 0, 1};
    all_.filled = (all_.depth + UNIT - 1) / UNIT * UNIT, all_.panel_stride = all_.filled * PANEL;
    if (across_ == 1 && rows_ > 1 && src_strides[rank - 2] < all_.depth) throw std::invalid_argument("rows that overlap");
    std::size_t next = 2;
    for (std::size_t i = 0; i < arguments.n_list(); i++) {
        if (all_.n_steps == MOST_STEPS) throw std::invalid_argument("too many steps");
        SumStep step {static_cast<StepKind>(arguments.list()[i]), nullptr, 0, 0};
        if (step.kind != ACTIVATE) {
            if (next + 1 >= count || tensors[next]->data_type != dnnl_f32)
                throw std::invalid_argument("a step without an operand");
            const std::size_t elements = elements_of(*tensors[next++]);
            if (elements != 1 && elements != elements_of(dst)) throw std::invalid_argument("other sizes than those of an operand");
            step.column = elements != 1, step.row = elements != 1 ? all_.columns : 0;
        }
        all_.steps[all_.n_steps++] = step;
    }
    if (next + 1 != count) throw std::invalid_argument("operands without a step");
    all_.slope = arguments.real("slope"), all_.is_rounded = dst.data_type != dnnl_f32;
    all_.factor = arguments.real("factor"), all_.dst_zero = arguments.real("dst_zero");
    all_.lowest = dst.data_type == dnnl_s8 ? -128 : 0, all_.highest = dst.data_type == dnnl_s8 ? 127 : 255;
}

void CodeMatrices::run(void *const *addresses, int threads) const {
    const long panels = (all_.columns + PANEL - 1) / PANEL, filled = panels * PANEL;
    const double total = static_cast<double>(matrices_) * static_cast<double>(rows_ * all_.depth * all_.columns);
    const bool is_alone = threads < 2 || !openmp().parallel || total < 2 * LEAST;
    const long blocks = (rows_ + BLOCK_ROWS - 1) / BLOCK_ROWS, some = is_alone ? 1 : threads;
    const long parts = std::clamp((some + matrices_ - 1) / matrices_, 1L, blocks); // of the rows of a matrix
    const long wanted = std::min(some, matrices_ * parts), strip = strip_of(all_.filled);
    const long copied = across_ == 1 ? 0 : rows_ * all_.depth; // rows whose elements lie apart
    const long room = (panels * all_.panel_stride + strip * (all_.filled + 4) + filled * 12 + copied + UNIT - 1) / UNIT * UNIT;
    const std::unique_ptr<Code[]> memory(new Code[static_cast<std::size_t>(room * wanted) + UNIT]);
    together(static_cast<int>(wanted), [&](std::size_t thread) {
        Code *const lines = at_line(memory.get()) + static_cast<long>(thread) * room;
        auto *const sums = reinterpret_cast<std::int32_t *>(lines + panels * all_.panel_stride);
        auto *const zeros = sums + filled;
        auto *const scales = reinterpret_cast<float *>(zeros + filled);
        auto *const row_sums = reinterpret_cast<std::int32_t *>(scales + filled);
        Code *const copies = reinterpret_cast<Code *>(row_sums + strip), *const rows = copies + strip * all_.filled;
        for (long i = 0; i < filled; i++)
            zeros[i] = weights_zero_, scales[i] = scale_;
        CodeProblem problem = all_;
        problem.lines = reinterpret_cast<const signed char *>(lines), problem.scales = scales;
        problem.sums = sums, problem.zeros = weights_zero_ ? zeros : nullptr;
        const long tasks = matrices_ * parts, number = static_cast<long>(thread);
        for (long task = number * tasks / wanted, last = -1; task < (number + 1) * tasks / wanted; task++) {
            const long matrix = task / parts, part = task % parts;
            const auto at = static_cast<std::size_t>(matrix);
            const Code *const src = static_cast<const Code *>(addresses[0]) + src_places_[at];
            if (matrix != last) {
                Matrix weights = weights_;
                weights.codes = static_cast<const Code *>(addresses[1]) + weights_places_[at];
                lay_out(weights, weights_flip_, all_, panels, lines, sums);
                for (long i = 0; i < filled; i++)
                    sums[i] -= static_cast<std::int32_t>(all_.depth) * weights_zero_;
                for (long i = 0; i < copied; i++)
                    rows[i] = src[i / all_.depth * src_row_ + i % all_.depth * across_];
                last = matrix;
            }
            problem.src = copied ? rows : src;
            const long place = matrix * rows_ * all_.columns;
            std::size_t next = 2;
            for (long i = 0; i < all_.n_steps; i++)
                if (all_.steps[i].kind != ACTIVATE)
                    problem.steps[i].operand = static_cast<const float *>(addresses[next++]) + place * all_.steps[i].column;
            problem.dst = static_cast<char *>(addresses[next]) + place * (all_.is_rounded ? 1 : static_cast<long>(sizeof(float)));
            const long begin = part * blocks / parts * BLOCK_ROWS, end = std::min(rows_, (part + 1) * blocks / parts * BLOCK_ROWS);
            tiles_.multiply(problem, {begin, end, 0, panels, strip, copies, row_sums});
        }
    });
}

const Registered<CodeMatrices> CODE_MATRICES {"code_matrices",
        "turned, zero, weights_zero, scale: f32, slope: f32, factor: f32, dst_zero: f32, level, steps...: "
        "add|subtract|multiply|divide|activate"};

} // namespace
} // namespace onegraph
