// Data types of elements: their sizes, and casts between float types. Include this last, because of cpu.h.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "guard.h"

#include "cpu.h"

namespace onegraph {

using Half = std::uint16_t; // f16 or bf16
using Word = std::uint32_t;

constexpr std::size_t BLOCK = 512; // elements that are cast before the next ones are read
constexpr Word INFINITE = 0x7f800000; // of f32

inline std::size_t size_of(dnnl_data_type_t type) {
    return type == dnnl_f32 || type == dnnl_s32 ? 4 : type == dnnl_f16 || type == dnnl_bf16 ? 2 : 1;
}

inline std::size_t elements_of(const dnnl_graph_logical_tensor_t &tensor) {
    std::size_t count = 1;
    for (int axis = 0; axis < tensor.ndims; axis++)
        count *= static_cast<std::size_t>(tensor.dims[axis]);
    return count;
}

inline bool is_float(dnnl_data_type_t type) {
    return type == dnnl_f32 || type == dnnl_f16 || type == dnnl_bf16;
}

// Every cast rounds to nearest, ties to even, keeps subnormal numbers, and keeps the sign of NaN.

ONEGRAPH_INLINE float bf16_to_f32(Half half) {
    float value;
    const Word bits = Word {half} << 16;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

ONEGRAPH_INLINE Half f32_to_bf16(float value) {
    Word bits;
    std::memcpy(&bits, &value, sizeof bits);
    const Word rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = (bits >> 16 & 0x8000) | 0x7fc0;
    return static_cast<Half>((bits & 0x7fffffff) > INFINITE ? nan : rounded);
}

// Casts elements that lie one behind another. `is_fast`: with AVX2 and F16C, which the CPU must have.
void cast(dnnl_data_type_t from, const char *source, dnnl_data_type_t to, char *target, std::size_t count, bool is_fast);

} // namespace onegraph
