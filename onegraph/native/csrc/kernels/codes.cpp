// Arithmetic on 8-bit codes.

#include <algorithm>

#include "rows.h"

#include "floats.h"

// GCC 12 takes the undefined operand of its own AVX-512 functions for a mistake.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace onegraph {
namespace {

using Code = unsigned char;

enum Kind { RESCALE, ADD, MULTIPLY };

// The places of the f32 numbers in the last input of these kinds. An element of input i is (code - zero_i) * scale_i; the
// result is rounded after * factor + zero, and kept in [low, high].
enum { ZERO_0, SCALE_0, ZERO_1, SCALE_1, FACTOR, ZERO, LOW, HIGH };

#if defined(__x86_64__)
#define ONEGRAPH_VBMI __attribute__((target("avx512f,avx512bw,avx512vbmi")))

bool has_vbmi() {
    static const bool found = has_vnni() && __builtin_cpu_supports("avx512vbmi");
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

void look_up(char *const *pointers, const Bytes *strides, std::size_t count, const dnnl_data_type_t *) {
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
    const float factor = numbers[FACTOR], zero = numbers[ZERO];
    const float low = numbers[LOW], high = numbers[HIGH];
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

// Computes with elements of one tensor (RESCALE) or two, by the numbers in the last input.
template <Kind kind>
ONEGRAPH_INLINE void scaled(char *const *pointers, const Bytes *strides, std::size_t count, const dnnl_data_type_t *types) {
    constexpr std::size_t sources = kind == RESCALE ? 1 : 2, last = sources + 1;
    const auto *numbers = reinterpret_cast<const float *>(pointers[sources]);
    alignas(64) float wide[BLOCK], other[BLOCK];
    for (std::size_t begin = 0, some; begin < count; begin += some) {
        some = std::min(BLOCK, count - begin);
        const auto at = [&](std::size_t i) { return pointers[i] + static_cast<Bytes>(begin) * strides[i]; };
        const bool is_plain = types[last] == dnnl_f32 && strides[last] == sizeof(float);
        float *__restrict result = is_plain ? reinterpret_cast<float *>(at(last)) : wide;
        read(types[0], at(0), strides[0], numbers + ZERO_0, result, some);
        if (kind != RESCALE) read(types[1], at(1), strides[1], numbers + ZERO_1, other, some);
        for (std::size_t i = 0; kind == ADD && i < some; i++)
            result[i] += other[i];
        for (std::size_t i = 0; kind == MULTIPLY && i < some; i++)
            result[i] *= other[i];
        if (types[last] == dnnl_s8) write_as<signed char>(wide, numbers, at(last), strides[last], some);
        if (types[last] == dnnl_u8) write_as<Code>(wide, numbers, at(last), strides[last], some);
        for (std::size_t i = 0; types[last] == dnnl_f32 && !is_plain && i < some; i++)
            *reinterpret_cast<float *>(at(last) + static_cast<Bytes>(i) * strides[last]) = wide[i];
    }
}

#if defined(__x86_64__)
// 16 elements as (code - zero) * scale.
ONEGRAPH_AVX512 ONEGRAPH_INLINE __m512 read_16(dnnl_data_type_t type, const char *source, __m512 zero, __m512 scale) {
    if (type == dnnl_f32) return _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(source), zero), scale);
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(source));
    const __m512i integers = type == dnnl_s8 ? _mm512_cvtepi8_epi32(codes) : _mm512_cvtepu8_epi32(codes);
    return _mm512_mul_ps(_mm512_sub_ps(_mm512_cvtepi32_ps(integers), zero), scale);
}

// One element in all lanes, read in the same way.
ONEGRAPH_AVX512 ONEGRAPH_INLINE __m512 read_one(dnnl_data_type_t type, const char *source, const float *numbers) {
    float wide[1];
    read(type, source, 0, numbers, wide, 1);
    return _mm512_set1_ps(wide[0]);
}

// The same as `scaled` for elements that lie one behind another, or are one that repeats, without a block between reading
// and writing.
template <Kind kind>
ONEGRAPH_AVX512 void scaled_avx512(char *const *pointers, const Bytes *strides, std::size_t count, const dnnl_data_type_t *types) {
    constexpr std::size_t sources = kind == RESCALE ? 1 : 2, last = sources + 1, lanes = 16;
    bool is_dense = true;
    for (std::size_t i : {std::size_t {0}, sources - 1, last})
        is_dense = is_dense && (strides[i] == static_cast<Bytes>(size_of(types[i])) || (strides[i] == 0 && i != last));
    if (!is_dense) return scaled<kind>(pointers, strides, count, types);
    const auto *numbers = reinterpret_cast<const float *>(pointers[sources]);
    const bool repeats[] = {strides[0] == 0, strides[sources - 1] == 0};
    const __m512 ones[] = {read_one(types[0], pointers[0], numbers + ZERO_0),
            read_one(types[sources - 1], pointers[sources - 1], numbers + (kind == RESCALE ? ZERO_0 : ZERO_1))};
    const auto all = [&](int number) { return _mm512_set1_ps(numbers[number]); };
    const __m512 zeros[] = {all(ZERO_0), all(ZERO_1)};
    const __m512 scales[] = {all(SCALE_0), all(SCALE_1)};
    const __m512 factor = all(FACTOR), zero = all(ZERO);
    const __m512 low = all(LOW), high = all(HIGH);
    const dnnl_data_type_t first = types[0], second = types[sources - 1], result = types[last];
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        __m512 wide = repeats[0] ? ones[0] : read_16(first, pointers[0] + i * size_of(first), zeros[0], scales[0]);
        if (kind != RESCALE) {
            const __m512 other
                    = repeats[1] ? ones[1] : read_16(second, pointers[1] + i * size_of(second), zeros[1], scales[1]);
            wide = kind == ADD ? _mm512_add_ps(wide, other) : _mm512_mul_ps(wide, other);
        }
        if (result == dnnl_f32) {
            _mm512_storeu_ps(pointers[last] + i * sizeof(float), wide);
            continue;
        }
        wide = _mm512_add_ps(_mm512_mul_ps(wide, factor), zero);
        wide = _mm512_min_ps(_mm512_max_ps(wide, low), high); // the lowest code also where it is not a number
        const __m128i codes = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(wide));
        _mm_storeu_si128(reinterpret_cast<__m128i *>(pointers[last] + i), codes);
    }
    char *rest[Rows::MOST];
    for (std::size_t j = 0; j <= last; j++)
        rest[j] = pointers[j] + (j == sources ? 0 : static_cast<Bytes>(i) * strides[j]);
    scaled<kind>(rest, strides, count - i, types);
}
#else
template <Kind kind>
void scaled_avx512(char *const *pointers, const Bytes *strides, std::size_t count, const dnnl_data_type_t *types) {
    scaled<kind>(pointers, strides, count, types);
}
#endif

bool is_code(dnnl_data_type_t type) {
    return type == dnnl_s8 || type == dnnl_u8;
}

bool is_scaled(dnnl_data_type_t type) {
    return type == dnnl_f32 || is_code(type);
}

Row look_up_row(std::size_t count, const dnnl_data_type_t *types) {
    return count == 3 && is_code(types[0]) && is_code(types[1]) && is_code(types[2]) ? look_up : nullptr;
}

template <Kind kind>
Row scaled_row(std::size_t count, const dnnl_data_type_t *types) {
    if (count != (kind == RESCALE ? 3 : 4) || types[count - 2] != dnnl_f32) return nullptr;
    if (!is_scaled(types[0]) || !is_scaled(types[count - 1]) || !is_scaled(types[count - 3])) return nullptr;
    return ForCpu<scaled<kind>, scaled<kind>, scaled_avx512<kind>>::of();
}

const RegisteredRows<look_up_row> LOOK_UP {"look_up"};
const RegisteredRows<scaled_row<RESCALE>> RESCALED {"rescale"};
const RegisteredRows<scaled_row<ADD>> ADDED {"add"};
const RegisteredRows<scaled_row<MULTIPLY>> MULTIPLIED {"multiply"};

} // namespace
} // namespace onegraph
