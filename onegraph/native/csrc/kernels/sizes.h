// What kernels ask of tensors whose types the C API of oneDNN 3.2 lacks. Include this last, because of cpu.h.

#pragma once

#include "floats.h"

namespace onegraph {

// Whether the type is s64, as which kernels also get the types that the C API lacks.
inline bool is_long(dnnl_data_type_t type) {
    return static_cast<int>(type) == onegraph_s64;
}

inline bool is_index(dnnl_data_type_t type) {
    return type == dnnl_s32 || is_long(type);
}

// Whether the elements may have so many bytes.
inline bool may_have(dnnl_data_type_t type, std::size_t bytes) {
    return is_long(type) ? bytes <= sizeof(std::int64_t) : bytes == size_of(type);
}

inline std::size_t bytes_of(dnnl_data_type_t type) {
    return is_long(type) ? sizeof(std::int64_t) : size_of(type);
}

} // namespace onegraph
