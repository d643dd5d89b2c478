// Casts between f32, f16 and bf16, and copies of elements of 1, 2 or 4 bytes between layouts.

#include <algorithm>

#include "rows.h"
#include "shares.h"

#include "floats.h"
#include "turned.h"

namespace onegraph {
namespace {

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

ONEGRAPH_AVX512 void widen_bf16_by_16(const Half *source, float *target, std::size_t count) {
    widen<bf16_to_f32>(source, target, count);
}

ONEGRAPH_AVX512 void narrow_bf16_by_16(const float *source, Half *target, std::size_t count) {
    narrow<f32_to_bf16>(source, target, count);
}

// The instruction takes subnormal numbers for 0 and keeps the bits of NaN, so blocks with either are cast one by one.
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16"))) void narrow_bf16_at_once(
        const float *source, Half *target, std::size_t count) {
    constexpr int others = 0x80 | 0x20 | 0x01; // signaling NaN, subnormal, quiet NaN
    for (; count >= 16; count -= 16, source += 16, target += 16) {
        const __m512 numbers = _mm512_loadu_ps(source);
        if (_mm512_fpclass_ps_mask(numbers, others))
            narrow_bf16_by_16(source, target, 16);
        else
            _mm256_storeu_si256(reinterpret_cast<__m256i *>(target), (__m256i)_mm512_cvtneps_pbh(numbers));
    }
    narrow<f32_to_bf16>(source, target, count);
}

const Casts WITH_BF16[] = {{widen_f16, narrow_f16}, {widen_bf16_by_16, narrow_bf16_at_once}};
const Casts WITH_AVX2[] = {{widen_f16, narrow_f16}, {widen_bf16, narrow_bf16}};
const Casts WITH_AVX512[] = {{widen_f16, narrow_f16}, {widen_bf16_by_16, narrow_bf16_by_16}};
#else
const Casts *const WITH_AVX2 = PORTABLE, *const WITH_AVX512 = PORTABLE, *const WITH_BF16 = PORTABLE;
#endif

template <typename T>
void move(const char *source, Bytes source_stride, char *target, Bytes target_stride, std::size_t count) {
    for (; count > 0; count--, source += source_stride, target += target_stride)
        *reinterpret_cast<T *>(target) = *reinterpret_cast<const T *>(source);
}

void move(dnnl_data_type_t type, const char *source, Bytes from, char *target, Bytes to, std::size_t count) {
    const std::size_t size = size_of(type);
    (size == 4 ? move<Word> : size == 2 ? move<Half> : move<char>)(source, from, target, to, count);
}

// Casts elements at any strides.
void cast_elements(char *const *pointers, const Bytes *strides, std::size_t count, const dnnl_data_type_t *types) {
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

} // namespace

void cast(dnnl_data_type_t from, const char *source, dnnl_data_type_t to, char *target, std::size_t count, bool is_fast) {
    const Casts *casts = !is_fast ? PORTABLE : has_bf16() ? WITH_BF16 : has_avx512() ? WITH_AVX512 : WITH_AVX2;
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

namespace {

Row cast_row(std::size_t count, const dnnl_data_type_t *types) {
    const bool are_floats = count == 2 && is_float(types[0]) && is_float(types[1]);
    return are_floats || (count == 2 && types[0] == types[1]) ? cast_elements : nullptr;
}

// A cast of tensors of f32, f16 and bf16 where the elements along one axis lie side by side in the source, and those along
// another one in the target. Tiles of 16 bits are turned in the first cache.
class TurnedCast : public Runnable {
public:
    static constexpr std::size_t SIDE = 64, LEAST = 8; // of a tile; axes of fewer elements are no lines

    // Null for other tensors.
    static std::unique_ptr<const Runnable> of(const KernelArguments &arguments);
    void run(void *const *addresses, int threads) const override;

private:
    struct Axis {
        std::size_t size;
        Bytes source, target;
    };

    void cast_tile(const char *source, char *target, std::size_t rows, std::size_t columns) const;

    dnnl_data_type_t from_, to_;
    Axis row_ {}, column_ {}; // along which elements lie side by side in the target, and in the source
    std::vector<Axis> outer_;
    std::size_t total_ = 1; // tiles
};

std::unique_ptr<const Runnable> TurnedCast::of(const KernelArguments &arguments) {
    auto made = std::make_unique<TurnedCast>();
    const auto &source = *arguments.tensors[0], &target = *arguments.tensors[1];
    made->from_ = source.data_type, made->to_ = target.data_type;
    const auto from = static_cast<Bytes>(size_of(made->from_)), to = static_cast<Bytes>(size_of(made->to_));
    if (source.ndims != target.ndims || made->from_ == made->to_) return nullptr;
    std::vector<Axis> &axes = made->outer_;
    for (int axis = 0; axis < target.ndims; axis++) {
        if (source.dims[axis] != target.dims[axis]) return nullptr;
        if (target.dims[axis] == 1) continue;
        const Axis next {static_cast<std::size_t>(target.dims[axis]), source.layout.strides[axis] * from, target.layout.strides[axis] * to};
        const auto size = static_cast<Bytes>(next.size);
        if (!axes.empty() && axes.back().source == size * next.source && axes.back().target == size * next.target)
            axes.back() = {axes.back().size * next.size, next.source, next.target};
        else
            axes.push_back(next);
    }
    const auto take = [&](Bytes Axis::*stride, Bytes size, Axis *taken) {
        const auto found = std::find_if(axes.begin(), axes.end(), [&](const Axis &axis) { return axis.*stride == size; });
        if (found == axes.end() || found->size < LEAST) return false;
        *taken = *found;
        axes.erase(found);
        return true;
    };
    if (!take(&Axis::target, to, &made->row_) || made->row_.source == from) return nullptr;
    if (!take(&Axis::source, from, &made->column_)) return nullptr;
    for (const Axis *axis : {&made->row_, &made->column_})
        made->total_ *= (axis->size + SIDE - 1) / SIDE;
    for (const Axis &axis : axes)
        made->total_ *= axis.size;
    return made;
}

void TurnedCast::cast_tile(const char *source, char *target, std::size_t rows, std::size_t columns) const {
    alignas(64) char halves[SIDE * SIDE * sizeof(Half)];
    constexpr Bytes LINE = SIDE * sizeof(Half);
    const auto height = static_cast<Bytes>(rows), width = static_cast<Bytes>(columns);
    if (from_ == dnnl_f32) {
        for (Bytes i = 0; i < height; i++)
            cast(from_, source + i * row_.source, to_, halves + i * LINE, columns, has_avx2());
        return turn_block<Half>(halves, LINE, height, target, column_.target, width);
    }
    turn_block<Half>(source, row_.source, height, halves, LINE, width);
    for (Bytes i = 0; i < width; i++)
        cast(from_, halves + i * LINE, to_, target + i * column_.target, rows, has_avx2());
}

void TurnedCast::run(void *const *addresses, int threads) const {
    const auto parts_of = [](const Axis &axis) { return (axis.size + SIDE - 1) / SIDE; };
    const std::size_t high = parts_of(row_), wide = parts_of(column_), unit = std::min(SIDE, row_.size) * std::min(SIDE, column_.size);
    share(total_ * unit, threads, unit, [&](std::size_t begin, std::size_t end) {
        for (std::size_t tile = begin / unit; tile < end / unit; tile++) {
            const auto row = tile % high * SIDE, column = tile / high % wide * SIDE;
            Bytes from = static_cast<Bytes>(row) * row_.source + static_cast<Bytes>(column) * column_.source;
            Bytes to = static_cast<Bytes>(row) * row_.target + static_cast<Bytes>(column) * column_.target;
            std::size_t rest = tile / high / wide;
            for (std::size_t axis = outer_.size(); axis-- > 0; rest /= outer_[axis].size) {
                const auto place = static_cast<Bytes>(rest % outer_[axis].size);
                from += place * outer_[axis].source, to += place * outer_[axis].target;
            }
            cast_tile(static_cast<const char *>(addresses[0]) + from, static_cast<char *>(addresses[1]) + to,
                    std::min(SIDE, row_.size - row), std::min(SIDE, column_.size - column));
        }
    });
}

class Cast : public Runnable {
public:
    explicit Cast(const KernelArguments &arguments) : runs_(made(arguments)) {}

    void run(void *const *addresses, int threads) const override { runs_->run(addresses, threads); }

private:
    static std::unique_ptr<const Runnable> made(const KernelArguments &arguments) {
        const bool are_floats = arguments.count == 2 && is_float(arguments.tensors[0]->data_type)
                && is_float(arguments.tensors[1]->data_type);
        if (auto turned = are_floats ? TurnedCast::of(arguments) : nullptr) return turned;
        return std::make_unique<Rows>(arguments, cast_row, true);
    }

    const std::unique_ptr<const Runnable> runs_;
};

const Registered<Cast> CAST {"cast", ""};

} // namespace

} // namespace onegraph

extern "C" void onegraph_cast_elements(
        dnnl_data_type_t from, const void *source, dnnl_data_type_t to, void *target, size_t count, int is_portable) {
    const bool is_fast = !is_portable && onegraph::has_avx2();
    onegraph::cast(from, static_cast<const char *>(source), to, static_cast<char *>(target), count, is_fast);
}
