// Looks for NaN and infinities in tensors.

#pragma once

#include <cstddef>
#include <vector>

#include "guard.h"

namespace onegraph {

enum Special : unsigned { NAN_ = 1, POSITIVE = 2, NEGATIVE = 4 };

// Looks for NaN and infinities in a tensor of f32, f16 or bf16 of any strides.
class SpecialNumbers {
public:
    SpecialNumbers() = default;
    // Throws invalid_argument for other data types.
    explicit SpecialNumbers(const dnnl_graph_logical_tensor_t &tensor);

    // Which of NaN, infinity and negative infinity some elements are, by Special.
    unsigned find(const char *elements, int threads) const;

    // Whether some elements are NaN or infinite, or if `large` at least 2 ** 20 in magnitude; faster.
    bool are_in(const char *elements, int threads, bool large = false) const;

private:
    template <typename Look>
    unsigned over_rows(const char *elements, int threads, const Look &look) const;

    struct Axis {
        std::size_t size;
        std::ptrdiff_t stride; // in bytes
    };

    dnnl_data_type_t type_ = dnnl_f32;
    std::size_t row_ = 0, total_ = 0; // elements that lie one behind another, and all
    std::vector<Axis> outer_; // the axes outside of those rows
};

} // namespace onegraph
