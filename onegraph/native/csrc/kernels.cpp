#include "kernels.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <utility>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "openmp.h"

// -O2 leaves loops as they are whose length is not known to be a multiple of a vector.
#pragma GCC optimize("O3")
// A product and a sum are rounded one after the other on every CPU.
#pragma GCC optimize("fp-contract=off")

namespace onegraph {
namespace {

using Half = std::uint16_t;
using Word = std::uint32_t;
using Bytes = Kernel::Bytes;

// Casts ---------------------------------------------------------------------------------------------------------------
//
// Every cast rounds to nearest, ties to even, keeps subnormal numbers, and keeps the sign of NaN.

Word bits_of(float value) {
    Word bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

float float_of(Word bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

constexpr Word INFINITE = 0x7f800000; // of f32
constexpr Word REBIAS = 112u << 23; // from the exponent of an f16 to that of an f32

float f16_to_f32(Half half) {
    const Word sign = (half & 0x8000u) << 16, exponent = half >> 10 & 31u, fraction = half & 0x3ffu;
    if (exponent == 31) return float_of(sign | INFINITE | fraction << 13 | (fraction ? 0x400000u : 0));
    if (exponent == 0) return float_of(sign | bits_of(static_cast<float>(fraction) * 0x1p-24f));
    return float_of(sign | (((half & 0x7fffu) << 13) + REBIAS));
}

Half f32_to_f16(float value) {
    const Word sign = bits_of(value) >> 16 & 0x8000, size = bits_of(value) & 0x7fffffff;
    if (size > INFINITE) return static_cast<Half>(sign | 0x7e00 | (size >> 13 & 0x3ff)); // NaN, made quiet
    if (size >= bits_of(65536)) return static_cast<Half>(sign | 0x7c00);
    // For a subnormal f16: the sum with 0.5 is rounded to a multiple of the smallest f16.
    if (size < bits_of(0x1p-14f)) return static_cast<Half>(sign | (bits_of(float_of(size) + 0.5f) - bits_of(0.5f)));
    return static_cast<Half>(sign | (size - REBIAS + 0xfff + (size >> 13 & 1)) >> 13);
}

#define ONEGRAPH_INLINE inline __attribute__((always_inline))

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

// How to cast elements that lie one behind another, for one type of 16 bits.
struct Casts {
    void (*widen)(const Half *source, float *target, std::size_t count);
    void (*narrow)(const float *source, Half *target, std::size_t count);
};

template <float (*widened)(Half)>
ONEGRAPH_INLINE void widen(const Half *source, float *target, std::size_t count) {
    for (std::size_t i = 0; i < count; i++)
        target[i] = widened(source[i]);
}

template <Half (*narrowed)(float)>
ONEGRAPH_INLINE void narrow(const float *source, Half *target, std::size_t count) {
    for (std::size_t i = 0; i < count; i++)
        target[i] = narrowed(source[i]);
}

const Casts PORTABLE[] = {
        {[](const Half *s, float *t, std::size_t n) { widen<f16_to_f32>(s, t, n); },
                [](const float *s, Half *t, std::size_t n) { narrow<f32_to_f16>(s, t, n); }},
        {[](const Half *s, float *t, std::size_t n) { widen<bf16_to_f32>(s, t, n); },
                [](const float *s, Half *t, std::size_t n) { narrow<f32_to_bf16>(s, t, n); }},
};

#if defined(__x86_64__)
#define ONEGRAPH_AVX2 __attribute__((target("avx2,f16c")))

bool has_avx2() {
    unsigned a, b, c = 0, d;
    static const bool found = __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
    return found;
}

ONEGRAPH_AVX2 void widen_f16(const Half *source, float *target, std::size_t count) {
    for (; count >= 8; count -= 8, source += 8, target += 8)
        _mm256_storeu_ps(target, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(source))));
    widen<f16_to_f32>(source, target, count);
}

ONEGRAPH_AVX2 void narrow_f16(const float *source, Half *target, std::size_t count) {
    for (; count >= 8; count -= 8, source += 8, target += 8) {
        const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(source), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128(reinterpret_cast<__m128i *>(target), halves);
    }
    narrow<f32_to_f16>(source, target, count);
}

ONEGRAPH_AVX2 void widen_bf16(const Half *source, float *target, std::size_t count) {
    widen<bf16_to_f32>(source, target, count);
}

ONEGRAPH_AVX2 void narrow_bf16(const float *source, Half *target, std::size_t count) {
    narrow<f32_to_bf16>(source, target, count);
}

#define ONEGRAPH_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")))

bool has_avx512() {
    static const bool found = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
            && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    return found;
}

const Casts WITH_AVX2[] = {{widen_f16, narrow_f16}, {widen_bf16, narrow_bf16}};
#else
#define ONEGRAPH_AVX2
#define ONEGRAPH_AVX512
bool has_avx2() {
    return false;
}
bool has_avx512() {
    return false;
}
const Casts *const WITH_AVX2 = PORTABLE;
#endif

constexpr std::size_t BLOCK = 512; // elements that are cast before the next ones are read

std::size_t size_of(dnnl_data_type_t type) {
    return type == dnnl_f32 || type == dnnl_s32 ? 4 : type == dnnl_f16 || type == dnnl_bf16 ? 2 : 1;
}

// Casts elements that lie one behind another.
void cast(dnnl_data_type_t from, const char *source, dnnl_data_type_t to, char *target, std::size_t count, bool is_fast) {
    const Casts *casts = is_fast ? WITH_AVX2 : PORTABLE;
    const auto of = [&](dnnl_data_type_t type) -> const Casts & { return casts[type == dnnl_bf16]; };
    if (from == to) {
        std::memcpy(target, source, count * size_of(from));
    } else if (from == dnnl_f32) {
        of(to).narrow(reinterpret_cast<const float *>(source), reinterpret_cast<Half *>(target), count);
    } else if (to == dnnl_f32) {
        of(from).widen(reinterpret_cast<const Half *>(source), reinterpret_cast<float *>(target), count);
    } else {
        float wide[BLOCK];
        for (; count > 0; source += BLOCK * sizeof(Half), target += BLOCK * sizeof(Half)) {
            const std::size_t some = std::min(BLOCK, count);
            of(from).widen(reinterpret_cast<const Half *>(source), wide, some);
            of(to).narrow(wide, reinterpret_cast<Half *>(target), some);
            count -= some;
        }
    }
}

template <typename T>
void move(const char *source, Bytes source_stride, char *target, Bytes target_stride, std::size_t count) {
    for (; count > 0; count--, source += source_stride, target += target_stride)
        *reinterpret_cast<T *>(target) = *reinterpret_cast<const T *>(source);
}

void move(dnnl_data_type_t type, const char *source, Bytes from, char *target, Bytes to, std::size_t count) {
    (size_of(type) == 4 ? move<Word> : move<Half>)(source, from, target, to, count);
}

// Casts elements at any strides.
void cast_row(char *const *pointers, const Bytes *strides, std::size_t count, const dnnl_data_type_t *types) {
    const dnnl_data_type_t from = types[0], to = types[1];
    const auto from_size = static_cast<Bytes>(size_of(from)), to_size = static_cast<Bytes>(size_of(to));
    const char *source = pointers[0];
    char *target = pointers[1];
    if (strides[0] == from_size && strides[1] == to_size) return cast(from, source, to, target, count, has_avx2());
    if (from == to) return move(from, source, strides[0], target, strides[1], count);
    alignas(64) char read[BLOCK * sizeof(Word)], written[BLOCK * sizeof(Word)];
    for (std::size_t some; count > 0; count -= some) {
        some = std::min(BLOCK, count);
        const auto length = static_cast<Bytes>(some);
        if (strides[0] != from_size) move(from, source, strides[0], read, from_size, some);
        const bool is_whole = strides[1] == to_size;
        cast(from, strides[0] == from_size ? source : read, to, is_whole ? target : written, some, has_avx2());
        if (!is_whole) move(to, written, to_size, target, strides[1], some);
        source += length * strides[0], target += length * strides[1];
    }
}

// Select --------------------------------------------------------------------------------------------------------------

// Selects elements that lie one behind another. `c`, `a`, `b`: whether the condition and the two sources have an element
// for each result, or one for all of them.
template <typename T, bool c, bool a, bool b>
ONEGRAPH_INLINE void select(char *const *pointers, std::size_t count) {
    const auto *cond = reinterpret_cast<const unsigned char *>(pointers[0]);
    const auto *first = reinterpret_cast<const T *>(pointers[1]), *second = reinterpret_cast<const T *>(pointers[2]);
    auto *__restrict result = reinterpret_cast<T *>(pointers[3]);
    for (std::size_t i = 0; i < count; i++) {
        const T mask = static_cast<T>(cond[c ? i : 0] ? -1 : 0);
        result[i] = static_cast<T>((first[a ? i : 0] & mask) | (second[b ? i : 0] & ~mask));
    }
}

template <typename T, bool c, bool a, bool b>
void select_portable(char *const *pointers, std::size_t count) {
    select<T, c, a, b>(pointers, count);
}

template <typename T, bool c, bool a, bool b>
ONEGRAPH_AVX2 void select_avx2(char *const *pointers, std::size_t count) {
    select<T, c, a, b>(pointers, count);
}

template <typename T, std::size_t... i>
void select(std::size_t which, char *const *pointers, std::size_t count, std::index_sequence<i...>) {
    using Function = void (*)(char *const *, std::size_t);
    static constexpr Function portable[] = {select_portable<T, (i & 4) != 0, (i & 2) != 0, (i & 1) != 0>...};
    static constexpr Function avx2[] = {select_avx2<T, (i & 4) != 0, (i & 2) != 0, (i & 1) != 0>...};
    (has_avx2() ? avx2 : portable)[which](pointers, count);
}

// Selects elements at any strides.
template <typename T>
void select_row(char *const *pointers, const Bytes *strides, std::size_t count, const dnnl_data_type_t *) {
    constexpr Bytes sizes[] = {1, sizeof(T), sizeof(T), sizeof(T)};
    const auto is_simple = [&](std::size_t i) { return strides[i] == sizes[i] || strides[i] == 0; };
    if (strides[3] == sizes[3] && is_simple(0) && is_simple(1) && is_simple(2)) {
        const std::size_t which = (strides[0] ? 4 : 0) + (strides[1] ? 2 : 0) + (strides[2] ? 1 : 0);
        return select<T>(which, pointers, count, std::make_index_sequence<8>());
    }
    const char *cond = pointers[0], *first = pointers[1], *second = pointers[2];
    for (char *result = pointers[3]; count > 0; count--, result += strides[3]) {
        *reinterpret_cast<T *>(result) = *reinterpret_cast<const T *>(*cond ? first : second);
        cond += strides[0], first += strides[1], second += strides[2];
    }
}

// ReplaceNaN ----------------------------------------------------------------------------------------------------------

// Copies elements that lie one behind another, with the value in the place of each that is not a number: without its
// sign, it is larger than infinity.
template <typename T>
ONEGRAPH_INLINE void replace(const T *__restrict source, T value, T infinity, T *__restrict result, std::size_t count) {
    const T sign = static_cast<T>(T {1} << (8 * sizeof(T) - 1)), size = static_cast<T>(sign - 1);
    for (std::size_t i = 0; i < count; i++)
        result[i] = static_cast<T>(source[i] & size) > infinity ? value : source[i];
}

template <typename T>
void replace_portable(const T *source, T value, T infinity, T *result, std::size_t count) {
    replace<T>(source, value, infinity, result, count);
}

template <typename T>
ONEGRAPH_AVX2 void replace_avx2(const T *source, T value, T infinity, T *result, std::size_t count) {
    replace<T>(source, value, infinity, result, count);
}

template <typename T>
void replace_row(char *const *pointers, const Bytes *strides, std::size_t count, const dnnl_data_type_t *types) {
    const T infinity = static_cast<T>(types[0] == dnnl_f32 ? INFINITE : types[0] == dnnl_f16 ? 0x7c00u : 0x7f80u);
    const char *source = pointers[0], *value = pointers[1];
    char *result = pointers[2];
    const Bytes size = sizeof(T);
    if (strides[0] == size && strides[1] == 0 && strides[2] == size) {
        const auto function = has_avx2() ? replace_avx2<T> : replace_portable<T>;
        return function(reinterpret_cast<const T *>(source), *reinterpret_cast<const T *>(value), infinity,
                reinterpret_cast<T *>(result), count);
    }
    for (; count > 0; count--, source += strides[0], value += strides[1], result += strides[2])
        replace_portable<T>(reinterpret_cast<const T *>(source), *reinterpret_cast<const T *>(value), infinity,
                reinterpret_cast<T *>(result), 1);
}

// Scale ---------------------------------------------------------------------------------------------------------------

ONEGRAPH_INLINE float widened(float value) {
    return value;
}

ONEGRAPH_INLINE float widened(Half value) {
    return bf16_to_f32(value);
}

ONEGRAPH_INLINE void store(float value, float *target) {
    *target = value;
}

ONEGRAPH_INLINE void store(float value, Half *target) {
    *target = f32_to_bf16(value);
}

// Elements that lie one behind another, each times a factor of its own, plus a shift of its own.
template <typename T, bool relu>
ONEGRAPH_INLINE void scale(
        const T *__restrict source, const float *factor, const float *shift, T *__restrict result, std::size_t count) {
    for (std::size_t i = 0; i < count; i++) {
        const float value = widened(source[i]) * factor[i] + shift[i];
        store(relu && value < 0 ? 0 : value, result + i);
    }
}

template <typename T, bool relu>
void scale_portable(const T *source, const float *factor, const float *shift, T *result, std::size_t count) {
    scale<T, relu>(source, factor, shift, result, count);
}

template <typename T, bool relu>
ONEGRAPH_AVX2 void scale_avx2(const T *source, const float *factor, const float *shift, T *result, std::size_t count) {
    scale<T, relu>(source, factor, shift, result, count);
}

template <typename T, bool relu>
ONEGRAPH_AVX512 void scale_avx512(const T *source, const float *factor, const float *shift, T *result, std::size_t count) {
    scale<T, relu>(source, factor, shift, result, count);
}

template <typename T, bool relu>
void scale_row(char *const *pointers, const Bytes *strides, std::size_t count, const dnnl_data_type_t *) {
    const char *source = pointers[0], *factor = pointers[1], *shift = pointers[2];
    char *result = pointers[3];
    const Bytes size = sizeof(T), wide = sizeof(float);
    std::size_t some = 1; // elements that lie one behind another
    auto function = scale_portable<T, relu>;
    if (strides[0] == size && strides[1] == wide && strides[2] == wide && strides[3] == size) {
        some = count;
        if (has_avx2()) function = has_avx512() ? scale_avx512<T, relu> : scale_avx2<T, relu>;
    }
    for (; count > 0; count -= some) {
        function(reinterpret_cast<const T *>(source), reinterpret_cast<const float *>(factor),
                reinterpret_cast<const float *>(shift), reinterpret_cast<T *>(result), some);
        source += strides[0], factor += strides[1], shift += strides[2], result += strides[3];
    }
}

// 8-bit codes ---------------------------------------------------------------------------------------------------------

using Code = unsigned char;

#if defined(__x86_64__)
#define ONEGRAPH_VBMI __attribute__((target("avx512f,avx512bw,avx512vbmi")))

bool has_vbmi() {
    static const bool found = has_avx512() && __builtin_cpu_supports("avx512vbmi");
    return found;
}

// Looks up 64 codes at a time; returns how many elements that were.
ONEGRAPH_VBMI std::size_t look_up_vbmi(const Code *source, const Code *table, Code *result, std::size_t count) {
    const __m512i quarters[] = {_mm512_loadu_si512(table), _mm512_loadu_si512(table + 64),
            _mm512_loadu_si512(table + 128), _mm512_loadu_si512(table + 192)};
    std::size_t done = 0;
    for (; done + 64 <= count; done += 64) {
        const __m512i codes = _mm512_loadu_si512(source + done);
        const __m512i low = _mm512_permutex2var_epi8(quarters[0], codes, quarters[1]);
        const __m512i high = _mm512_permutex2var_epi8(quarters[2], codes, quarters[3]);
        _mm512_storeu_si512(result + done, _mm512_mask_blend_epi8(_mm512_movepi8_mask(codes), low, high));
    }
    return done;
}
#else
bool has_vbmi() {
    return false;
}
std::size_t look_up_vbmi(const Code *, const Code *, Code *, std::size_t) {
    return 0;
}
#endif

void look_up_row(char *const *pointers, const Bytes *strides, std::size_t count, const dnnl_data_type_t *) {
    const auto *source = reinterpret_cast<const Code *>(pointers[0]), *table = reinterpret_cast<const Code *>(pointers[1]);
    auto *result = reinterpret_cast<Code *>(pointers[2]);
    std::size_t i = 0;
    if (strides[0] == 1 && strides[2] == 1 && has_vbmi()) i = look_up_vbmi(source, table, result, count);
    for (; i < count; i++)
        result[static_cast<Bytes>(i) * strides[2]] = table[source[static_cast<Bytes>(i) * strides[0]]];
}

// Reads elements as (code - zero) * scale. A stride of 0 repeats one element.
template <typename T>
ONEGRAPH_INLINE void read_as(const char *source, Bytes stride, float zero, float scale, float *__restrict wide, std::size_t count) {
    if (stride == sizeof(T)) {
        const auto *from = reinterpret_cast<const T *>(source);
        for (std::size_t i = 0; i < count; i++)
            wide[i] = (static_cast<float>(from[i]) - zero) * scale;
        return;
    }
    for (std::size_t i = 0; i < count; i++, source += stride)
        wide[i] = (static_cast<float>(*reinterpret_cast<const T *>(source)) - zero) * scale;
}

ONEGRAPH_INLINE void read(dnnl_data_type_t type, const char *source, Bytes stride, const float *numbers, float *wide, std::size_t count) {
    const auto function = type == dnnl_s8 ? 0 : type == dnnl_u8 ? 1 : 2;
    if (function == 0) read_as<signed char>(source, stride, numbers[0], numbers[1], wide, count);
    if (function == 1) read_as<Code>(source, stride, numbers[0], numbers[1], wide, count);
    if (function == 2) read_as<float>(source, stride, numbers[0], numbers[1], wide, count);
}

template <typename T>
ONEGRAPH_INLINE void write_as(float *wide, const float *numbers, char *target, Bytes stride, std::size_t count) {
    const float factor = numbers[onegraph_factor], zero = numbers[onegraph_zero];
    const float low = numbers[onegraph_low], high = numbers[onegraph_high];
    const auto code = [=](float number) {
        number = number * factor + zero;
        number = number > low ? number : low; // also where it is not a number
        number = number < high ? number : high;
        return static_cast<T>(static_cast<int>(__builtin_rintf(number)));
    };
    if (stride == sizeof(T)) {
        auto *__restrict to = reinterpret_cast<T *>(target);
        for (std::size_t i = 0; i < count; i++)
            to[i] = code(wide[i]);
        return;
    }
    for (std::size_t i = 0; i < count; i++, target += stride)
        *reinterpret_cast<T *>(target) = code(wide[i]);
}

// Computes with elements of one tensor (`kind` 0) or two, by the numbers in the last input.
template <int kind>
ONEGRAPH_INLINE void scaled(char *const *pointers, const Bytes *strides, std::size_t count, const dnnl_data_type_t *types) {
    constexpr std::size_t sources = kind == 0 ? 1 : 2, last = sources + 1;
    const auto *numbers = reinterpret_cast<const float *>(pointers[sources]);
    alignas(64) float wide[BLOCK], other[BLOCK];
    for (std::size_t begin = 0, some; begin < count; begin += some) {
        some = std::min(BLOCK, count - begin);
        const auto at = [&](std::size_t i) { return pointers[i] + static_cast<Bytes>(begin) * strides[i]; };
        const bool is_plain = types[last] == dnnl_f32 && strides[last] == sizeof(float);
        float *__restrict result = is_plain ? reinterpret_cast<float *>(at(last)) : wide;
        read(types[0], at(0), strides[0], numbers + onegraph_zero_0, result, some);
        if (kind != 0) read(types[1], at(1), strides[1], numbers + onegraph_zero_1, other, some);
        for (std::size_t i = 0; kind == onegraph_add && i < some; i++)
            result[i] += other[i];
        for (std::size_t i = 0; kind == onegraph_multiply && i < some; i++)
            result[i] *= other[i];
        if (types[last] == dnnl_s8) write_as<signed char>(wide, numbers, at(last), strides[last], some);
        if (types[last] == dnnl_u8) write_as<Code>(wide, numbers, at(last), strides[last], some);
        for (std::size_t i = 0; types[last] == dnnl_f32 && !is_plain && i < some; i++)
            *reinterpret_cast<float *>(at(last) + static_cast<Bytes>(i) * strides[last]) = wide[i];
    }
}

template <int kind>
void scaled_portable(char *const *pointers, const Bytes *strides, std::size_t count, const dnnl_data_type_t *types) {
    scaled<kind>(pointers, strides, count, types);
}

template <int kind>
ONEGRAPH_AVX2 void scaled_avx2(char *const *pointers, const Bytes *strides, std::size_t count, const dnnl_data_type_t *types) {
    scaled<kind>(pointers, strides, count, types);
}

template <int kind>
ONEGRAPH_AVX512 void scaled_avx512(char *const *pointers, const Bytes *strides, std::size_t count, const dnnl_data_type_t *types) {
    scaled<kind>(pointers, strides, count, types);
}

template <int kind>
Kernel::Row scaled_row() {
    return has_avx512() ? scaled_avx512<kind> : has_avx2() ? scaled_avx2<kind> : scaled_portable<kind>;
}

// Kernels -------------------------------------------------------------------------------------------------------------

bool is_code(dnnl_data_type_t type) {
    return type == dnnl_s8 || type == dnnl_u8;
}

bool is_scaled(dnnl_data_type_t type) {
    return type == dnnl_f32 || is_code(type);
}

bool is_float(dnnl_data_type_t type) {
    return type == dnnl_f32 || type == dnnl_f16 || type == dnnl_bf16;
}

bool is_scalable(const dnnl_data_type_t *types) {
    const bool has_factors = types[1] == dnnl_f32 && types[2] == dnnl_f32;
    return has_factors && (types[0] == dnnl_f32 || types[0] == dnnl_bf16) && types[3] == types[0];
}

Kernel::Row row_of(int kind, std::size_t count, const dnnl_data_type_t *types) {
    if (kind == onegraph_cast && count == 2 && is_float(types[0]) && is_float(types[1])) return cast_row;
    const bool is_alike = is_float(types[0]) && types[1] == types[0] && types[count - 1] == types[0];
    if (kind == onegraph_replace_nan && count == 3 && is_alike)
        return size_of(types[0]) == 4 ? replace_row<Word> : replace_row<Half>;
    if ((kind == onegraph_scale || kind == onegraph_scale_relu) && count == 4 && is_scalable(types)) {
        const bool is_wide = types[0] == dnnl_f32;
        if (kind == onegraph_scale) return is_wide ? scale_row<float, false> : scale_row<Half, false>;
        return is_wide ? scale_row<float, true> : scale_row<Half, true>;
    }
    const bool is_select = kind == onegraph_select && count == 4 && types[0] == dnnl_boolean && is_float(types[3]);
    if (is_select && types[1] == types[3] && types[2] == types[3])
        return size_of(types[3]) == 4 ? select_row<Word> : select_row<Half>;
    if (kind == onegraph_look_up && count == 3 && is_code(types[0]) && is_code(types[1]) && is_code(types[2]))
        return look_up_row;
    const bool has_numbers = count > 2 && types[count - 2] == dnnl_f32 && is_scaled(types[0]) && is_scaled(types[count - 1]);
    if (kind == onegraph_rescale && count == 3 && has_numbers) return scaled_row<0>();
    if (count == 4 && has_numbers && is_scaled(types[1])) {
        if (kind == onegraph_add) return scaled_row<onegraph_add>();
        if (kind == onegraph_multiply) return scaled_row<onegraph_multiply>();
    }
    throw std::invalid_argument("no kernel for these data types");
}

constexpr std::size_t SHORT = 16; // elements of a row; a longer axis with strides takes less time
constexpr std::size_t SHARE = 8192; // elements that are worth a thread

} // namespace

Kernel::Kernel(int kind, std::size_t count, dnnl_graph_logical_tensor_t *const *tensors) : count_(count) {
    if (count > MOST) throw std::invalid_argument("too many tensors");
    for (std::size_t i = 0; i < count; i++)
        types_[i] = tensors[i]->data_type;
    row_ = row_of(kind, count, types_);
    const dnnl_graph_logical_tensor_t &result = *tensors[count - 1];
    for (int axis = 0; axis < result.ndims; axis++) {
        Axis made {static_cast<std::size_t>(result.dims[axis]), {}};
        total_ *= made.size;
        for (std::size_t i = 0; i < count; i++) {
            const int own = axis - result.ndims + tensors[i]->ndims;
            if (own < 0 || tensors[i]->dims[own] == 1) continue;
            made.strides[i] = static_cast<Bytes>(size_of(types_[i])) * tensors[i]->layout.strides[own];
        }
        if (made.size != 1) axes_.push_back(made);
    }
    merge_axes();
}

// Orders the axes as the result lies in memory, and merges neighbours that are one axis for every tensor.
void Kernel::merge_axes() {
    const std::size_t last = count_ - 1;
    const auto is_outside = [&](const Axis &a, const Axis &b) { return a.strides[last] > b.strides[last]; };
    std::stable_sort(axes_.begin(), axes_.end(), is_outside);
    std::vector<Axis> merged;
    for (const Axis &axis : axes_) {
        bool is_one = !merged.empty();
        for (std::size_t i = 0; i < count_ && is_one; i++)
            is_one = merged.back().strides[i] == axis.strides[i] * static_cast<Bytes>(axis.size);
        if (is_one) {
            const std::size_t size = merged.back().size * axis.size;
            merged.back() = axis;
            merged.back().size = size;
        } else {
            merged.push_back(axis);
        }
    }
    if (merged.empty()) merged.push_back({1, {}});
    axes_ = std::move(merged);
    const auto is_shorter = [](const Axis &a, const Axis &b) { return a.size < b.size; };
    const auto longest = std::max_element(axes_.begin(), axes_.end(), is_shorter);
    if (axes_.back().size < SHORT) std::rotate(longest, longest + 1, axes_.end());
}

void Kernel::compute(char *const *addresses, std::size_t begin, std::size_t end) const {
    std::size_t places[DNNL_MAX_NDIMS] = {};
    char *pointers[MOST];
    std::copy_n(addresses, count_, pointers);
    const std::size_t last = axes_.size() - 1;
    for (std::size_t axis = last + 1, rest = begin; axis-- > 0; rest /= axes_[axis].size) {
        places[axis] = rest % axes_[axis].size;
        for (std::size_t i = 0; i < count_; i++)
            pointers[i] += static_cast<Bytes>(places[axis]) * axes_[axis].strides[i];
    }
    const auto advance = [&](std::size_t axis, Bytes steps) {
        for (std::size_t i = 0; i < count_; i++)
            pointers[i] += steps * axes_[axis].strides[i];
    };
    while (begin < end) {
        const std::size_t some = std::min(end - begin, axes_[last].size - places[last]);
        row_(pointers, axes_[last].strides, some, types_);
        begin += some;
        if (begin == end) break;
        advance(last, -static_cast<Bytes>(places[last]));
        places[last] = 0;
        for (std::size_t axis = last; axis-- > 0;) {
            advance(axis, 1);
            if (++places[axis] < axes_[axis].size) break;
            advance(axis, -static_cast<Bytes>(places[axis]));
            places[axis] = 0;
        }
    }
}

// The elements of one run, which threads take in pieces.
struct Kernel::Shares {
    const Kernel &kernel;
    char *const *addresses;
    std::size_t piece;
    std::atomic<std::size_t> next {0};

    static void take(void *self) {
        Shares &shares = *static_cast<Shares *>(self);
        const std::size_t total = shares.kernel.total_;
        for (std::size_t begin; (begin = shares.next.fetch_add(shares.piece)) < total;)
            shares.kernel.compute(shares.addresses, begin, std::min(begin + shares.piece, total));
    }
};

void Kernel::run(void *const *addresses, int threads) const {
    char *pointers[MOST];
    for (std::size_t i = 0; i < count_; i++)
        pointers[i] = static_cast<char *>(addresses[i]);
    const std::size_t wanted = std::min(static_cast<std::size_t>(std::max(threads, 1)), total_ / SHARE);
    if (wanted < 2 || !openmp().parallel) return compute(pointers, 0, total_);
    Shares shares {*this, pointers, (total_ / (4 * wanted) / 64 + 1) * 64};
    openmp().parallel(Shares::take, &shares, static_cast<unsigned>(wanted), 0);
}

} // namespace onegraph

extern "C" void onegraph_cast_elements(
        dnnl_data_type_t from, const void *source, dnnl_data_type_t to, void *target, size_t count, int is_portable) {
    const bool is_fast = !is_portable && onegraph::has_avx2();
    onegraph::cast(from, static_cast<const char *>(source), to, static_cast<char *>(target), count, is_fast);
}
