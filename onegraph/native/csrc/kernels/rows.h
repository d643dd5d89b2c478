// The kernels that compute one element of the result from those at its place, by family.

#pragma once

#include <cstddef>

#include "kernels.h"

namespace onegraph {

using Bytes = Kernel::Bytes;
using Row = Kernel::Row;

// For a kernel of include/onegraph.h and the data types of its tensors: the function of a family, or null.
Row cast_row(int kind, std::size_t count, const dnnl_data_type_t *types);
Row select_row(int kind, std::size_t count, const dnnl_data_type_t *types);
Row replace_nan_row(int kind, std::size_t count, const dnnl_data_type_t *types);
Row scale_row(int kind, std::size_t count, const dnnl_data_type_t *types);
Row codes_row(int kind, std::size_t count, const dnnl_data_type_t *types);
Row elementwise_row(int kind, std::size_t count, const dnnl_data_type_t *types);

} // namespace onegraph
