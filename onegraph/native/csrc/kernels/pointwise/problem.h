// Several elementwise ops: what is computed, and the functions that compute it, compiled once for each instruction set.

#pragma once

#include <cstddef>

#include "guard.h"

namespace onegraph {

// The kinds of ops: first those that have a word in the list of the kernel, in its order.
enum {
    POINTWISE_ADD,
    POINTWISE_SUBTRACT,
    POINTWISE_MULTIPLY,
    POINTWISE_DIVIDE,
    POINTWISE_SQUARED_DIFFERENCE,
    POINTWISE_SQUARE,
    POINTWISE_SQRT,
    POINTWISE_COPY,
    POINTWISE_SIGMOID,
    POINTWISE_GATE, // the first operand times the sigmoid of the second
    POINTWISE_GELU_SLOPE,
    POINTWISE_SIGMOID_BACKWARD, // the gradient by the result of a sigmoid and the gradient of that
    POINTWISE_TANH_BACKWARD, // likewise
    // Behind them x * Sigmoid(x), and ops whose second operand is held.
    POINTWISE_SILU,
    POINTWISE_SUBTRACT_FROM,
    POINTWISE_DIVIDE_INTO,
    POINTWISE_GATE_BY,
    POINTWISE_SIGMOID_BACKWARD_BY,
    POINTWISE_TANH_BACKWARD_BY
};

// An elementwise op in f32 on registers. The first operand, or the second one of an op whose kind says so, may be the
// result of the op before, which lies in vectors still.
struct PointwiseStage {
    int kind;
    std::size_t result, first, second;
    bool loads, stores; // whether the first operand is read from its register, and the result written
};

// A register: elements that lie one behind another, or the same number as often as a vector has lanes. They are f32, or
// bf16 that no op reads as its second operand.
struct PointwiseRegister {
    const void *elements;
    std::size_t step; // 1 or 0
    bool is_bf16;
};

struct PointwiseTarget {
    void *elements;
    bool is_bf16;
};

// Computes all ops on `count` elements. It reads and writes whole vectors, up to 15 elements more.
using PointwiseCompute = void (*)(const PointwiseStage *begin, const PointwiseStage *end,
        const PointwiseRegister *registers, const PointwiseTarget *targets, std::size_t count);

extern const PointwiseCompute pointwise_portable;
#if defined(__x86_64__)
extern const PointwiseCompute pointwise_avx2, pointwise_avx512, pointwise_bf16;
#endif

} // namespace onegraph
