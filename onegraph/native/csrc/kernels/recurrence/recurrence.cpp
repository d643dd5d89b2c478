// Divides the steps of a recurrent network between threads.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "problem.h"

#include "../registry.h"
#include "../shares.h"

#include "../floats.h"

namespace onegraph {
namespace {

RecurrenceStep step_for(Cell cell, bool is_usual, int level) {
#if defined(__x86_64__)
    if (level > 1 && has_avx512()) return recurrence_step_avx512(cell, is_usual);
    if (level > 0 && has_avx2()) return recurrence_step_avx2(cell, is_usual);
#endif
    return recurrence_step_portable(cell, is_usual);
}

// Elements of `share` for products of so many numbers: a region of threads takes as long as some 100,000 of them.
std::size_t weighed(long products) {
    return static_cast<std::size_t>(products) / 16 + 1;
}

// A layer of a recurrent network, LSTM, GRU or plain, over all steps. All tensors are dense; all but the lengths are f32: see
// RecurrenceProblem.
//
// inputs, weights, hidden if it is not 0, cell if it is given, which is 0 for an LSTM without one, lengths if they are given;
// states, the last hidden state, the last cell state of an LSTM.
//
// hidden, cell, lengths: whether these are given. reset_first: whether a GRU resets the state in front of its product. reversed:
// bit d says that direction d begins with the last step. clip, input_forget, peepholes: see RecurrenceProblem. activations: of
// each one its kind and the bits of its two numbers; none if all are the usual ones and nothing else is unusual.
class Recurrence : public Runnable {
public:
    explicit Recurrence(const KernelArguments &arguments);
    void run(void *const *addresses, int threads) const override;

private:
    void run_rows(const RecurrenceMemory &m, long rows, int threads) const;
    void run_blocks(const RecurrenceMemory &m, int threads) const;
    // Sets the states behind the last step of each sequence to zero.
    void clear(const RecurrenceMemory &m) const;

    bool has_hidden_, has_cell_, has_lengths_, gives_cell_;
    RecurrenceProblem problem_ {};
    std::vector<Activation> activations_;
    std::vector<RecurrenceStep> parts_; // of a step, one after another
};

Recurrence::Recurrence(const KernelArguments &arguments)
    : has_hidden_(arguments.flag("hidden")),
      has_cell_(arguments.flag("cell")),
      has_lengths_(arguments.flag("lengths")),
      gives_cell_(false) {
    RecurrenceProblem &p = problem_;
    p.gates = arguments.number("gates");
    p.reversed = static_cast<unsigned>(arguments.number("reversed"));
    const std::size_t n_inputs = arguments.n_inputs, outputs = arguments.count - n_inputs;
    const std::size_t inputs = 2u + has_hidden_ + has_cell_ + has_lengths_;
    if ((p.gates != 1 && p.gates != 3 && p.gates != 4) || n_inputs != inputs || outputs < 2
            || outputs > (p.gates == 4 ? 3u : 2u))
        throw std::invalid_argument("wrong number of tensors");
    p.clip = arguments.real("clip"), p.input_forget = arguments.flag("input_forget");
    p.has_peepholes = arguments.flag("peepholes");
    for (std::size_t at = 0; at + 2 < arguments.n_list(); at += 3) {
        const int *given = arguments.list() + at;
        Activation activation {static_cast<Activation::Kind>(given[0]), 0, 0};
        std::memcpy(&activation.alpha, given + 1, sizeof(float));
        std::memcpy(&activation.beta, given + 2, sizeof(float));
        activations_.push_back(activation);
    }
    const auto &states = *arguments.tensors[n_inputs];
    p.steps = states.dims[0], p.directions = states.dims[1], p.batch = states.dims[2], p.units = states.dims[3];
    const auto has = [&](std::size_t place, long count, dnnl_data_type_t type = dnnl_f32) {
        return elements_of(*arguments.tensors[place]) == static_cast<std::size_t>(count) && arguments.tensors[place]->data_type == type;
    };
    const long all = p.directions * p.batch * p.units;
    bool fits = states.ndims == 4 && all > 0 && (p.gates == 3 || !arguments.flag("reset_first")) && has(0, p.steps * all * p.gates)
            && has(1, p.directions * p.blocks() * p.rows() * p.gates * RecurrenceProblem::LANES) && has(n_inputs, p.steps * all);
    for (std::size_t i = 2; i < arguments.count; i++)
        if (i != n_inputs) fits = fits && (has_lengths_ && i == n_inputs - 1 ? has(i, p.batch, dnnl_s32) : has(i, all));
    if (!fits) throw std::invalid_argument("other sizes than those of a recurrence");
    p.is_usual = activations_.empty(), p.activations = activations_.data();
    if (!p.is_usual && activations_.size() != static_cast<std::size_t>(p.directions * p.functions()))
        throw std::invalid_argument("wrong number of activations");
    gives_cell_ = outputs == 3;
    const int level = arguments.number("level");
    if (arguments.flag("reset_first"))
        parts_ = {step_for(Cell::RESET, p.is_usual, level), step_for(Cell::FRESH, p.is_usual, level)};
    else
        parts_ = {step_for(p.gates == 4 ? Cell::LSTM : p.gates == 3 ? Cell::GRU : Cell::PLAIN, p.is_usual, level)};
}

void Recurrence::run(void *const *addresses, int threads) const {
    const RecurrenceProblem &p = problem_;
    const auto next = [&] { return static_cast<float *>(*addresses++); };
    RecurrenceMemory m {};
    const auto size = static_cast<std::size_t>(p.directions * p.batch * p.units);
    const std::vector<float> zeros(has_hidden_ && (has_cell_ || p.gates != 4) ? 0 : size);
    std::vector<float> cell(p.gates == 4 && !gives_cell_ ? size : 0), halves(parts_.size() == 2 ? 2 * size : 0);
    m.inputs = next(), m.weights = next();
    m.hidden = has_hidden_ ? next() : zeros.data();
    m.cell = has_cell_ ? next() : zeros.data();
    m.lengths = has_lengths_ ? static_cast<const std::int32_t *>(*addresses++) : nullptr;
    m.states = next(), m.last_hidden = next();
    m.last_cell = gives_cell_ ? next() : cell.data();
    m.update = halves.data(), m.reset = m.update + (halves.empty() ? 0 : size);
    for (long row = 0; m.lengths && row < p.batch; row++)
        if (m.lengths[row] < 0 || m.lengths[row] > p.steps)
            throw WrongContents("Recurrence: lengths: " + std::to_string(m.lengths[row]) + " of sequence " + std::to_string(row)
                    + "; expected 0 to " + std::to_string(p.steps));

    // Rows of the batch and directions do not depend on each other, so their threads need not meet after each step.
    const long all = std::max(threads, 1), lanes = std::min((all + p.directions - 1) / p.directions, p.batch);
    const long rows = (p.batch + lanes - 1) / lanes, tasks = (p.batch + rows - 1) / rows * p.directions;
    if (all == 1 || 2 * tasks > all)
        run_rows(m, rows, threads);
    else
        run_blocks(m, threads);
    if (m.lengths) clear(m);
}

void Recurrence::run_rows(const RecurrenceMemory &m, long rows, int threads) const {
    const RecurrenceProblem &p = problem_;
    const long parts = (p.batch + rows - 1) / rows, tasks = parts * p.directions;
    const bool is_worth_it = weighed(p.steps * p.directions * p.batch * p.units * p.units * p.gates) >= 2 * SHARE;
    std::atomic<long> taken {0};
    together(is_worth_it ? static_cast<int>(std::min<long>(std::max(threads, 1), tasks)) : 1, [&](std::size_t) {
        for (long task; (task = taken.fetch_add(1)) < tasks;) {
            const long begin = task % parts * rows, end = std::min(begin + rows, p.batch);
            for (long step = 0; step < p.steps; step++)
                for (const RecurrenceStep part : parts_)
                    part(p, m, task / parts, step, begin, end, 0, p.blocks());
        }
    });
}

void Recurrence::run_blocks(const RecurrenceMemory &m, int threads) const {
    const RecurrenceProblem &p = problem_;
    const std::size_t unit = weighed(p.batch * p.units * p.units * p.gates / p.blocks() / static_cast<long>(parts_.size()));
    const std::size_t whole = static_cast<std::size_t>(p.directions * p.blocks()) * unit;
    for (long step = 0; step < p.steps; step++)
        for (const RecurrenceStep part : parts_)
            share(whole, threads, unit, [&](std::size_t begin, std::size_t end) {
                for (auto at = static_cast<long>(begin / unit); at < static_cast<long>(end / unit); at++)
                    part(p, m, at / p.blocks(), step, 0, p.batch, at % p.blocks(), at % p.blocks() + 1);
            });
}

void Recurrence::clear(const RecurrenceMemory &m) const {
    const RecurrenceProblem &p = problem_;
    for (long step = 0; step < p.steps; step++)
        for (long sequence = 0; sequence < p.directions * p.batch; sequence++)
            if (step >= m.lengths[sequence % p.batch])
                std::fill_n(m.states + (step * p.directions * p.batch + sequence) * p.units, p.units, 0.0f);
}

const Registered<Recurrence> RECURRENCE {
        "recurrence",
        "gates, reset_first, reversed, hidden, cell, lengths, clip: f32, input_forget, peepholes, level, activations...: "
        "sigmoid|tanh|relu|affine|elu|hardsigmoid|leakyrelu|scaledtanh|softplus|softsign|thresholdedrelu"};

} // namespace
} // namespace onegraph
