// Kernels of the package itself: casts between float types, copies between layouts, Select, ReplaceNaN, and arithmetic
// on 8-bit codes.

#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "guard.h"

namespace onegraph {

// A kernel for tensors of fixed shapes, strides and data types. The last tensor is the result and shares memory with no
// other one. The others are broadcast to its shape by numpy's rules.
class Kernel {
public:
    static constexpr std::size_t MOST = 4; // tensors
    using Bytes = std::ptrdiff_t;

    // Computes `count` elements in a row of the tensors. `pointers`: to the first elements. `types`: the data types.
    using Row = void (*)(char *const *pointers, const Bytes *strides, std::size_t count, const dnnl_data_type_t *types);

    // `kind`: a kernel of include/onegraph.h. Throws invalid_argument for data types that it lacks.
    Kernel(int kind, std::size_t count, dnnl_graph_logical_tensor_t *const *tensors);

    // Runs on tensors at these addresses, on at most `threads` threads.
    void run(void *const *addresses, int threads) const;

private:
    struct Axis {
        std::size_t size;
        Bytes strides[MOST];
    };
    struct Shares;

    void merge_axes();
    void compute(char *const *addresses, std::size_t begin, std::size_t end) const;

    std::size_t count_, total_ = 1; // numbers of tensors and of elements of the result
    std::vector<Axis> axes_; // at least one; a row goes along the last one
    dnnl_data_type_t types_[MOST];
    Row row_;
};

} // namespace onegraph
