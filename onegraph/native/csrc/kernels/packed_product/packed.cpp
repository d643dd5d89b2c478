// Products of rows and a matrix of packed weights.

#include "coded_run.h"

namespace onegraph {
namespace {

// The product of rows and a constant matrix of packed weights, which is read as it is and unpacked in registers. Many rows
// meet columns that are unpacked to blocks of memory. All tensors are dense.
//
// src (rows, depth); weights (columns, bytes of a row): two codes of 4 bits in a byte, the first one in the lower half,
// codes of 8 bits, f16 or bf16, filled up to a multiple of 16 words of 32 bits; scales (columns, groups) of codes; zero
// points likewise, if there are any; a bias (columns), if there is one; the result (rows, columns). src, scales, bias and
// the result are f32, f16 or bf16, and zero points those, s8 or u8.
//
// A number is (code - zero point) * scale. Sums are in f32, or the elements of src become 8-bit codes with a scale for
// each block of a group or of 16 words, and sums of products of codes are exact. Many rows are rounded to bf16 in their
// place, if there are tiles of AMX, and so are weights that meet src of bf16.
//
// group: elements along the depth that share a scale: 16, 32 or a multiple of 64; 128 for 4 bits. zero: the zero point of
// all codes, if there are no tensors for it. zeros, bias: whether there are such tensors. coded: whether src becomes 8-bit
// codes. unpacks: whether each column is unpacked for any number of rows.
class PackedProduct : public Runnable {
public:
    explicit PackedProduct(const KernelArguments &arguments);

    // The results are the same for any number of threads; for any number of rows too if each column is unpacked.
    void run(void *const *addresses, int threads) const override;

private:
    std::unique_ptr<const PackedProblem> problem_;
};

PackedProduct::PackedProduct(const KernelArguments &arguments)
{
    const dnnl_graph_logical_tensor_t &src = *arguments.tensors[0];
    if (src.ndims < 1) throw std::invalid_argument("no kernel for these tensors");
    problem_ = problem_of(arguments, arguments.tensors, arguments.count, arguments.flag("bias"), src.dims[src.ndims - 1], 1, true);
    if (elements_of(src) != static_cast<std::size_t>(problem_->rows * problem_->matrix.known))
        throw std::invalid_argument("other sizes than those of a packed product");
}

void PackedProduct::run(void *const *addresses, int threads) const {
    multiply_packed(*problem_, addresses, threads);
}

const Registered<PackedProduct> PACKED_PRODUCT {
        "packed_product", "coding: s4|u4|s8|u8|f16|bf16, group, zero: f32, zeros, bias, coded, unpacks, level"};

} // namespace
} // namespace onegraph
