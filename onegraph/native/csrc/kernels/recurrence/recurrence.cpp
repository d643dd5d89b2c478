// Divides the steps of a recurrent network between threads.

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <vector>

#include "problem.h"

#include "../../kernels.h"
#include "../shares.h"

#include "../floats.h"

namespace onegraph {
namespace {

RecurrenceStep step_for(int gates, int level) {
#if defined(__x86_64__)
    if (level > 1 && has_avx512()) return recurrence_step_avx512(gates);
    if (level > 0 && has_avx2()) return recurrence_step_avx2(gates);
#endif
    return recurrence_step_portable(gates);
}

// Elements of `share` for products of so many numbers: a region of threads takes as long as some 100,000 of them.
std::size_t weighed(long products) {
    return static_cast<std::size_t>(products) / 16 + 1;
}

} // namespace

Recurrence::Recurrence(
        std::size_t n_inputs, std::size_t count, dnnl_graph_logical_tensor_t *const *tensors, const int *code)
    : has_hidden_(false), has_cell_(false), gives_cell_(false), problem_(std::make_unique<RecurrenceProblem>()) {
    RecurrenceProblem &p = *problem_;
    p.gates = code[onegraph_recurrence_gates];
    p.is_relu = code[onegraph_recurrence_relu] != 0;
    p.reversed = static_cast<unsigned>(code[onegraph_recurrence_reversed]);
    has_hidden_ = code[onegraph_recurrence_hidden] != 0, has_cell_ = code[onegraph_recurrence_cell] != 0;
    const std::size_t inputs = 2u + has_hidden_ + has_cell_, outputs = count - n_inputs;
    if ((p.gates != 1 && p.gates != 3 && p.gates != 4) || n_inputs != inputs || outputs < 2
            || outputs > (p.gates == 4 ? 3u : 2u))
        throw std::invalid_argument("wrong number of tensors");
    const auto &states = *tensors[n_inputs];
    p.steps = states.dims[0], p.directions = states.dims[1], p.batch = states.dims[2], p.units = states.dims[3];
    gives_cell_ = outputs == 3;
    step_ = step_for(p.gates, code[onegraph_recurrence_level]);
}

Recurrence::~Recurrence() = default;

void Recurrence::run(void *const *addresses, int threads) const {
    const RecurrenceProblem &p = *problem_;
    const auto next = [&] { return static_cast<float *>(*addresses++); };
    RecurrenceMemory m {};
    const auto size = static_cast<std::size_t>(p.directions * p.batch * p.units);
    const std::vector<float> zeros(has_hidden_ && (has_cell_ || p.gates != 4) ? 0 : size);
    std::vector<float> cell(p.gates == 4 && !gives_cell_ ? size : 0);
    m.inputs = next(), m.weights = next();
    m.hidden = has_hidden_ ? next() : zeros.data();
    m.cell = has_cell_ ? next() : zeros.data();
    m.states = next(), m.last_hidden = next();
    m.last_cell = gives_cell_ ? next() : cell.data();

    const long products = p.units * p.units * p.gates; // of one row in one step
    // Rows of the batch and directions do not depend on each other, so their threads need not meet after each step.
    const long all = std::max(threads, 1), lanes = std::min((all + p.directions - 1) / p.directions, p.batch);
    const long rows = (p.batch + lanes - 1) / lanes, parts = (p.batch + rows - 1) / rows, tasks = parts * p.directions;
    if (all == 1 || 2 * tasks > all) {
        const bool is_worth_it = weighed(p.steps * p.directions * p.batch * products) >= 2 * SHARE;
        std::atomic<long> taken {0};
        together(is_worth_it ? static_cast<int>(std::min(all, tasks)) : 1, [&](std::size_t) {
            for (long task; (task = taken.fetch_add(1)) < tasks;) {
                const long begin = task % parts * rows, end = std::min(begin + rows, p.batch);
                for (long step = 0; step < p.steps; step++)
                    step_(p, m, task / parts, step, begin, end, 0, p.blocks());
            }
        });
        return;
    }
    const std::size_t unit = weighed(p.batch * products / p.blocks());
    for (long step = 0; step < p.steps; step++)
        share(static_cast<std::size_t>(p.directions * p.blocks()) * unit, threads, unit, [&](std::size_t begin, std::size_t end) {
            for (auto at = static_cast<long>(begin / unit); at < static_cast<long>(end / unit); at++)
                step_(p, m, at / p.blocks(), step, 0, p.batch, at % p.blocks(), at % p.blocks() + 1);
        });
}

} // namespace onegraph
