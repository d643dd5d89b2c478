// Elementwise ops for which the library loses NaN or an infinity. Each is computed in f32 as IEEE 754 says.

#include <cmath>

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

// The normal distribution for numbers within 15 of 0, where it is 0 or 1; see stages.inc.
ONEGRAPH_INLINE float tail_of(float size, float bell) {
    const float t = 1.0f / fused(0.23164189f, size, 1.0f);
    float tail = fused(0.53070271f, t, -0.72657602f);
    tail = fused(tail, t, 0.71070688f);
    tail = fused(tail, t, -0.14224837f);
    return fused(tail, t, 0.12741480f) * t * bell;
}

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

struct GeluErf {
    ONEGRAPH_INLINE static float of(float x, float, float, float) { return x * phi(within(x, -15, 15)); }
};

struct GeluTanh {
    ONEGRAPH_INLINE static float of(float x, float, float, float) { return x / (1.0f + exponential(-tanh_argument(x))); }
};

struct PRelu {
    ONEGRAPH_INLINE static float of(float x, float slope, float, float) { return x > 0 ? x : slope * x; }
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
        const float near = within(x, -9, 9), share = 1.0f / (1.0f + exp_of(-tanh_argument(near)));
        const float slope = 1.59576912f * fused(3 * 0.044715f * near, near, 1.0f);
        return d * (fused(near * share * (1.0f - share), slope, share) + undefined_at_infinity(x));
    }
};

struct MishBackward {
    ONEGRAPH_INLINE static float of(float x, float d, float, float) {
        const float near = within(x, -80, 20), e = exp_of(near), n = e * (e + 2), t = n / (n + 2);
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

template <typename Op>
void compute_portable(const float *const *sources, float *result, std::size_t count) {
    compute<Op>(sources, result, count);
}

template <typename Op>
ONEGRAPH_AVX2 void compute_avx2(const float *const *sources, float *result, std::size_t count) {
    compute<Op>(sources, result, count);
}

template <typename Op>
ONEGRAPH_AVX512 void compute_avx512(const float *const *sources, float *result, std::size_t count) {
    compute<Op>(sources, result, count);
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

void write(const float *source, char *target, Bytes stride, dnnl_data_type_t type, std::size_t count) {
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
    const auto function = has_avx512() ? compute_avx512<Op> : has_avx2() ? compute_avx2<Op> : compute_portable<Op>;
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
void rectify_portable(const Half *source, Half *result, std::size_t count) {
    rectify<infinite>(source, result, count);
}

template <Half infinite>
ONEGRAPH_AVX2 void rectify_avx2(const Half *source, Half *result, std::size_t count) {
    rectify<infinite>(source, result, count);
}

template <Half infinite>
ONEGRAPH_AVX512 void rectify_avx512(const Half *source, Half *result, std::size_t count) {
    rectify<infinite>(source, result, count);
}

template <Half infinite>
void halves(char *const *pointers, const Bytes *strides, std::size_t count, const dnnl_data_type_t *types) {
    if (!is_packed(strides[0], types[0]) || !is_packed(strides[1], types[1]))
        return elements<Relu, 1>(pointers, strides, count, types);
    const auto function = has_avx512() ? rectify_avx512<infinite> : has_avx2() ? rectify_avx2<infinite>
                                                                              : rectify_portable<infinite>;
    function(reinterpret_cast<const Half *>(pointers[0]), reinterpret_cast<Half *>(pointers[1]), count);
}

template <typename Op, std::size_t inputs>
Row row_with(std::size_t count) {
    return count == inputs + 1 ? elements<Op, inputs> : nullptr;
}

Row row_of_kind(int kind, std::size_t count, const dnnl_data_type_t *types) {
    switch (kind) {
        case onegraph_relu:
            if (count == 2 && types[0] == dnnl_bf16 && types[1] == dnnl_bf16) return halves<0x7f80>;
            if (count == 2 && types[0] == dnnl_f16 && types[1] == dnnl_f16) return halves<0x7c00>;
            return row_with<Relu, 1>(count);
        case onegraph_clamp: return row_with<Clamp, 3>(count);
        case onegraph_hard_sigmoid: return row_with<HardSigmoid, 3>(count);
        case onegraph_maximum: return row_with<Maximum, 2>(count);
        case onegraph_minimum: return row_with<Minimum, 2>(count);
        case onegraph_greater_equal: return row_with<GreaterEqual, 2>(count);
        case onegraph_exp: return row_with<Exp, 1>(count);
        case onegraph_gelu_erf: return row_with<GeluErf, 1>(count);
        case onegraph_gelu_tanh: return row_with<GeluTanh, 1>(count);
        case onegraph_prelu: return row_with<PRelu, 2>(count);
        case onegraph_relu_backward: return row_with<ReluBackward, 2>(count);
        case onegraph_clamp_backward: return row_with<ClampBackward, 4>(count);
        case onegraph_hard_sigmoid_backward: return row_with<HardSigmoidBackward, 4>(count);
        case onegraph_abs_backward: return row_with<AbsBackward, 2>(count);
        case onegraph_elu_backward_by_dst: return row_with<EluBackwardByDst, 3>(count);
        case onegraph_elu_backward_by_src: return row_with<EluBackwardBySrc, 3>(count);
        case onegraph_hard_swish_backward: return row_with<HardSwishBackward, 2>(count);
        case onegraph_gelu_tanh_backward: return row_with<GeluTanhBackward, 2>(count);
        case onegraph_mish_backward: return row_with<MishBackward, 2>(count);
        case onegraph_prelu_backward_src: return row_with<PReluBackwardSrc, 3>(count);
        case onegraph_prelu_backward_slope: return row_with<PReluBackwardSlope, 2>(count);
        case onegraph_keep_nan: return row_with<KeepNan, 2>(count);
        default: return nullptr;
    }
}

} // namespace

Row elementwise_row(int kind, std::size_t count, const dnnl_data_type_t *types) {
    if (count < 2) return nullptr;
    for (std::size_t i = 0; i + 1 < count; i++)
        if (!is_float(types[i])) return nullptr;
    if (!is_float(types[count - 1]) && types[count - 1] != dnnl_boolean) return nullptr;
    return row_of_kind(kind, count, types);
}

} // namespace onegraph
