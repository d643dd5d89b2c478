// Several elementwise ops at once.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>

#include "shares.h"

#include "exponential.h"

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

// value / (1 + exp(-x)). The library's sigmoid takes three times as long.
ONEGRAPH_INLINE float gated(float value, float x) {
    constexpr float least = -87.0f, most = 87.0f; // exp of more is no normal number
    const float divisor = exp_of(x > most ? -most : -x) + 1.0f;
    const float beyond = x * -INFINITY; // infinite for a number below the least one, NaN for NaN
    return value / (x >= least ? divisor : beyond);
}

// The slope of GELU at x, P(x) + x * p(x), where P is the normal distribution and p its density. P is computed as in
// equation 7.1.26 of Abramowitz and Stegun, with an error of less than 1e-7. The library takes three times as long.
ONEGRAPH_INLINE float gelu_slope(float x) {
    constexpr float most = 13.0f; // beyond, the slope is 0 or 1
    const float near = x > most ? most : x < -most ? -most : x;
    const float bell = exp_of(-0.5f * near * near), size = near < 0.0f ? -near : near;
    const float t = 1.0f / __builtin_fmaf(0.23164189f, size, 1.0f);
    float tail = __builtin_fmaf(0.53070271f, t, -0.72657602f);
    tail = __builtin_fmaf(tail, t, 0.71070688f);
    tail = __builtin_fmaf(tail, t, -0.14224837f);
    tail = __builtin_fmaf(tail, t, 0.12741480f) * t * bell;
    return __builtin_fmaf(near * 0.39894228f, bell, near < 0.0f ? tail : 1.0f - tail);
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

void slopes_portable(float *numbers, std::size_t count) {
    for (std::size_t i = 0; i < count; i++)
        numbers[i] = gelu_slope(numbers[i]);
}

ONEGRAPH_AVX2 void slopes_avx2(float *numbers, std::size_t count) {
    for (std::size_t i = 0; i < count; i++)
        numbers[i] = gelu_slope(numbers[i]);
}

ONEGRAPH_AVX512 void slopes_avx512(float *numbers, std::size_t count) {
    for (std::size_t i = 0; i < count; i++)
        numbers[i] = gelu_slope(numbers[i]);
}

const float ONE = 1;

// Kinds of ops whose second operand is held: those of onegraph_op_subtract, onegraph_op_divide, onegraph_op_gate,
// onegraph_op_sigmoid_backward and onegraph_op_tanh_backward.
enum { SUBTRACT_FROM = onegraph_op_tanh_backward + 1, DIVIDE_INTO, GATE_BY, SIGMOID_BACKWARD_BY, TANH_BACKWARD_BY };

// Four numbers for CPUs without AVX2.
struct Four {
    float numbers[4];
};

Four four_loadu_ps(const float *source) {
    Four found;
    std::memcpy(&found, source, sizeof found);
    return found;
}

void four_storeu_ps(float *target, Four numbers) {
    std::memcpy(target, &numbers, sizeof numbers);
}

template <typename Function>
Four four_each(Four a, Four b, Function function) {
    for (int i = 0; i < 4; i++)
        a.numbers[i] = function(a.numbers[i], b.numbers[i]);
    return a;
}

Four four_set1_ps(float number) {
    return {{number, number, number, number}};
}

Four four_add_ps(Four a, Four b) {
    return four_each(a, b, [](float x, float y) { return x + y; });
}

Four four_sub_ps(Four a, Four b) {
    return four_each(a, b, [](float x, float y) { return x - y; });
}

Four four_mul_ps(Four a, Four b) {
    return four_each(a, b, [](float x, float y) { return x * y; });
}

Four four_div_ps(Four a, Four b) {
    return four_each(a, b, [](float x, float y) { return x / y; });
}

Four four_sqrt_ps(Four a) {
    return four_each(a, a, [](float x, float) { return std::sqrt(x); });
}

// Computes the held vectors anew, of themselves, `held`, and of vectors of the second operand, `other`.
#define ONEGRAPH_EACH(PREFIX, WIDTH, HELD, COMPUTED) \
    for (std::size_t j = 0; j < (HELD); j++) { \
        const auto held = vectors[j], other = PREFIX##_loadu_ps(at(one.second) + j * (WIDTH) * registers[one.second].step); \
        static_cast<void>(other); \
        vectors[j] = COMPUTED; \
    } \
    break
// The gradient by the result of a sigmoid, and by that of tanh, exact where the result is close to 1.
#define ONEGRAPH_SIGMOID_BACKWARD(PREFIX, RESULT, DIFF) \
    PREFIX##_mul_ps(PREFIX##_mul_ps(DIFF, RESULT), PREFIX##_sub_ps(PREFIX##_set1_ps(1.0f), RESULT))
#define ONEGRAPH_TANH_BACKWARD(PREFIX, RESULT, DIFF) \
    PREFIX##_mul_ps(PREFIX##_mul_ps(DIFF, PREFIX##_add_ps(PREFIX##_set1_ps(1.0f), RESULT)), \
            PREFIX##_sub_ps(PREFIX##_set1_ps(1.0f), RESULT))
// Computes all ops on the elements from `i` on, `HELD` vectors of `WIDTH` elements at once, by the functions that begin
// with `PREFIX`. Each op is rounded by itself.
#define ONEGRAPH_COMPUTE(PREFIX, VECTOR, WIDTH, HELD, CPU) \
    for (; i + ((HELD) == 1 ? 1 : (HELD) * (WIDTH)) <= count; i += (HELD) * (WIDTH)) { \
        VECTOR vectors[HELD]; \
        alignas(64) float spilled[(HELD) * (WIDTH)]; \
        const auto at = [&](std::size_t number) { return registers[number].elements + i * registers[number].step; }; \
        for (const PointwiseStage *stage = stages; stage != end; stage++) { \
            const PointwiseStage &one = *stage; \
            if (one.loads) \
                for (std::size_t j = 0; j < (HELD); j++) \
                    vectors[j] = PREFIX##_loadu_ps(at(one.first) + j * (WIDTH) * registers[one.first].step); \
            switch (one.kind) { \
                case onegraph_op_add: ONEGRAPH_EACH(PREFIX, WIDTH, HELD, PREFIX##_add_ps(held, other)); \
                case onegraph_op_subtract: ONEGRAPH_EACH(PREFIX, WIDTH, HELD, PREFIX##_sub_ps(held, other)); \
                case SUBTRACT_FROM: ONEGRAPH_EACH(PREFIX, WIDTH, HELD, PREFIX##_sub_ps(other, held)); \
                case onegraph_op_multiply: ONEGRAPH_EACH(PREFIX, WIDTH, HELD, PREFIX##_mul_ps(held, other)); \
                case onegraph_op_divide: ONEGRAPH_EACH(PREFIX, WIDTH, HELD, PREFIX##_div_ps(held, other)); \
                case DIVIDE_INTO: ONEGRAPH_EACH(PREFIX, WIDTH, HELD, PREFIX##_div_ps(other, held)); \
                case onegraph_op_squared_difference: \
                    ONEGRAPH_EACH(PREFIX, WIDTH, HELD, \
                            PREFIX##_mul_ps(PREFIX##_sub_ps(held, other), PREFIX##_sub_ps(held, other))); \
                case onegraph_op_square: ONEGRAPH_EACH(PREFIX, WIDTH, HELD, PREFIX##_mul_ps(held, held)); \
                case onegraph_op_sqrt: ONEGRAPH_EACH(PREFIX, WIDTH, HELD, PREFIX##_sqrt_ps(held)); \
                case onegraph_op_sigmoid_backward: \
                    ONEGRAPH_EACH(PREFIX, WIDTH, HELD, ONEGRAPH_SIGMOID_BACKWARD(PREFIX, held, other)); \
                case SIGMOID_BACKWARD_BY: \
                    ONEGRAPH_EACH(PREFIX, WIDTH, HELD, ONEGRAPH_SIGMOID_BACKWARD(PREFIX, other, held)); \
                case onegraph_op_tanh_backward: \
                    ONEGRAPH_EACH(PREFIX, WIDTH, HELD, ONEGRAPH_TANH_BACKWARD(PREFIX, held, other)); \
                case TANH_BACKWARD_BY: \
                    ONEGRAPH_EACH(PREFIX, WIDTH, HELD, ONEGRAPH_TANH_BACKWARD(PREFIX, other, held)); \
                case onegraph_op_sigmoid: \
                case onegraph_op_gate: \
                case GATE_BY: \
                case onegraph_op_gelu_slope: \
                    for (std::size_t j = 0; j < (HELD); j++) \
                        PREFIX##_storeu_ps(spilled + j * (WIDTH), vectors[j]); \
                    if (one.kind == onegraph_op_gate) \
                        gate_##CPU(spilled, {spilled, 1}, at(one.second), (HELD) * (WIDTH)); \
                    else if (one.kind == GATE_BY) \
                        gate_##CPU(spilled, {at(one.second), registers[one.second].step}, spilled, (HELD) * (WIDTH)); \
                    else if (one.kind == onegraph_op_sigmoid) \
                        gate_##CPU(spilled, {&ONE, 0}, spilled, (HELD) * (WIDTH)); \
                    else \
                        slopes_##CPU(spilled, (HELD) * (WIDTH)); \
                    for (std::size_t j = 0; j < (HELD); j++) \
                        vectors[j] = PREFIX##_loadu_ps(spilled + j * (WIDTH)); \
                    break; \
                default: break; \
            } \
            if (one.stores) \
                for (std::size_t j = 0; j < (HELD); j++) \
                    PREFIX##_storeu_ps(targets[one.result] + i + j * (WIDTH), vectors[j]); \
        } \
    }


using Compute = void (*)(const PointwiseStage *, const PointwiseStage *, const Operand *, float *const *, std::size_t);

// Computes all ops of `stages` on `count` elements; writes up to LANES - 1 elements more.
void compute_portable(const PointwiseStage *stages, const PointwiseStage *end, const Operand *registers,
        float *const *targets, std::size_t count) {
    std::size_t i = 0;
    ONEGRAPH_COMPUTE(four, Four, 4, 4, portable)
    ONEGRAPH_COMPUTE(four, Four, 4, 1, portable)
}

#if defined(__x86_64__)
ONEGRAPH_AVX2 void compute_avx2(const PointwiseStage *stages, const PointwiseStage *end, const Operand *registers,
        float *const *targets, std::size_t count) {
    std::size_t i = 0;
    ONEGRAPH_COMPUTE(_mm256, __m256, 8, 8, avx2)
    ONEGRAPH_COMPUTE(_mm256, __m256, 8, 1, avx2)
}

ONEGRAPH_AVX512 void compute_avx512(const PointwiseStage *stages, const PointwiseStage *end, const Operand *registers,
        float *const *targets, std::size_t count) {
    std::size_t i = 0;
    ONEGRAPH_COMPUTE(_mm512, __m512, 16, 8, avx512)
    ONEGRAPH_COMPUTE(_mm512, __m512, 16, 1, avx512)
}
#else
const auto compute_avx2 = compute_portable, compute_avx512 = compute_portable;
#endif
#undef ONEGRAPH_COMPUTE
#undef ONEGRAPH_EACH
#undef ONEGRAPH_SIGMOID_BACKWARD
#undef ONEGRAPH_TANH_BACKWARD

bool is_unary(int kind) {
    return kind == onegraph_op_square || kind == onegraph_op_sqrt || kind == onegraph_op_copy
            || kind == onegraph_op_sigmoid || kind == onegraph_op_gelu_slope;
}

// The op with its second operand held; 0 if there is none.
int turned(int kind) {
    switch (kind) {
        case onegraph_op_add:
        case onegraph_op_multiply:
        case onegraph_op_squared_difference: return kind;
        case onegraph_op_subtract: return SUBTRACT_FROM;
        case onegraph_op_divide: return DIVIDE_INTO;
        case onegraph_op_gate: return GATE_BY;
        case onegraph_op_sigmoid_backward: return SIGMOID_BACKWARD_BY;
        case onegraph_op_tanh_backward: return TANH_BACKWARD_BY;
        default: return 0;
    }
}

// The ops in an order in which most of them compute with the result of the one before.
std::vector<PointwiseStage> in_chains(const std::vector<PointwiseStage> &ops, std::size_t n_tensors) {
    std::map<std::size_t, std::size_t> maker;
    for (std::size_t i = 0; i < ops.size(); i++)
        maker.emplace(ops[i].result, i);
    std::vector<PointwiseStage> ordered;
    const std::function<void(std::size_t)> add = [&](std::size_t number) {
        const auto found = maker.find(number);
        if (found == maker.end()) return;
        const PointwiseStage one = ops[found->second];
        maker.erase(found);
        add(one.second);
        add(one.first);
        ordered.push_back(one);
    };
    for (const PointwiseStage &one : ops)
        if (one.result < n_tensors) add(one.result);
    std::vector<bool> read(REGISTERS);
    for (std::size_t i = ordered.size(); i-- > 0;) {
        PointwiseStage &one = ordered[i];
        one.stores = one.result < n_tensors || read[one.result];
        const std::size_t held = i > 0 ? ordered[i - 1].result : REGISTERS;
        if (held == one.second && held != one.first && turned(one.kind)) {
            std::swap(one.first, one.second);
            one.kind = turned(one.kind);
        }
        one.loads = held != one.first;
        if (one.loads) read[one.first] = true;
        if (!is_unary(one.kind)) read[one.second] = true;
    }
    return ordered;
}

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
    std::vector<PointwiseStage> ops;
    for (std::size_t i = 0; i < count; i++) {
        std::size_t size = 1;
        for (int axis = 0; axis < tensors[i]->ndims; axis++)
            size *= static_cast<std::size_t>(tensors[i]->dims[axis]);
        total_ = std::max(total_, size);
        sizes.push_back(size);
        if (!is_float(tensors[i]->data_type)) throw std::invalid_argument("no kernel for this data type");
        tensors_.push_back({tensors[i]->data_type, size == 1, false, 0});
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
        const PointwiseStage made {code[i], static_cast<std::size_t>(code[i + 1]), static_cast<std::size_t>(code[i + 2]),
                static_cast<std::size_t>(code[i + 3]), true, true};
        n_registers_ = std::max(n_registers_, made.result + 1);
        if (made.kind < onegraph_op_add || made.kind > onegraph_op_tanh_backward) throw std::invalid_argument("unknown op");
        const bool is_gate = made.kind == onegraph_op_sigmoid || made.kind == onegraph_op_gate;
        if (is_gate && made.second < count && tensors_[made.second].is_single)
            throw std::invalid_argument("sigmoid of a single number");
        ops.push_back(made);
    }
    if (n_registers_ > REGISTERS) throw std::invalid_argument("too many registers");
    const auto gates = [](const PointwiseStage &one) { return one.kind >= onegraph_op_sigmoid; };
    is_large_ = bytes > LARGE && !row_ && std::none_of(ops.begin(), ops.end(), gates);
    stages_ = in_chains(ops, count);
    for (std::size_t i = 0; i < stages_.size(); i++) {
        const PointwiseStage &one = stages_[i];
        if (one.result < count) tensors_[one.result].last_use = i;
        for (const std::size_t number : {one.first, one.second})
            if (number < n_inputs) tensors_[number].last_use = i;
    }
}

void Pointwise::compute(void *const *addresses, std::size_t begin, std::size_t end) const {
    alignas(64) float memory[REGISTERS][PIECE + 16]; // a distance of a power of two makes cache lines collide
    Operand registers[REGISTERS];
    const bool is_fast = level_ > 0 && has_avx2();
    const Compute function = level_ > 1 && has_avx512() ? compute_avx512 : is_fast ? compute_avx2 : compute_portable;
    float *targets[REGISTERS];
    for (std::size_t i = 0; i < n_registers_; i++)
        registers[i] = {targets[i] = memory[i], 1};
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
    // Whether a result is written to where it belongs at once: no later op reads what lies there.
    bool writes[REGISTERS];
    for (std::size_t i = n_inputs_; i < tensors_.size(); i++) {
        writes[i] = tensors_[i].type == dnnl_f32 && !streams(i);
        for (std::size_t j = 0; j < n_inputs_; j++)
            writes[i] = writes[i] && (addresses[j] != addresses[i] || tensors_[j].last_use <= tensors_[i].last_use);
    }
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
        for (std::size_t i = n_inputs_; i < tensors_.size(); i++) {
            const bool is_direct = writes[i] && count % LANES == 0;
            registers[i].elements = targets[i] = is_direct ? reinterpret_cast<float *>(at(i, begin)) : memory[i];
        }
        function(stages_.data(), stages_.data() + stages_.size(), registers, targets, count);
        for (std::size_t i = n_inputs_; i < tensors_.size(); i++) {
            if (targets[i] != memory[i]) continue;
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
