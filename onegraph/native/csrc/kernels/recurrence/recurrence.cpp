// Divides the steps of a recurrent network between threads.

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <vector>

#include "problem.h"

#include "../registry.h"
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

// A layer of a recurrent network, LSTM, GRU or plain, over all steps. All tensors are dense f32: see RecurrenceProblem.
//
// inputs, weights, hidden if it is not 0, cell of an LSTM if it is not 0; states, the last hidden state, the last cell
// state of an LSTM.
//
// hidden, cell: whether these are given. relu: whether a plain network has ReLU in the place of tanh. reversed: bit d says
// that direction d begins with the last step.
class Recurrence : public Runnable {
public:
    explicit Recurrence(const KernelArguments &arguments);
    void run(void *const *addresses, int threads) const override;

private:
    bool has_hidden_, has_cell_, gives_cell_;
    RecurrenceProblem problem_ {};
    RecurrenceStep step_;
};

Recurrence::Recurrence(const KernelArguments &arguments)
    : has_hidden_(arguments.flag("hidden")), has_cell_(arguments.flag("cell")), gives_cell_(false), step_(nullptr) {
    RecurrenceProblem &p = problem_;
    p.gates = arguments.number("gates");
    p.is_relu = arguments.flag("relu");
    p.reversed = static_cast<unsigned>(arguments.number("reversed"));
    const std::size_t n_inputs = arguments.n_inputs, outputs = arguments.count - n_inputs;
    const std::size_t inputs = 2u + has_hidden_ + has_cell_;
    if ((p.gates != 1 && p.gates != 3 && p.gates != 4) || n_inputs != inputs || outputs < 2
            || outputs > (p.gates == 4 ? 3u : 2u))
        throw std::invalid_argument("wrong number of tensors");
    const auto &states = *arguments.tensors[n_inputs];
    p.steps = states.dims[0], p.directions = states.dims[1], p.batch = states.dims[2], p.units = states.dims[3];
    gives_cell_ = outputs == 3;
    step_ = step_for(p.gates, arguments.number("level"));
}

void Recurrence::run(void *const *addresses, int threads) const {
    const RecurrenceProblem &p = problem_;
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

const Registered<Recurrence> RECURRENCE {
        "recurrence", "gates, relu, reversed, hidden, cell, level"};

} // namespace
} // namespace onegraph
