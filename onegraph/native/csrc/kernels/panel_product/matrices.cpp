// Products of matrices of f32 that a run computes: the columns of the second one are copied into panels.

#include <algorithm>
#include <cstdint>
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

constexpr long SETS = 2048 / sizeof(float); // rows that lie a multiple of this apart share few sets of the first cache
constexpr long LEAST = 16 * static_cast<long>(SHARE); // multiplications that are worth a thread
constexpr long COPIED = 1 << 16; // numbers in panels that are copied together, which stay in the second cache
constexpr long MOST_PANELS = 8; // that are copied together
constexpr long SOME = 8; // numbers of a column that one or two cache lines have

// The matrices of a tensor that is broadcast along the axes in front of those of the matrices.
std::vector<long> places_of(const dnnl_graph_logical_tensor_t &tensor, const dnnl_graph_logical_tensor_t &result) {
    const long size = tensor.dims[tensor.ndims - 1] * tensor.dims[tensor.ndims - 2];
    std::vector<long> places {0};
    long step = size;
    for (int axis = result.ndims - 3, own = tensor.ndims - 3; axis >= 0; axis--, own--) {
        const long dim = own >= 0 ? tensor.dims[own] : 1;
        if (dim != 1 && dim != result.dims[axis]) throw std::invalid_argument("matrices that are not broadcast");
        std::vector<long> all;
        for (long i = 0; i < result.dims[axis]; i++)
            for (const long place : places)
                all.push_back(place + (dim == 1 ? 0 : i * step));
        places.swap(all);
        step *= dim;
    }
    return places;
}

// The products of matrices. All tensors are dense f32. The sums go along the depth, for any number of rows and threads.
//
// src (..., rows, depth), weights (..., depth, columns), each of them possibly with its axes turned; the result (..., rows,
// columns).
class PanelMatrices : public Runnable {
public:
    explicit PanelMatrices(const KernelArguments &arguments);
    void run(void *const *addresses, int threads) const override;

private:
    void turn(const float *src, long row, long end_row, float *rows) const;
    void pack(const float *weights, long panel, long end_panel, float *panels) const;

    bool turns_src_, is_turned_;
    long rows_, depth_, columns_;
    std::vector<long> src_, weights_; // where each matrix begins
    const Panels &panels_;
};

PanelMatrices::PanelMatrices(const KernelArguments &arguments)
    : turns_src_(arguments.flag("turned_src")),
      is_turned_(arguments.flag("turned")),
      panels_(panels_of(arguments.number("level"))) {
    const auto tensors = arguments.tensors;
    bool is_product = arguments.count == 3;
    for (std::size_t i = 0; i < arguments.count && is_product; i++)
        is_product = tensors[i]->data_type == dnnl_f32 && elements_of(*tensors[i]) > 0 && tensors[i]->ndims > 1;
    if (!is_product) throw std::invalid_argument("no kernel for these tensors");
    const dnnl_graph_logical_tensor_t &src = *tensors[0], &weights = *tensors[1], &dst = *tensors[2];
    rows_ = src.dims[src.ndims - (turns_src_ ? 1 : 2)], depth_ = src.dims[src.ndims - (turns_src_ ? 2 : 1)];
    columns_ = weights.dims[weights.ndims - (is_turned_ ? 2 : 1)];
    const bool is_whole = weights.dims[weights.ndims - (is_turned_ ? 1 : 2)] == depth_ && dst.dims[dst.ndims - 2] == rows_
            && dst.dims[dst.ndims - 1] == columns_ && std::max(src.ndims, weights.ndims) <= dst.ndims;
    if (!is_whole) throw std::invalid_argument("other sizes than those of a product");
    src_ = places_of(src, dst), weights_ = places_of(weights, dst);
}

// Copies the columns of src from `row` to `end_row` as rows.
void PanelMatrices::turn(const float *src, long row, long end_row, float *rows) const {
    for (long first = row; first < end_row; first += SOME)
        for (long k = 0; k < depth_; k++)
            for (long i = first; i < std::min(first + SOME, end_row); i++)
                rows[(i - row) * depth_ + k] = src[k * rows_ + i];
}

// Copies the columns of some panels, with zeros behind the last column.
void PanelMatrices::pack(const float *weights, long panel, long end_panel, float *panels) const {
    for (; panel < end_panel; panel++, panels += depth_ * PANEL) {
        const long first = panel * PANEL, count = std::min(PANEL, columns_ - first);
        if (count < PANEL) std::fill_n(panels, depth_ * PANEL, 0.0f);
        if (!is_turned_) {
            for (long k = 0; k < depth_; k++)
                std::memcpy(panels + k * PANEL, weights + k * columns_ + first, static_cast<std::size_t>(count) * sizeof(float));
            continue;
        }
        const float *const source = weights + first * depth_;
        for (long k = 0; k < depth_; k += SOME)
            for (long j = 0; j < count; j++)
                for (long i = k; i < std::min(k + SOME, depth_); i++)
                    panels[i * PANEL + j] = source[j * depth_ + i];
    }
}

void PanelMatrices::run(void *const *addresses, int threads) const {
    const auto at = [&](std::size_t i) { return static_cast<float *>(addresses[i]); };
    const long matrices = static_cast<long>(src_.size()), panels = (columns_ + PANEL - 1) / PANEL;
    const long chunk = std::clamp(COPIED / (depth_ * PANEL), 1L, std::min(MOST_PANELS, panels)), chunks = (panels + chunk - 1) / chunk;
    const bool is_alone = threads < 2 || !openmp().parallel || matrices * rows_ * depth_ * columns_ < 2 * LEAST;
    const long most = (rows_ + MOST_ROWS - 1) / MOST_ROWS, wanted = is_alone ? 1 : std::min<long>(threads, matrices * chunks * most);
    // Few chunks leave threads without work, so that rows are divided too.
    const long groups = wanted == 1 || matrices * chunks % wanted == 0 ? 1 : std::clamp(4 * wanted / (matrices * chunks), 1L, most);
    const bool copies = depth_ % SETS == 0 && rows_ > MOST_ROWS;
    const long room = copies ? std::min(rows_, ROW_BLOCK) * COPY : 0, packed = chunk * depth_ * PANEL;
    const long size = packed + room + (turns_src_ ? ((rows_ + groups - 1) / groups) * depth_ : 0);
    const std::unique_ptr<float[]> memory(new float[static_cast<std::size_t>(size * wanted)]);
    together(static_cast<int>(wanted), [&](std::size_t thread) {
        const long tasks = matrices * chunks * groups, begin = static_cast<long>(thread) * tasks / wanted;
        const long end = (static_cast<long>(thread) + 1) * tasks / wanted;
        float *const own = memory.get() + static_cast<long>(thread) * size, *const copied = own + packed, *const turned = copied + room;
        long last = -1; // the rows that were turned last
        for (long task = begin; task < end; task++) { // the groups of a chunk are one behind the other
            const long group = task % groups, part = task / groups % chunks, matrix = task / groups / chunks;
            const long panel = part * chunk, end_panel = std::min(panel + chunk, panels);
            if (task == begin || group == 0) pack(at(1) + weights_[static_cast<std::size_t>(matrix)], panel, end_panel, own);
            // The panels of a problem count from the first column.
            const auto *const first = reinterpret_cast<const float *>(
                    reinterpret_cast<std::uintptr_t>(own) - static_cast<std::uintptr_t>(panel * depth_ * PANEL) * sizeof(float));
            const long row = group * rows_ / groups, end_row = (group + 1) * rows_ / groups;
            const float *rows = at(0) + src_[static_cast<std::size_t>(matrix)];
            if (turns_src_ && last != matrix * groups + group) {
                turn(rows, row, end_row, turned);
                last = matrix * groups + group;
            }
            rows = turns_src_ ? turned : rows + row * depth_;
            const PanelProblem problem {rows, first, nullptr, at(2) + (matrix * rows_ + row) * columns_, depth_, columns_};
            panels_.add(problem, {0, end_row - row, panel, end_panel, copies ? copied : nullptr});
        }
    });
}

const Registered<PanelMatrices> PANEL_MATRICES {"panel_matrices", "turned_src, turned, level"};

} // namespace
} // namespace onegraph
