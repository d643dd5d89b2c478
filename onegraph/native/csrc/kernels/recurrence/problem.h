// Recurrent networks: what is computed, and the functions that compute it, compiled once for each instruction set.

#pragma once

#include <cstddef>
#include <cstdint>

namespace onegraph {

// What a function computes of a step: all of it, or one of the two halves of a GRU whose reset gate scales the state in front
// of its product. RESET writes the update gate and the state that is reset; FRESH multiplies this state.
enum class Cell { LSTM, GRU, PLAIN, RESET, FRESH };

// A function of a gate, with two numbers: see activated() in steps.inc.
struct Activation {
    enum class Kind : int {
        SIGMOID, TANH, RELU, AFFINE, ELU, HARD_SIGMOID, LEAKY_RELU, SCALED_TANH, SOFTPLUS, SOFTSIGN, THRESHOLDED_RELU
    };
    Kind kind;
    float alpha, beta;
};

// One layer of a recurrent network, in all its directions. `gates` is 4 for an LSTM, 3 for a GRU, 1 for a plain network.
//
// inputs: (steps, batch, directions, gates, units), what the input of each step adds to the gates. weights: (directions,
// blocks, rows(), gates, LANES), for a block of LANES units, for each unit of the state, its factor in each gate, behind them
// the bias, and the factors of the cell state if there are peepholes. states: (steps, directions, batch, units); hidden, cell, update and reset: (directions, batch, units).
// lengths: of each sequence, or NULL: steps behind the last one keep the state.
struct RecurrenceProblem {
    long steps, directions, batch, units;
    int gates;
    unsigned reversed; // bit d: direction d begins with the last step
    // The rest holds for other cells than the usual ones only, whose activations are sigmoid and tanh.
    bool is_usual;
    bool has_peepholes, input_forget; // of an LSTM; input_forget: the forget gate is 1 - the input gate
    float clip; // what enters an activation lies between -clip and clip; 0: anywhere
    const Activation *activations; // of each direction in turn: of gates, of the new state, of the cell state of an LSTM

    int functions() const { return gates == 4 ? 3 : gates == 3 ? 2 : 1; } // of a direction
    long rows() const { return units + 1 + has_peepholes; } // of weights

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

RecurrenceStep recurrence_step_portable(Cell cell, bool is_usual);
#if defined(__x86_64__)
RecurrenceStep recurrence_step_avx2(Cell cell, bool is_usual);
RecurrenceStep recurrence_step_avx512(Cell cell, bool is_usual);
#endif

} // namespace onegraph
