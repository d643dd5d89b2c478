// Several elementwise ops at once.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "shares.h"

#include "floats.h"

// GCC 12 takes the undefined operand of its own AVX-512 functions for a mistake.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace onegraph {
namespace {

constexpr std::size_t PIECE = 256; // elements of a block: those of 32 registers fit into the first cache
constexpr std::size_t REGISTERS = 48;
constexpr std::size_t LARGE = 1u << 22; // bytes of all tensors; results of more are not read again from a cache

constexpr std::size_t LANES = 16; // a single number lies so often in its register

// An operand of an op: elements that lie one behind another, or `LANES` times the same number.
struct Operand {
    const float *elements;
    std::size_t step; // 1 or 0
};

ONEGRAPH_INLINE Word bits_of(float number) {
    Word bits;
    std::memcpy(&bits, &number, sizeof bits);
    return bits;
}

ONEGRAPH_INLINE float of_bits(Word bits) {
    float number;
    std::memcpy(&number, &bits, sizeof number);
    return number;
}

// 1 / (1 + exp(-x)), with the same bits on every CPU. The library's takes twice as long.
ONEGRAPH_INLINE void sigmoid(float *__restrict result, const float *source, std::size_t count) {
    constexpr float least = -87.0f, most = 87.0f; // exp of more is no normal number
    constexpr float rounder = 12582912.0f; // 1.5 * 2**23: the last bits of a sum with it are an integer
    for (std::size_t i = 0; i < count; i++) {
        const float x = source[i], low = x < least ? least : x, y = -(low > most ? most : low);
        // exp(y) = 2**n * exp(rest). ln(2) is a sum of two numbers; n times the first one is exact.
        const float shifted = y * 1.44269504f + rounder, n = shifted - rounder;
        const float rest = (y - n * 0.693359375f) + n * 2.12194440e-4f;
        float power = 8.31248e-3f * rest + 4.189055e-2f;
        power = power * rest + 0.16667116f;
        power = power * rest + 0.49999229f;
        power = (power * rest + 1.0f) * rest + 1.0f;
        const float found = 1.0f / (of_bits(bits_of(power) + (bits_of(shifted) << 23)) + 1.0f);
        const float finite = x < least ? 0.0f : found;
        result[i] = x != x ? x : finite;
    }
}

void sigmoid_portable(float *result, const float *source, std::size_t count) {
    sigmoid(result, source, count);
}

ONEGRAPH_AVX2 void sigmoid_avx2(float *result, const float *source, std::size_t count) {
    sigmoid(result, source, count);
}

ONEGRAPH_AVX512 void sigmoid_avx512(float *result, const float *source, std::size_t count) {
    sigmoid(result, source, count);
}

// Computes one op; writes up to LANES - 1 elements more than `count`. Each op is rounded by itself.
void apply_portable(int kind, float *result, Operand a, Operand b, std::size_t count) {
    const auto on = [&](auto function) {
        for (std::size_t i = 0; i < count; i += LANES, a.elements += LANES * a.step, b.elements += LANES * b.step)
            for (std::size_t j = 0; j < std::min(LANES, count - i); j++)
                result[i + j] = function(a.elements[j], b.elements[j]);
    };
    switch (kind) {
        case onegraph_op_add: return on([](float x, float y) { return x + y; });
        case onegraph_op_subtract: return on([](float x, float y) { return x - y; });
        case onegraph_op_multiply: return on([](float x, float y) { return x * y; });
        case onegraph_op_divide: return on([](float x, float y) { return x / y; });
        case onegraph_op_squared_difference: return on([](float x, float y) { return (x - y) * (x - y); });
        case onegraph_op_square: return on([](float x, float) { return x * x; });
        case onegraph_op_sqrt: return on([](float x, float) { return std::sqrt(x); });
        case onegraph_op_sigmoid: return sigmoid_portable(result, a.elements, count);
        default: return on([](float x, float) { return x; });
    }
}

#if defined(__x86_64__)
// The same for whole vectors of `WIDTH` elements, by the functions that begin with `PREFIX`.
#define ONEGRAPH_EACH(PREFIX, WIDTH, COMPUTED) \
    for (std::size_t i = 0; i < count; i += WIDTH, a.elements += WIDTH * a.step, b.elements += WIDTH * b.step) { \
        const auto x = PREFIX##_loadu_ps(a.elements), y = PREFIX##_loadu_ps(b.elements); \
        static_cast<void>(y); \
        PREFIX##_storeu_ps(result + i, COMPUTED); \
    } \
    return
#define ONEGRAPH_APPLY(PREFIX, WIDTH, SIGMOID) \
    switch (kind) { \
        case onegraph_op_add: ONEGRAPH_EACH(PREFIX, WIDTH, PREFIX##_add_ps(x, y)); \
        case onegraph_op_subtract: ONEGRAPH_EACH(PREFIX, WIDTH, PREFIX##_sub_ps(x, y)); \
        case onegraph_op_multiply: ONEGRAPH_EACH(PREFIX, WIDTH, PREFIX##_mul_ps(x, y)); \
        case onegraph_op_divide: ONEGRAPH_EACH(PREFIX, WIDTH, PREFIX##_div_ps(x, y)); \
        case onegraph_op_squared_difference: \
            ONEGRAPH_EACH(PREFIX, WIDTH, PREFIX##_mul_ps(PREFIX##_sub_ps(x, y), PREFIX##_sub_ps(x, y))); \
        case onegraph_op_square: ONEGRAPH_EACH(PREFIX, WIDTH, PREFIX##_mul_ps(x, x)); \
        case onegraph_op_sqrt: ONEGRAPH_EACH(PREFIX, WIDTH, PREFIX##_sqrt_ps(x)); \
        case onegraph_op_sigmoid: return SIGMOID(result, a.elements, count); \
        default: ONEGRAPH_EACH(PREFIX, WIDTH, x); \
    }

ONEGRAPH_AVX2 void apply_avx2(int kind, float *result, Operand a, Operand b, std::size_t count) {
    ONEGRAPH_APPLY(_mm256, 8, sigmoid_avx2)
}

ONEGRAPH_AVX512 void apply_avx512(int kind, float *result, Operand a, Operand b, std::size_t count) {
    ONEGRAPH_APPLY(_mm512, 16, sigmoid_avx512)
}
#undef ONEGRAPH_APPLY
#undef ONEGRAPH_EACH
#else
const auto apply_avx2 = apply_portable, apply_avx512 = apply_portable;
#endif

using Apply = void (*)(int, float *, Operand, Operand, std::size_t);

#if defined(__x86_64__)
// Writes past the caches, which saves reading what is overwritten.
ONEGRAPH_AVX2 void stream(const float *source, float *target, std::size_t count) {
    if (reinterpret_cast<std::uintptr_t>(target) % 32) {
        std::memcpy(target, source, count * sizeof(float));
        return;
    }
    for (; count >= 8; count -= 8, source += 8, target += 8)
        _mm256_stream_ps(target, _mm256_loadu_ps(source));
    std::memcpy(target, source, count * sizeof(float));
}

void finish_streams() {
    _mm_sfence();
}
#else
void stream(const float *source, float *target, std::size_t count) {
    std::memcpy(target, source, count * sizeof(float));
}

void finish_streams() {}
#endif

} // namespace

Pointwise::Pointwise(std::size_t n_inputs, std::size_t count, dnnl_graph_logical_tensor_t *const *tensors,
        const int *code, std::size_t n_code)
    : n_inputs_(n_inputs), n_registers_(count) {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < count; i++) {
        std::size_t size = 1;
        for (int axis = 0; axis < tensors[i]->ndims; axis++)
            size *= static_cast<std::size_t>(tensors[i]->dims[axis]);
        total_ = std::max(total_, size);
        if (!is_float(tensors[i]->data_type)) throw std::invalid_argument("no kernel for this data type");
        tensors_.push_back({tensors[i]->data_type, size == 1});
        bytes += size * size_of(tensors[i]->data_type);
    }
    if (n_code % 4 != 1) throw std::invalid_argument("no level and ops");
    level_ = code[0];
    for (std::size_t i = 1; i < n_code; i += 4) {
        const Instruction made {code[i], static_cast<std::size_t>(code[i + 1]), static_cast<std::size_t>(code[i + 2]),
                static_cast<std::size_t>(code[i + 3])};
        n_registers_ = std::max(n_registers_, made.result + 1);
        if (made.kind < onegraph_op_add || made.kind > onegraph_op_sigmoid) throw std::invalid_argument("unknown op");
        if (made.kind == onegraph_op_sigmoid && made.first < count && tensors_[made.first].is_single)
            throw std::invalid_argument("sigmoid of a single number");
        instructions_.push_back(made);
    }
    if (n_registers_ > REGISTERS) throw std::invalid_argument("too many registers");
    is_large_ = bytes > LARGE;
}

void Pointwise::compute(void *const *addresses, std::size_t begin, std::size_t end) const {
    alignas(64) float memory[REGISTERS][PIECE + 16]; // a distance of a power of two makes cache lines collide
    Operand registers[REGISTERS];
    const bool is_fast = level_ > 0 && has_avx2();
    const Apply function = level_ > 1 && has_avx512() ? apply_avx512 : is_fast ? apply_avx2 : apply_portable;
    for (std::size_t i = 0; i < n_registers_; i++)
        registers[i] = {memory[i], 1};
    const auto at = [&](std::size_t i, std::size_t place) {
        return static_cast<char *>(addresses[i]) + place * size_of(tensors_[i].type);
    };
    for (std::size_t i = 0; i < n_inputs_; i++) {
        if (!tensors_[i].is_single) continue;
        cast(tensors_[i].type, at(i, 0), dnnl_f32, reinterpret_cast<char *>(memory[i]), 1, is_fast);
        std::fill_n(memory[i], LANES, memory[i][0]);
        registers[i].step = 0;
    }
    // What is written in the place of an input lies in a cache already.
    const auto streams = [&](std::size_t i) {
        return is_large_ && is_fast && tensors_[i].type == dnnl_f32
                && std::find(addresses, addresses + n_inputs_, addresses[i]) == addresses + n_inputs_;
    };
    for (; begin < end; begin += PIECE) {
        const std::size_t count = std::min(PIECE, end - begin), ahead = std::min(PIECE, end - begin - count);
        for (std::size_t i = 0; i < n_inputs_; i++) {
            if (tensors_[i].is_single) continue;
            // Memory works while this block is computed.
            const char *const next = at(i, begin + count);
            for (std::size_t byte = 0; byte < ahead * size_of(tensors_[i].type); byte += 64)
                __builtin_prefetch(next + byte, 0, 2);
            // Whole vectors are read, also of the last elements.
            if (tensors_[i].type == dnnl_f32 && count % LANES == 0)
                registers[i].elements = reinterpret_cast<const float *>(at(i, begin));
            else
                cast(tensors_[i].type, at(i, begin), dnnl_f32, reinterpret_cast<char *>(memory[i]), count, is_fast),
                        registers[i].elements = memory[i];
        }
        for (const Instruction &one : instructions_)
            function(one.kind, memory[one.result], registers[one.first], registers[one.second], count);
        for (std::size_t i = n_inputs_; i < tensors_.size(); i++) {
            if (streams(i))
                stream(memory[i], reinterpret_cast<float *>(at(i, begin)), count);
            else
                cast(dnnl_f32, reinterpret_cast<const char *>(memory[i]), tensors_[i].type, at(i, begin), count, is_fast);
        }
    }
    finish_streams();
}

void Pointwise::run(void *const *addresses, int threads) const {
    share(total_, threads, PIECE, [&](std::size_t begin, std::size_t end) { compute(addresses, begin, end); });
}

} // namespace onegraph
