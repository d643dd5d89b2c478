// The kernels that compute one element of the result from those at its place.

#pragma once

#include <cstddef>
#include <stdexcept>
#include <vector>

#include "registry.h"

namespace onegraph {

using Bytes = std::ptrdiff_t;

// Computes `count` elements in a row of the tensors. `pointers`: to the first elements. `types`: the data types.
using Row = void (*)(char *const *pointers, const Bytes *strides, std::size_t count, const dnnl_data_type_t *types);

// The function for these data types; null if there is none.
using FindRow = Row (*)(std::size_t count, const dnnl_data_type_t *types);

// A kernel for tensors of any strides. The last tensor is the result. It shares memory with no other one, but that of an
// elementwise op may share all of it with an input of its layout. The others are broadcast to its shape by numpy's rules.
class Rows : public Runnable {
public:
    static constexpr std::size_t MOST = 5; // tensors

    // `copies`: whether elements of one data type are only copied.
    Rows(const KernelArguments &arguments, FindRow find, bool copies);

    void run(void *const *addresses, int threads) const override;

private:
    struct Axis {
        std::size_t size;
        Bytes strides[MOST];
    };

    void merge_axes();
    bool copies_rows() const;
    bool is_done(void *const *addresses) const;
    void divide_last_axis();
    void compute(char *const *addresses, std::size_t begin, std::size_t end) const;

    bool copies_;
    std::size_t count_, total_ = 1; // numbers of tensors and of elements of the result
    std::vector<Axis> axes_; // at least one; a row goes along the last one
    dnnl_data_type_t types_[MOST];
    Row row_;
    std::size_t copied_; // bytes of a row if rows are only copied, otherwise 0
};

// Registers such a kernel.
template <FindRow find, bool copies = false>
struct RegisteredRows : onegraph_kernel {
    explicit RegisteredRows(const char *name) : onegraph_kernel(name, "", made) {}

    static std::unique_ptr<const Runnable> made(const KernelArguments &arguments) {
        return std::make_unique<Rows>(arguments, find, copies);
    }
};

} // namespace onegraph
