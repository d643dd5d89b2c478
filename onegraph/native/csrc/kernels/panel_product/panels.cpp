// Products of any number of rows and a constant matrix of f32, whose columns lie in panels.

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "../registry.h"
#include "../shares.h"
#include "problem.h"

#include "../floats.h"

namespace onegraph {
namespace {

constexpr long SETS = 2048 / sizeof(float); // rows that lie a multiple of this apart share few sets of the first cache
constexpr long LEAST = 16 * static_cast<long>(SHARE); // multiplications that are worth a thread

#define ONEGRAPH_LANES 4
#include "tiles.inc"

constexpr Panels ON_ANY {add, convolve, convolve_channels};

// The products of matrices of rows, each with a matrix of its own, and a bias, which may be missing. All are dense f32. The
// sums go along the depth, for any number of rows and of threads.
//
// rows (..., depth), panels (matrices and panels, depth, PANEL) of columns, the last one of each matrix of which is filled
// up, a bias (columns); the result (..., columns).
class PanelProduct : public Runnable {
public:
    explicit PanelProduct(const KernelArguments &arguments);
    void run(void *const *addresses, int threads) const override;

private:
    bool has_bias_;
    long matrices_, rows_, depth_, columns_; // rows of each matrix
    const Panels &panels_;
};

PanelProduct::PanelProduct(const KernelArguments &arguments)
    : has_bias_(arguments.flag("bias")),
      panels_(panels_of(arguments.number("level"))) {
    const std::size_t count = arguments.count;
    const auto tensors = arguments.tensors;
    bool is_product = count == std::size_t {3} + has_bias_ && tensors[0]->ndims > 0 && tensors[1]->ndims == 3
            && tensors[count - 1]->ndims > 0;
    for (std::size_t i = 0; i < count && is_product; i++)
        is_product = tensors[i]->data_type == dnnl_f32 && elements_of(*tensors[i]) > 0;
    if (!is_product) throw std::invalid_argument("no kernel for these tensors");
    const dnnl_graph_logical_tensor_t &src = *tensors[0], &panels = *tensors[1], &dst = *tensors[count - 1];
    depth_ = src.dims[src.ndims - 1];
    columns_ = dst.dims[dst.ndims - 1];
    matrices_ = panels.dims[0] / ((columns_ + PANEL - 1) / PANEL);
    const long rows = static_cast<long>(elements_of(src)) / depth_;
    rows_ = rows / std::max(matrices_, 1L);
    const bool is_whole = panels.dims[0] == matrices_ * ((columns_ + PANEL - 1) / PANEL) && panels.dims[1] == depth_
            && panels.dims[2] == PANEL && rows == matrices_ * rows_ && rows > 0
            && elements_of(dst) == static_cast<std::size_t>(rows * columns_)
            && (!has_bias_ || elements_of(*tensors[2]) == static_cast<std::size_t>(columns_));
    if (!is_whole) throw std::invalid_argument("other sizes than those of a product");
}

void PanelProduct::run(void *const *addresses, int threads) const {
    const auto at = [&](std::size_t i) { return static_cast<float *>(addresses[i]); };
    const long per_matrix = (columns_ + PANEL - 1) / PANEL, panels = matrices_ * per_matrix;
    const long most = (rows_ + MOST_ROWS - 1) / MOST_ROWS;
    const bool is_alone = threads < 2 || !openmp().parallel || matrices_ * rows_ * depth_ * columns_ < 2 * LEAST;
    const long wanted = is_alone ? 1 : std::min(static_cast<long>(threads), panels * most);
    // Few panels leave threads without work, so that rows are divided too.
    const long groups = wanted == 1 || panels % wanted == 0 ? 1 : std::clamp(4 * wanted / panels, 1L, most);
    const bool copies = depth_ % SETS == 0 && rows_ > MOST_ROWS;
    const long size = copies ? std::min(rows_, ROW_BLOCK) * COPY : 0;
    const std::unique_ptr<float[]> memory(copies ? new float[static_cast<std::size_t>(size * wanted)] : nullptr);
    together(static_cast<int>(wanted), [&](std::size_t thread) {
        const long begin = static_cast<long>(thread) * panels * groups / wanted;
        const long end = (static_cast<long>(thread) + 1) * panels * groups / wanted;
        float *const own = copies ? memory.get() + static_cast<long>(thread) * size : nullptr;
        for (long task = begin; task < end;) { // the groups of a matrix are one behind the other
            const long matrix = task / (per_matrix * groups), inside = task % (per_matrix * groups);
            const long group = inside / per_matrix, panel = inside % per_matrix;
            const long count = std::min(end - task, per_matrix - panel);
            const PanelProblem problem {at(0) + matrix * rows_ * depth_, at(1) + matrix * per_matrix * depth_ * PANEL,
                    has_bias_ ? at(2) : nullptr, at(has_bias_ ? 3 : 2) + matrix * rows_ * columns_, depth_, columns_};
            panels_.add(problem, {group * rows_ / groups, (group + 1) * rows_ / groups, panel, panel + count, own});
            task += count;
        }
    });
}

const Registered<PanelProduct> PANEL_PRODUCT {"panel_product", "bias, level"};

} // namespace

const Panels &panels_of(int level) {
#if defined(__x86_64__)
    if (level > 1 && has_avx512()) return PANELS_AVX512;
    if (level > 0 && has_avx2()) return PANELS_AVX2;
#endif
    (void)level;
    return ON_ANY;
}

} // namespace onegraph
