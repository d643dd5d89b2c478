// Fills in the tensors and numbers of kernels whose sizes were open.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "guard.h"

namespace {

constexpr double LARGE = static_cast<double>(1ll << 48); // elements of a tensor with its gaps

// Writes dims and strides of a tensor. An axis of size 1 gets a stride behind all elements, as the library states it, unless
// the tensor is dense. Returns false for a tensor that is too large, or runs backwards.
bool fill(dnnl_graph_logical_tensor_t &tensor, const std::int64_t *dims, const std::int64_t *strides) {
    double reach = 0;
    std::int64_t span = 1;
    for (int axis = 0; axis < tensor.ndims; axis++) {
        if (strides[axis] < 0) return false;
        reach += static_cast<double>(dims[axis]) * static_cast<double>(strides[axis]);
        if (!(reach < LARGE)) return false;
        if (dims[axis] > 1) span = std::max(span, dims[axis] * strides[axis]);
    }
    bool is_dense = true;
    std::uint64_t dense = 1;
    for (int axis = tensor.ndims - 1; axis >= 0; axis--) {
        is_dense = is_dense && static_cast<std::uint64_t>(strides[axis]) == dense;
        dense *= static_cast<std::uint64_t>(std::max<std::int64_t>(dims[axis], 1));
    }
    for (int axis = 0; axis < tensor.ndims; axis++) {
        tensor.dims[axis] = dims[axis];
        tensor.layout.strides[axis] = is_dense || dims[axis] > 1 ? strides[axis] : span;
    }
    return true;
}

} // namespace

extern "C" int onegraph_kernels_fill(size_t n_tensors, dnnl_graph_logical_tensor_t *tensors, const int64_t *numbers, size_t n_codes,
        int *codes, size_t n_ends, const int64_t *ends, dnnl_graph_logical_tensor_t **pointers, size_t n_steps,
        const int64_t *starts, onegraph_step_t *steps) {
    std::size_t axes = 0;
    for (std::size_t i = 0; i < n_tensors; i++)
        axes += static_cast<std::size_t>(tensors[i].ndims);
    const std::int64_t *dims = numbers, *strides = numbers + axes;
    for (std::size_t i = 0; i < n_tensors; i++) {
        if (!fill(tensors[i], dims, strides)) return dnnl_invalid_arguments;
        dims += tensors[i].ndims, strides += tensors[i].ndims;
    }
    for (std::size_t i = 0; i < n_codes; i++) {
        if (strides[i] < std::numeric_limits<int>::min() || strides[i] > std::numeric_limits<int>::max()) return dnnl_invalid_arguments;
        codes[i] = static_cast<int>(strides[i]);
    }
    for (std::size_t i = 0; i < n_ends; i++)
        pointers[i] = tensors + ends[i];
    for (std::size_t i = 0; i < n_steps; i++)
        steps[i].tensors = pointers + starts[2 * i], steps[i].code = codes + starts[2 * i + 1];
    return dnnl_success;
}
