// Several elementwise ops: what is computed, and the functions that compute it, compiled once for each instruction set.

#pragma once

#include <cstddef>

#include "kernels.h"

namespace onegraph {

// Kinds of ops besides those of include/onegraph.h: x * Sigmoid(x), and ops whose second operand is held.
enum {
    POINTWISE_SILU = onegraph_op_tanh_backward + 1,
    POINTWISE_SUBTRACT_FROM,
    POINTWISE_DIVIDE_INTO,
    POINTWISE_GATE_BY,
    POINTWISE_SIGMOID_BACKWARD_BY,
    POINTWISE_TANH_BACKWARD_BY
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
