// Recurrent networks: what is computed, and the functions that compute it, compiled once for each instruction set.

#pragma once

#include <cstddef>
#include <cstdint>

namespace onegraph {

// What a function computes of a step: all of it, or one of the two halves of a GRU whose reset gate scales the state in front
// of its product. RESET writes the update gate and the state that is reset; FRESH multiplies this state.
enum class Cell { LSTM, GRU, PLAIN, RESET, FRESH };

// One layer of a recurrent network, in all its directions. `gates` is 4 for an LSTM, 3 for a GRU, 1 for a plain network.
//
// inputs: (steps, batch, directions, gates, units), what the input of each step adds to the gates. weights: (directions,
// blocks, units + 1, gates, LANES), for a block of LANES units, for each unit of the state, its factor in each gate, and
// behind them the bias. states: (steps, directions, batch, units); hidden, cell, update and reset: (directions, batch, units).
// lengths: of each sequence, or NULL: steps behind the last one keep the state.
struct RecurrenceProblem {
    long steps, directions, batch, units;
    int gates;
    bool is_relu; // the activation of a plain network, which is otherwise tanh
    unsigned reversed; // bit d: direction d begins with the last step

    static constexpr long LANES = 16;

    long blocks() const { return (units + LANES - 1) / LANES; }
};

struct RecurrenceMemory {
    const float *inputs, *weights, *hidden, *cell;
    float *states, *last_hidden, *last_cell;
    float *update, *reset; // of RESET
    const std::int32_t *lengths;
};

// Computes a step of some rows of the batch, for some blocks of units. It reads the states of the step before.
using RecurrenceStep = void (*)(const RecurrenceProblem &, const RecurrenceMemory &, long direction, long step,
        long first_row, long last_row, long first_block, long last_block);

RecurrenceStep recurrence_step_portable(Cell cell);
#if defined(__x86_64__)
RecurrenceStep recurrence_step_avx2(Cell cell);
RecurrenceStep recurrence_step_avx512(Cell cell);
#endif

} // namespace onegraph
