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
// Bytes of all tensors; results of more are not read again from a cache. Those of a gate are: the next step reads them.
constexpr std::size_t LARGE = 1u << 22;

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

// value / (1 + exp(-x)), with the same bits on every CPU. The library's sigmoid takes three times as long.
ONEGRAPH_INLINE float gated(float value, float x) {
    constexpr float least = -87.0f, most = 87.0f; // exp of more is no normal number
    constexpr float rounder = 12582912.0f; // 1.5 * 2**23: the last bits of a sum with it are an integer
    const float high = x > most ? most : x;
    // exp(-x) = 2**n * exp(rest). ln(2) is a sum of two numbers; n times the first one is exact.
    const float shifted = __builtin_fmaf(high, -1.44269504f, rounder), n = shifted - rounder;
    const float rest = __builtin_fmaf(n, 2.12194440e-4f, __builtin_fmaf(n, -0.693359375f, -high));
    float power = __builtin_fmaf(8.31248e-3f, rest, 4.189055e-2f);
    power = __builtin_fmaf(power, rest, 0.16667116f);
    power = __builtin_fmaf(power, rest, 0.49999229f);
    power = __builtin_fmaf(__builtin_fmaf(power, rest, 1.0f), rest, 1.0f);
    const float divisor = of_bits(bits_of(power) + (bits_of(shifted) << 23)) + 1.0f;
    const float beyond = x * -INFINITY; // infinite for a number below the least one, NaN for NaN
    return value / (x >= least ? divisor : beyond);
}

// `values`: as many as sources, or one. The result may share memory with them.
ONEGRAPH_INLINE void gate(float *result, Operand values, const float *source, std::size_t count) {
    if (values.step == 0) {
        const float value = *values.elements;
#pragma GCC ivdep
        for (std::size_t i = 0; i < count; i++)
            result[i] = gated(value, source[i]);
    } else {
#pragma GCC ivdep
        for (std::size_t i = 0; i < count; i++)
            result[i] = gated(values.elements[i], source[i]);
    }
}

void gate_portable(float *result, Operand values, const float *source, std::size_t count) {
    gate(result, values, source, count);
}

ONEGRAPH_AVX2 void gate_avx2(float *result, Operand values, const float *source, std::size_t count) {
    gate(result, values, source, count);
}

ONEGRAPH_AVX512 void gate_avx512(float *result, Operand values, const float *source, std::size_t count) {
    gate(result, values, source, count);
}

const float ONE = 1;

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
        case onegraph_op_sigmoid: return gate_portable(result, {&ONE, 0}, a.elements, count);
        case onegraph_op_gate: return gate_portable(result, a, b.elements, count);
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
#define ONEGRAPH_APPLY(PREFIX, WIDTH, GATE) \
    switch (kind) { \
        case onegraph_op_add: ONEGRAPH_EACH(PREFIX, WIDTH, PREFIX##_add_ps(x, y)); \
        case onegraph_op_subtract: ONEGRAPH_EACH(PREFIX, WIDTH, PREFIX##_sub_ps(x, y)); \
        case onegraph_op_multiply: ONEGRAPH_EACH(PREFIX, WIDTH, PREFIX##_mul_ps(x, y)); \
        case onegraph_op_divide: ONEGRAPH_EACH(PREFIX, WIDTH, PREFIX##_div_ps(x, y)); \
        case onegraph_op_squared_difference: \
            ONEGRAPH_EACH(PREFIX, WIDTH, PREFIX##_mul_ps(PREFIX##_sub_ps(x, y), PREFIX##_sub_ps(x, y))); \
        case onegraph_op_square: ONEGRAPH_EACH(PREFIX, WIDTH, PREFIX##_mul_ps(x, x)); \
        case onegraph_op_sqrt: ONEGRAPH_EACH(PREFIX, WIDTH, PREFIX##_sqrt_ps(x)); \
        case onegraph_op_sigmoid: return GATE(result, {&ONE, 0}, a.elements, count); \
        case onegraph_op_gate: return GATE(result, a, b.elements, count); \
        default: ONEGRAPH_EACH(PREFIX, WIDTH, x); \
    }

ONEGRAPH_AVX2 void apply_avx2(int kind, float *result, Operand a, Operand b, std::size_t count) {
    ONEGRAPH_APPLY(_mm256, 8, gate_avx2)
}

ONEGRAPH_AVX512 void apply_avx512(int kind, float *result, Operand a, Operand b, std::size_t count) {
    ONEGRAPH_APPLY(_mm512, 16, gate_avx512)
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
    : n_inputs_(n_inputs), n_registers_(count), piece_(PIECE) {
    std::size_t bytes = 0;
    std::vector<std::size_t> sizes;
    for (std::size_t i = 0; i < count; i++) {
        std::size_t size = 1;
        for (int axis = 0; axis < tensors[i]->ndims; axis++)
            size *= static_cast<std::size_t>(tensors[i]->dims[axis]);
        total_ = std::max(total_, size);
        sizes.push_back(size);
        if (!is_float(tensors[i]->data_type)) throw std::invalid_argument("no kernel for this data type");
        tensors_.push_back({tensors[i]->data_type, size == 1, false});
        bytes += size * size_of(tensors[i]->data_type);
    }
    for (std::size_t i = 0; i < count; i++) {
        if (sizes[i] == 1 || sizes[i] == total_) continue;
        if (i >= n_inputs || total_ % sizes[i] || (row_ && row_ != sizes[i])) throw std::invalid_argument("no row");
        row_ = sizes[i], tensors_[i].is_row = true;
    }
    if (row_ && row_ <= PIECE) piece_ = PIECE / row_ * row_;
    if (n_code % 4 != 1) throw std::invalid_argument("no level and ops");
    level_ = code[0];
    for (std::size_t i = 1; i < n_code; i += 4) {
        const Instruction made {code[i], static_cast<std::size_t>(code[i + 1]), static_cast<std::size_t>(code[i + 2]),
                static_cast<std::size_t>(code[i + 3])};
        n_registers_ = std::max(n_registers_, made.result + 1);
        if (made.kind < onegraph_op_add || made.kind > onegraph_op_gate) throw std::invalid_argument("unknown op");
        const bool is_gate = made.kind == onegraph_op_sigmoid || made.kind == onegraph_op_gate;
        if (is_gate && made.second < count && tensors_[made.second].is_single)
            throw std::invalid_argument("sigmoid of a single number");
        instructions_.push_back(made);
    }
    if (n_registers_ > REGISTERS) throw std::invalid_argument("too many registers");
    const auto gates = [](const Instruction &one) { return one.kind >= onegraph_op_sigmoid; };
    is_large_ = bytes > LARGE && !row_ && std::none_of(instructions_.begin(), instructions_.end(), gates);
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
    const auto read = [&](std::size_t i, std::size_t place, std::size_t target, std::size_t count) {
        cast(tensors_[i].type, at(i, place), dnnl_f32, reinterpret_cast<char *>(memory[i] + target), count, is_fast);
    };
    for (std::size_t i = 0; i < n_inputs_; i++)
        if (tensors_[i].is_row && row_ <= PIECE)
            for (std::size_t place = 0; place < piece_; place += row_)
                read(i, 0, place, row_);
    for (; begin < end; begin += piece_) {
        const std::size_t count = std::min(piece_, end - begin), ahead = std::min(piece_, end - begin - count);
        for (std::size_t i = 0; i < n_inputs_; i++) {
            if (tensors_[i].is_single || (tensors_[i].is_row && row_ <= PIECE)) continue;
            const std::size_t place = tensors_[i].is_row ? begin % row_ : begin;
            const std::size_t some = tensors_[i].is_row ? std::min(row_ - place, count) : count;
            // Memory works while this block is computed. A row is in a cache already.
            const char *const next = at(i, begin + count);
            for (std::size_t byte = 0; !tensors_[i].is_row && byte < ahead * size_of(tensors_[i].type); byte += 64)
                __builtin_prefetch(next + byte, 0, 2);
            // Whole vectors are read, also of the last elements.
            if (tensors_[i].type == dnnl_f32 && count % LANES == 0 && some == count) {
                registers[i].elements = reinterpret_cast<const float *>(at(i, place));
                continue;
            }
            read(i, place, 0, some);
            read(i, 0, some, count - some);
            registers[i].elements = memory[i];
        }
        // The last op writes its result to where it belongs.
        const std::size_t last = instructions_.back().result;
        const bool is_direct = last >= n_inputs_ && last < tensors_.size() && tensors_[last].type == dnnl_f32
                && count % LANES == 0 && !streams(last);
        for (const Instruction &one : instructions_) {
            const bool is_last = is_direct && &one == &instructions_.back();
            float *result = is_last ? reinterpret_cast<float *>(at(last, begin)) : memory[one.result];
            function(one.kind, result, registers[one.first], registers[one.second], count);
        }
        for (std::size_t i = n_inputs_; i < tensors_.size(); i++) {
            if (is_direct && i == last) continue;
            if (streams(i))
                stream(memory[i], reinterpret_cast<float *>(at(i, begin)), count);
            else
                cast(dnnl_f32, reinterpret_cast<const char *>(memory[i]), tensors_[i].type, at(i, begin), count, is_fast);
        }
    }
    finish_streams();
}

void Pointwise::run(void *const *addresses, int threads) const {
    share(total_, threads, piece_, [&](std::size_t begin, std::size_t end) { compute(addresses, begin, end); });
}

} // namespace onegraph
