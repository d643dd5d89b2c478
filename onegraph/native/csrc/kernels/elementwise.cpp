// Elementwise ops for which the library loses NaN or an infinity, or the digits of results near 0, binary ops of which it
// broadcasts both operands by a reference kernel, and ops that it would compile for each size. Each is computed in f32 as
// IEEE 754 says.

#include <cmath>
#include <cstdint>

#include "rows.h"

#include "floats.h"

namespace onegraph {
namespace {

using Number = float;
using Bits = Word;

ONEGRAPH_INLINE float splat(float number) {
    return number;
}

ONEGRAPH_INLINE float fused(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}

#include "exponential.inc"

// A comparison with NaN is false, so that NaN takes the last branch of each choice.

ONEGRAPH_INLINE float within(float x, float low, float high) {
    return x < low ? low : x > high ? high : x;
}

// exp of any number. Beyond the range of exp_of, it is the square of exp of the half.
ONEGRAPH_INLINE float exponential(float x) {
    const bool is_far = x > 87.0f || x < -87.0f;
    const float root = exp_of(within(is_far ? 0.5f * x : x, -87.0f, 87.0f));
    return x == x ? (is_far ? root * root : root) : x;
}

// The natural logarithm of a number from 2**-126 on. x is 2**n * (1 + rest), with rest from sqrt(1/2) - 1 to sqrt(2) - 1;
// the polynomial of the rest is that of Cephes. Where x is near 1, n is 0 and no digit is lost.
ONEGRAPH_INLINE float log_of(float x) {
    const Bits shifted = bits_of(x) - 0x3f3504f3; // sqrt(1/2) begins a binade
    const auto n = static_cast<float>(static_cast<std::int32_t>(shifted) >> 23);
    const float rest = of_bits((shifted & 0x7fffff) + 0x3f3504f3) - 1.0f;
    float sum = fused(7.0376836292e-2f, rest, -1.1514610310e-1f);
    sum = fused(sum, rest, 1.1676998740e-1f);
    sum = fused(sum, rest, -1.2420140846e-1f);
    sum = fused(sum, rest, 1.4249322787e-1f);
    sum = fused(sum, rest, -1.6668057665e-1f);
    sum = fused(sum, rest, 2.0000714765e-1f);
    sum = fused(sum, rest, -2.4999993993e-1f);
    sum = fused(sum, rest, 3.3333331174e-1f);
    const float square = rest * rest;
    sum = fused(sum * rest, square, n * -2.12194440e-4f);
    return fused(n, 0.693359375f, rest + fused(-0.5f, square, sum));
}

ONEGRAPH_INLINE float logarithm(float x) {
    const bool is_small = x < 1.17549435e-38f; // times 2**23, it is no subnormal number
    const float found = log_of(is_small ? 8388608.0f * x : x) - (is_small ? 15.9423851f : 0.0f);
    return x > 0 ? (x < INFINITY ? found : x) : x == 0 ? -INFINITY : NAN;
}

// log(1 + x) for numbers from 0 to 1: with the part of x that the sum rounds off.
ONEGRAPH_INLINE float log_of_more(float x) {
    const float sum = 1.0f + x;
    return log_of(sum) + (x - (sum - 1.0f)) / sum;
}

// exp(x) - 1 for numbers up to 0. Near 0, it is x plus the other terms of the series.
ONEGRAPH_INLINE float exponential_less_one(float x) {
    const float near = x < -0.5f ? -0.5f : x;
    float sum = fused(1.0f / 40320, near, 1.0f / 5040);
    sum = fused(sum, near, 1.0f / 720);
    sum = fused(sum, near, 1.0f / 120);
    sum = fused(sum, near, 1.0f / 24);
    sum = fused(sum, near, 1.0f / 6);
    sum = fused(sum, near, 0.5f);
    return x < -0.5f ? exponential(x) - 1.0f : fused(sum * near, near, near);
}

// The normal distribution for numbers within 15 of 0, where it is 0 or 1. The bell is squared, as it may be less than exp_of
// gives.
ONEGRAPH_INLINE float phi(float near) {
    const float root = exp_of(-0.25f * near * near), tail = tail_of(near < 0 ? -near : near, root * root);
    return near < 0 ? tail : 1.0f - tail;
}

// 2 * sqrt(2 / pi) * (x + 0.044715 * x**3)
ONEGRAPH_INLINE float tanh_argument(float x) {
    return 1.59576912f * x * fused(0.044715f * x, x, 1.0f);
}

// 0 for a number, NaN for NaN and infinities: a slope is the limit of inf * 0 there.
ONEGRAPH_INLINE float undefined_at_infinity(float x) {
    return x - x;
}

struct Relu {
    ONEGRAPH_INLINE static float of(float x, float, float, float) { return x <= 0 ? 0 : x; }
};

struct Clamp {
    ONEGRAPH_INLINE static float of(float x, float low, float high, float) { return within(x, low, high); }
};

struct HardSigmoid {
    ONEGRAPH_INLINE static float of(float x, float alpha, float beta, float) { return within(alpha * x + beta, 0, 1); }
};

struct Add {
    ONEGRAPH_INLINE static float of(float x, float y, float, float) { return x + y; }
};

struct Subtract {
    ONEGRAPH_INLINE static float of(float x, float y, float, float) { return x - y; }
};

struct Multiply {
    ONEGRAPH_INLINE static float of(float x, float y, float, float) { return x * y; }
};

struct Divide {
    ONEGRAPH_INLINE static float of(float x, float y, float, float) { return x / y; }
};

struct SquaredDifference {
    ONEGRAPH_INLINE static float of(float x, float y, float, float) { return (x - y) * (x - y); }
};

struct Maximum {
    ONEGRAPH_INLINE static float of(float x, float y, float, float) { return x < y || y != y ? y : x; }
};

struct Minimum {
    ONEGRAPH_INLINE static float of(float x, float y, float, float) { return x > y || y != y ? y : x; }
};

struct GreaterEqual {
    ONEGRAPH_INLINE static float of(float x, float y, float, float) { return x >= y ? 1 : 0; }
};

struct Exp {
    ONEGRAPH_INLINE static float of(float x, float, float, float) { return exponential(x); }
};

struct Log {
    ONEGRAPH_INLINE static float of(float x, float, float, float) { return logarithm(x); }
};

struct SoftPlus {
    ONEGRAPH_INLINE static float of(float x, float beta, float, float) {
        const float sharp = beta * x, size = sharp < 0 ? -sharp : sharp;
        return (sharp > 0 ? x : 0) + log_of_more(exponential(-size)) / beta;
    }
};

// x * n / (n + 2) is x * tanh(ln(1 + exp(x))) for n = exp(x) * (exp(x) + 2).
struct Mish {
    ONEGRAPH_INLINE static float of(float x, float, float, float) {
        const float e = exponential(x > 20 ? 20 : x), n = e * (e + 2);
        return x * (n / (n + 2));
    }
};

struct Elu {
    ONEGRAPH_INLINE static float of(float x, float alpha, float, float) {
        return x > 0 ? x : alpha * exponential_less_one(x);
    }
};

struct GeluErf {
    ONEGRAPH_INLINE static float of(float x, float, float, float) { return x * phi(within(x, -15, 15)); }
};

// Near 0, the series; elsewhere 1 less both tails of the normal distribution.
struct Erf {
    ONEGRAPH_INLINE static float of(float x, float, float, float) {
        const float near = within(x, -4, 4), square = near * near; // erf of more is 1
        float sum = fused(-1.63658447e-07f, square, 1.64621144e-06f);
        sum = fused(sum, square, -1.49256504e-05f);
        sum = fused(sum, square, 1.20553330e-04f);
        sum = fused(sum, square, -8.54832702e-04f);
        sum = fused(sum, square, 5.22397763e-03f);
        sum = fused(sum, square, -2.68661706e-02f);
        sum = fused(sum, square, 1.12837917e-01f);
        sum = fused(sum, square, -3.76126389e-01f);
        sum = fused(sum, square, 1.12837917e+00f) * near;
        const float size = near < 0 ? -near : near;
        const float far = fused(-2.0f, tail_of(1.41421356f * size, exp_of(-square)), 1.0f);
        return size < 1.0f ? sum : near < 0 ? -far : near > 0 ? far : x;
    }
};

// The nearest multiple of a step, of low to high steps.
struct FakeQuantize {
    ONEGRAPH_INLINE static float of(float x, float step, float low, float high) {
        constexpr float rounding = 12582912.0f; // adding and subtracting it rounds to the nearest integer, halves to even
        return (within(x / step, low, high) + rounding - rounding) * step;
    }
};

struct GeluTanh {
    ONEGRAPH_INLINE static float of(float x, float, float, float) { return x / (1.0f + exponential(-tanh_argument(x))); }
};

struct PRelu {
    ONEGRAPH_INLINE static float of(float x, float slope, float, float) { return x > 0 ? x : slope * x; }
};

struct LeakyRelu {
    ONEGRAPH_INLINE static float of(float x, float alpha, float, float) { return x > 0 ? x : alpha * x; }
};

struct HardSwish {
    ONEGRAPH_INLINE static float of(float x, float, float, float) {
        return x * within(fused(x, 1.0f / 6, 0.5f), 0, 1);
    }
};

struct Abs {
    ONEGRAPH_INLINE static float of(float x, float, float, float) { return of_bits(bits_of(x) & 0x7fffffff); }
};

// Halves go to the even number, and a result of 0 keeps its sign. Numbers from 2**23 on are integers.
struct Round {
    ONEGRAPH_INLINE static float of(float x, float, float, float) {
        constexpr float integer = 8388608.0f;
        const Bits sign = bits_of(x) & 0x80000000;
        const float size = of_bits(bits_of(x) ^ sign);
        return size < integer ? of_bits(bits_of(size + integer - integer) | sign) : x;
    }
};

// (1 - e) / (1 + e) for e = exp(-2 * x), by exp(-2 * x) - 1, so that no digit is lost near 0.
struct Tanh {
    ONEGRAPH_INLINE static float of(float x, float, float, float) {
        const float less = exponential_less_one(-2 * (x < 0 ? -x : x)), found = less / (less + 2);
        return x < 0 ? found : -found;
    }
};

// Gradients: x is src, or dst of the forward op, and d is diff_dst.

struct ReluBackward {
    ONEGRAPH_INLINE static float of(float x, float d, float, float) { return x <= 0 ? 0 : d; }
};

struct ClampBackward {
    ONEGRAPH_INLINE static float of(float x, float d, float low, float high) { return x > low && x < high ? d : 0; }
};

struct HardSigmoidBackward {
    ONEGRAPH_INLINE static float of(float x, float d, float alpha, float beta) {
        const float line = alpha * x + beta;
        return line > 0 && line < 1 ? alpha * d : 0;
    }
};

struct AbsBackward {
    ONEGRAPH_INLINE static float of(float x, float d, float, float) { return d * (x > 0 ? 1 : x < 0 ? -1 : x); }
};

struct EluBackwardByDst {
    ONEGRAPH_INLINE static float of(float x, float d, float alpha, float) { return d * (x > 0 ? 1 : x + alpha); }
};

struct EluBackwardBySrc {
    ONEGRAPH_INLINE static float of(float x, float d, float alpha, float) {
        return d * (x > 0 ? 1 : alpha * exponential(x));
    }
};

struct HardSwishBackward {
    ONEGRAPH_INLINE static float of(float x, float d, float, float) {
        return d * (x >= 3 ? 1 : x <= -3 ? 0 : (2 * x + 3) / 6);
    }
};

struct GeluTanhBackward {
    ONEGRAPH_INLINE static float of(float x, float d, float, float) {
        const float near = within(x, -99, 99), share = 1.0f / (1.0f + exponential(-tanh_argument(near)));
        const float slope = 1.59576912f * fused(3 * 0.044715f * near, near, 1.0f);
        return d * (fused(near * share * (1.0f - share), slope, share) + undefined_at_infinity(x));
    }
};

struct MishBackward {
    ONEGRAPH_INLINE static float of(float x, float d, float, float) {
        const float near = within(x, -150, 20), e = exponential(near), n = e * (e + 2), t = n / (n + 2);
        const float rest = 4 * (e + 1) * e / ((n + 2) * (n + 2)); // (1 - t * t) * sigmoid
        return d * (fused(near, rest, t) + undefined_at_infinity(x));
    }
};

struct PReluBackwardSrc {
    ONEGRAPH_INLINE static float of(float x, float slope, float d, float) { return x > 0 ? d : slope * d; }
};

struct PReluBackwardSlope {
    ONEGRAPH_INLINE static float of(float x, float d, float, float) { return x > 0 ? 0 : d * x; }
};

// The second number, but NaN where the first one is NaN.
struct KeepNan {
    ONEGRAPH_INLINE static float of(float x, float result, float, float) { return x == x ? result : x; }
};

constexpr std::size_t INPUTS = 4;

// The result may be one of the sources.
template <typename Op>
ONEGRAPH_INLINE void compute(const float *const *sources, float *result, std::size_t count) {
    const float *a = sources[0], *b = sources[1], *c = sources[2], *d = sources[3];
#pragma GCC ivdep
    for (std::size_t i = 0; i < count; i++)
        result[i] = Op::of(a[i], b[i], c[i], d[i]);
}

bool is_packed(Bytes stride, dnnl_data_type_t type) {
    return stride == static_cast<Bytes>(size_of(type));
}

// Elements as f32, one behind another.
void read(const char *source, Bytes stride, dnnl_data_type_t type, float *target, std::size_t count) {
    if (is_packed(stride, type)) return cast(type, source, dnnl_f32, reinterpret_cast<char *>(target), count, has_avx2());
    for (std::size_t i = 0; i < count; i++, source += stride)
        cast(type, source, dnnl_f32, reinterpret_cast<char *>(target + i), 1, has_avx2());
}

ONEGRAPH_INLINE void answers(const float *source, std::uint8_t *target, std::size_t count) {
    for (std::size_t i = 0; i < count; i++)
        target[i] = source[i] != 0;
}

void write(const float *source, char *target, Bytes stride, dnnl_data_type_t type, std::size_t count) {
    if (type == dnnl_boolean && stride == 1)
        return ForCpu<answers>::of()(source, reinterpret_cast<std::uint8_t *>(target), count);
    if (type == dnnl_boolean) {
        for (std::size_t i = 0; i < count; i++, target += stride)
            *target = source[i] != 0;
        return;
    }
    if (is_packed(stride, type)) return cast(dnnl_f32, reinterpret_cast<const char *>(source), type, target, count, has_avx2());
    for (std::size_t i = 0; i < count; i++, target += stride)
        cast(dnnl_f32, reinterpret_cast<const char *>(source + i), type, target, 1, has_avx2());
}

template <typename Op, std::size_t inputs>
void elements(char *const *pointers, const Bytes *strides, std::size_t count, const dnnl_data_type_t *types) {
    alignas(64) float memory[INPUTS + 1][BLOCK];
    const auto function = ForCpu<compute<Op>>::of();
    const float *sources[INPUTS];
    bool is_direct[INPUTS + 1], is_single[INPUTS];
    for (std::size_t i = 0; i <= inputs; i++)
        is_direct[i] = types[i] == dnnl_f32 && is_packed(strides[i], types[i]);
    for (std::size_t i = 0; i < inputs; i++) {
        is_single[i] = strides[i] == 0;
        if (!is_single[i]) continue;
        read(pointers[i], 0, types[i], memory[i], 1);
        for (std::size_t j = 1; j < std::min(count, BLOCK); j++)
            memory[i][j] = memory[i][0];
    }
    for (std::size_t done = 0; done < count; done += BLOCK) {
        const std::size_t some = std::min(BLOCK, count - done);
        const auto at = [&](std::size_t i) { return pointers[i] + static_cast<Bytes>(done) * strides[i]; };
        for (std::size_t i = 0; i < inputs; i++) {
            sources[i] = is_direct[i] ? reinterpret_cast<const float *>(at(i)) : memory[i];
            if (!is_direct[i] && !is_single[i]) read(at(i), strides[i], types[i], memory[i], some);
        }
        for (std::size_t i = inputs; i < INPUTS; i++)
            sources[i] = sources[0];
        float *const result = is_direct[inputs] ? reinterpret_cast<float *>(at(inputs)) : memory[INPUTS];
        function(sources, result, some);
        if (!is_direct[inputs]) write(result, at(inputs), strides[inputs], types[inputs], some);
    }
}

// ReLU of 16-bit floats: negative numbers, whose sign is set and which are not NaN, become 0.
template <Half infinite>
ONEGRAPH_INLINE void rectify(const Half *source, Half *result, std::size_t count) {
#pragma GCC ivdep
    for (std::size_t i = 0; i < count; i++) {
        const Half size = source[i] & 0x7fff, bits = source[i];
        result[i] = bits > 0x7fff && size <= infinite ? Half {0} : bits;
    }
}

template <Half infinite>
void halves(char *const *pointers, const Bytes *strides, std::size_t count, const dnnl_data_type_t *types) {
    if (!is_packed(strides[0], types[0]) || !is_packed(strides[1], types[1]))
        return elements<Relu, 1>(pointers, strides, count, types);
    const auto function = ForCpu<rectify<infinite>>::of();
    function(reinterpret_cast<const Half *>(pointers[0]), reinterpret_cast<Half *>(pointers[1]), count);
}

template <typename Op, std::size_t inputs>
Row row_of(std::size_t count, const dnnl_data_type_t *types) {
    if (count != inputs + 1) return nullptr;
    for (std::size_t i = 0; i < inputs; i++)
        if (!is_float(types[i])) return nullptr;
    return is_float(types[inputs]) || types[inputs] == dnnl_boolean ? elements<Op, inputs> : nullptr;
}

Row relu_of(std::size_t count, const dnnl_data_type_t *types) {
    if (count == 2 && types[0] == dnnl_bf16 && types[1] == dnnl_bf16) return halves<0x7f80>;
    if (count == 2 && types[0] == dnnl_f16 && types[1] == dnnl_f16) return halves<0x7c00>;
    return row_of<Relu, 1>(count, types);
}

template <typename Op, std::size_t inputs>
using Elementwise = RegisteredRows<row_of<Op, inputs>>;

// The result may share memory with an input. Attributes are f32 inputs.
const RegisteredRows<relu_of> RELU {"relu"};
const Elementwise<Clamp, 3> CLAMP {"clamp"};
const Elementwise<HardSigmoid, 3> HARD_SIGMOID {"hard_sigmoid"};
const Elementwise<Add, 2> ADD {"spread_add"};
const Elementwise<Subtract, 2> SUBTRACT {"spread_subtract"};
const Elementwise<Multiply, 2> MULTIPLY {"spread_multiply"};
const Elementwise<Divide, 2> DIVIDE {"spread_divide"};
const Elementwise<SquaredDifference, 2> SQUARED_DIFFERENCE {"spread_squared_difference"};
const Elementwise<Maximum, 2> MAXIMUM {"maximum"};
const Elementwise<Minimum, 2> MINIMUM {"minimum"};
const Elementwise<GreaterEqual, 2> GREATER_EQUAL {"greater_equal"};
const Elementwise<Exp, 1> EXP {"exp"};
const Elementwise<Log, 1> LOG {"log"};
const Elementwise<SoftPlus, 2> SOFTPLUS {"softplus"};
const Elementwise<Mish, 1> MISH {"mish"};
const Elementwise<Elu, 2> ELU {"elu"};
const Elementwise<GeluErf, 1> GELU_ERF {"gelu_erf"};
const Elementwise<Erf, 1> ERF {"erf"};
const Elementwise<FakeQuantize, 4> FAKE_QUANTIZE {"fake_quantize"};
const Elementwise<GeluTanh, 1> GELU_TANH {"gelu_tanh"};
const Elementwise<PRelu, 2> PRELU {"prelu"};
const Elementwise<LeakyRelu, 2> LEAKY_RELU {"leaky_relu"};
const Elementwise<HardSwish, 1> HARD_SWISH {"hard_swish"};
const Elementwise<Abs, 1> ABS {"abs"};
const Elementwise<Round, 1> ROUND {"round"};
const Elementwise<Tanh, 1> TANH {"tanh"};
const Elementwise<ReluBackward, 2> RELU_BACKWARD {"relu_backward"};
const Elementwise<ClampBackward, 4> CLAMP_BACKWARD {"clamp_backward"};
const Elementwise<HardSigmoidBackward, 4> HARD_SIGMOID_BACKWARD {"hard_sigmoid_backward"};
const Elementwise<AbsBackward, 2> ABS_BACKWARD {"abs_backward"};
const Elementwise<EluBackwardByDst, 3> ELU_BACKWARD_BY_DST {"elu_backward_by_dst"};
const Elementwise<EluBackwardBySrc, 3> ELU_BACKWARD_BY_SRC {"elu_backward_by_src"};
const Elementwise<HardSwishBackward, 2> HARD_SWISH_BACKWARD {"hard_swish_backward"};
const Elementwise<GeluTanhBackward, 2> GELU_TANH_BACKWARD {"gelu_tanh_backward"};
const Elementwise<MishBackward, 2> MISH_BACKWARD {"mish_backward"};
const Elementwise<PReluBackwardSrc, 3> PRELU_BACKWARD_SRC {"prelu_backward_src"};
const Elementwise<PReluBackwardSlope, 2> PRELU_BACKWARD_SLOPE {"prelu_backward_slope"};
const Elementwise<KeepNan, 2> KEEP_NAN {"keep_nan"};

} // namespace
} // namespace onegraph
