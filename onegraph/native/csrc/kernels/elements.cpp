// One op on each element of tensors of any data type of numpy's, with broadcasting.

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "registry.h"

#include "arrays/arrays.h"

namespace onegraph {
namespace {

enum Op {
    add, subtract, multiply, maximum, minimum, negative,
    divide, modulo,
    absolute, sign,
    floor_, ceil_, round_, square_root, // of floats
    sine, cosine, // of f32
    bit_and, bit_or, bit_xor, bit_not, shift_left, shift_right, // of integers
    is_not_number, is_infinite, // of floats
    equal, greater, greater_equal, less, less_equal,
    and_, or_, xor_, not_, // of booleans
    select, // a boolean, then what it chooses from
    cast, // between all types but from floats to u32 and u64
};
enum Type { boolean, s8, u8, s16, u16, s32, u32, s64, u64, f32, f64 };

// Integers wrap around, as numpy's: they are computed without a sign, and without becoming signed ones of more bits.
template <typename T, bool IS_INTEGER = std::is_integral_v<T>>
struct Unsigned {
    using type = std::conditional_t<sizeof(T) < 4, std::uint32_t, std::make_unsigned_t<T>>;
};
template <typename T>
struct Unsigned<T, false> {
    using type = T;
};

// The quotient, rounded towards 0; that by 0 is `a`, as numpy is told to compute it. The quotient of two integers of up to 32
// bits is too far from the next integer to become it when it is rounded to a float of twice as many bits.
template <typename T>
ONEGRAPH_INLINE T quotient(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return a / b;
    else if constexpr (std::is_signed_v<T> ? sizeof(T) < 8 : sizeof(T) < 4) {
        using Float = std::conditional_t<sizeof(T) < 4, float, double>;
        constexpr Float end = 2147483648.0f; // the lowest number by -1 wraps around
        const Float exact = static_cast<Float>(a) / static_cast<Float>(b == T(0) ? T(1) : b);
        return static_cast<T>(static_cast<std::int32_t>(exact < end ? exact : -end));
    } else {
        using W = typename Unsigned<T>::type;
        if (b == T(0)) return a;
        if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(W(0) - static_cast<W>(a));
        return static_cast<T>(a / b);
    }
}

// The remainder of the quotient that is rounded down, or towards 0 if it is truncated; that by 0 is 0.
template <typename T>
ONEGRAPH_INLINE T remainder_of(T a, T b, bool is_truncated) {
    T rest = 0;
    if constexpr (sizeof(T) < 8) { // without a branch, for vectors
        using W = typename Unsigned<T>::type;
        rest = b == T(0) ? T(0) : static_cast<T>(static_cast<W>(a) - static_cast<W>(quotient(a, b)) * static_cast<W>(b));
    } else if (b != 0 && !(std::is_signed_v<T> && b == static_cast<T>(-1))) {
        rest = static_cast<T>(a % b);
    }
    return !is_truncated && rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
}

// The same of floats: fmod, and the remainder with the sign of b.
template <typename T>
T remainder_of_floats(T a, T b, bool is_truncated) {
    const T rest = std::fmod(a, b);
    if (is_truncated || b == T(0)) return rest;
    if (rest == T(0)) return std::copysign(rest, b);
    return (rest < T(0)) != (b < T(0)) ? rest + b : rest;
}

// Numbers shifted by their size or more, or by less than 0, lose all bits, as in numpy.
template <typename T>
ONEGRAPH_INLINE T shifted(T a, T b, bool to_left) {
    constexpr T size = 8 * sizeof(T);
    const bool is_inside = b >= T(0) && b < size;
    const T count = is_inside ? b : T(0);
    if (to_left) return is_inside ? static_cast<T>(typename Unsigned<T>::type(a) << count) : T(0);
    return is_inside ? static_cast<T>(a >> count) : static_cast<T>(a < T(0) ? -1 : 0);
}

template <typename T>
ONEGRAPH_INLINE T sign_of(T x) {
    if constexpr (std::is_unsigned_v<T>) return x != 0;
    return x > 0 ? T(1) : x < 0 ? T(-1) : x == 0 ? T(0) : x;
}

// A number in another type, without its fraction in an integer. Of a float beyond 32 bits, or beyond 64 for s64, and of NaN
// it is the integer that the CPU gives, cut to the type, as in numpy.
template <typename To, typename From>
ONEGRAPH_INLINE To converted(From number) {
    if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
        using Whole = std::conditional_t<sizeof(To) == 8, std::int64_t, std::int32_t>;
        constexpr From end = -static_cast<From>(std::numeric_limits<Whole>::min()); // a power of 2
        const bool is_inside = number >= -end && number < end;
        const auto whole = static_cast<Whole>(is_inside ? number : From(0));
        return static_cast<To>(is_inside ? whole : std::numeric_limits<Whole>::min());
    } else {
        return static_cast<To>(number);
    }
}

// Functions of the compiler, for which it has vectors: those of the library are calls.
#define ONEGRAPH_OF_FLOATS(name, function) \
    ONEGRAPH_INLINE float name(float x) { return __builtin_##function##f(x); } \
    ONEGRAPH_INLINE double name(double x) { return __builtin_##function(x); }
ONEGRAPH_OF_FLOATS(floor_of, floor)
ONEGRAPH_OF_FLOATS(ceil_of, ceil)
ONEGRAPH_OF_FLOATS(whole_of, nearbyint)
ONEGRAPH_OF_FLOATS(root_of, sqrt)
ONEGRAPH_OF_FLOATS(magnitude_of, fabs)
ONEGRAPH_OF_FLOATS(cut_of, trunc)
#undef ONEGRAPH_OF_FLOATS
#define ONEGRAPH_OF_TWO_FLOATS(name, function) \
    ONEGRAPH_INLINE float name(float x, float y) { return __builtin_##function##f(x, y); } \
    ONEGRAPH_INLINE double name(double x, double y) { return __builtin_##function(x, y); }
ONEGRAPH_OF_TWO_FLOATS(signed_as, copysign)
#undef ONEGRAPH_OF_TWO_FLOATS
ONEGRAPH_INLINE float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
ONEGRAPH_INLINE double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }

// Calls `body` with a number of the type that this one of include/onegraph.h is.
template <typename Body>
void with_number(int type, Body body) {
    switch (type) {
        case boolean:
        case u8: return body(std::uint8_t());
        case s8: return body(std::int8_t());
        case s16: return body(std::int16_t());
        case u16: return body(std::uint16_t());
        case s32: return body(std::int32_t());
        case u32: return body(std::uint32_t());
        case s64: return body(std::int64_t());
        case u64: return body(std::uint64_t());
        case f32: return body(float());
        default: return body(double());
    }
}

// Elements of a row: the first one, and the distance of two in elements.
template <typename T>
struct Row {
    const T *first;
    std::ptrdiff_t step;
};

// The types of most tensors, for which loops are compiled with vectors; others take scalar loops, which compile in less time.
template <typename T>
constexpr bool is_common = std::is_floating_point_v<T> || std::is_same_v<T, std::int64_t>
        || std::is_same_v<T, std::int32_t> || sizeof(T) == 1;

template <typename Body>
__attribute__((noinline, optimize("no-tree-vectorize", "no-unroll-loops"))) void plainly(const Body &body) {
    body();
}

// Calls a function that is inlined. AVX-512 would wait for memory as AVX2 does.
template <bool IS_COMMON, typename Body>
void compiled_for(const Body &body) {
    if constexpr (!IS_COMMON) return plainly(body);
    else if (has_avx2()) return with_avx2(body);
    else return plainly(body);
}

// Computes `count` elements; the usual steps have loops of their own, so that vectors compute them.
template <typename R, typename T, typename Function>
ONEGRAPH_INLINE void compute(R *result, Row<T> a, Row<T> b, std::int64_t count, const Function &function) {
    const auto loop = [&](std::ptrdiff_t first, std::ptrdiff_t second) ONEGRAPH_VECTORS {
        for (std::int64_t i = 0; i < count; i++)
            result[i] = static_cast<R>(function(a.first[i * first], b.first[i * second]));
    };
    if constexpr (is_common<T> && is_common<R>) {
        if (a.step == 1 && b.step == 1) return loop(1, 1);
        if (a.step == 1 && b.step == 0) return loop(1, 0);
    }
    loop(a.step, b.step);
}

// Remainders of floats. Where the quotient is small, its integer part is right or too large by one, and the rest of a product
// with it is exact; blocks with another quotient are computed one by one.
template <bool IS_TRUNCATED, typename T>
ONEGRAPH_INLINE void remainders(T *result, Row<T> a, Row<T> b, std::int64_t count) {
    constexpr std::int64_t BLOCK = 256;
    constexpr T limit = sizeof(T) == 4 ? T(1 << 22) : T(std::int64_t(1) << 51);
    for (std::int64_t begin = 0; begin < count; begin += BLOCK) {
        const std::int64_t end = std::min(begin + BLOCK, count);
        const auto loop = [&](std::ptrdiff_t first, std::ptrdiff_t second) ONEGRAPH_VECTORS {
            using Flag = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>; // as large as a number, for vectors
            Flag far = 0;
            for (std::int64_t i = begin; i < end; i++) {
                const T x = a.first[i * first], y = b.first[i * second], ratio = x / y;
                far |= magnitude_of(ratio) < limit ? Flag(0) : Flag(1);
                const T over = fused(-cut_of(ratio), y, x); // its sign is that of x, unless the ratio is too large
                const bool is_over = ((x < T(0)) & (over > T(0))) | ((x > T(0)) & (over < T(0)));
                const T rest = signed_as(is_over ? over + signed_as(y, x) : over, x);
                result[i] = magnitude_of(x) < magnitude_of(y) ? x : rest;
            }
            for (std::int64_t i = begin; !IS_TRUNCATED && i < end; i++) { // a loop of its own, for which there are vectors
                const T whole = result[i], y = b.first[i * second], moved = whole + y;
                const bool is_turned = whole < T(0) ? y > T(0) : y < T(0);
                const T turned = is_turned ? moved : whole;
                result[i] = whole == T(0) ? signed_as(T(0), y) : turned;
            }
            return far;
        };
        const auto far = a.step == 1 && b.step == 1 ? loop(1, 1) : a.step == 1 && b.step == 0 ? loop(1, 0) : loop(a.step, b.step);
        for (std::int64_t i = begin; far && i < end; i++)
            result[i] = remainder_of_floats(a.first[i * a.step], b.first[i * b.step], IS_TRUNCATED);
    }
}

// Sines, or cosines, which are sines a quarter turn ahead. The angle minus quarter turns, rounded to double, goes through series
// of its powers; their errors are far below half a digit of f32. Far angles, of which more digits of the turn count, and
// infinite ones are left to the library of C.
ONEGRAPH_INLINE float sine_of(float angle, double ahead) {
    constexpr double per_quarter = 0.63661977236758134308, quarter = 1.57079632679489661923, rest = 6.12323399573676603587e-17;
    const double x = angle, turns = __builtin_nearbyint(x * per_quarter);
    const double moved = fused(-turns, rest, fused(-turns, quarter, x)), near = turns == 0 ? x : moved; // -0, too
    const double square = near * near;
    double odd = -1.0 / 39916800, even = 1.0 / 479001600;
    odd = fused(odd, square, 1.0 / 362880), even = fused(even, square, -1.0 / 3628800);
    odd = fused(odd, square, -1.0 / 5040), even = fused(even, square, 1.0 / 40320);
    odd = fused(odd, square, 1.0 / 120), even = fused(even, square, -1.0 / 720);
    odd = fused(odd, square, -1.0 / 6), even = fused(even, square, 1.0 / 24);
    odd = near * fused(odd, square, 1.0), even = fused(fused(even, square, -0.5), square, 1.0);
    // Behind an odd number of quarters the other series counts, and behind two or three of four the sign changes.
    const double ends = turns + ahead, half = __builtin_floor(ends * 0.5), part = __builtin_floor(half * 0.5);
    const double is_even = ends - 2 * half, is_turned = half - 2 * part; // 0 or 1
    const double chosen = is_even == 0 ? odd : even;
    return static_cast<float>(is_turned == 0 ? chosen : -chosen);
}

ONEGRAPH_INLINE void sines(float *result, Row<float> a, std::int64_t count, bool is_cosine) {
    constexpr std::int64_t BLOCK = 256;
    constexpr float far = 1 << 20;
    const double ahead = is_cosine ? 1 : 0;
    for (std::int64_t begin = 0; begin < count; begin += BLOCK) {
        const std::int64_t end = std::min(begin + BLOCK, count);
        const auto loop = [&](std::ptrdiff_t step) ONEGRAPH_VECTORS {
            std::int32_t is_far = 0;
            for (std::int64_t i = begin; i < end; i++) {
                const float x = a.first[i * step];
                is_far |= magnitude_of(x) < far ? 0 : 1;
                result[i] = sine_of(x, ahead);
            }
            return is_far;
        };
        const std::int32_t is_far = a.step == 1 ? loop(1) : loop(a.step);
        for (std::int64_t i = begin; is_far && i < end; i++) {
            const float x = a.first[i * a.step];
            if (magnitude_of(x) < far) continue;
            result[i] = static_cast<float>(is_cosine ? std::cos(static_cast<double>(x)) : std::sin(static_cast<double>(x)));
        }
    }
}

#define ONEGRAPH_OF [=](auto a, auto b) ONEGRAPH_VECTORS

// Computes a row of results of another type than the sources: booleans.
template <typename T>
ONEGRAPH_INLINE void compare(int op, std::uint8_t *result, Row<T> a, Row<T> b, std::int64_t count) {
    switch (op) {
        case is_not_number: return compute(result, a, b, count, ONEGRAPH_OF { return a != b; });
        case is_infinite: return compute(result, a, b, count, ONEGRAPH_OF { return a - a != T(0) && a == b; });
        case equal: return compute(result, a, b, count, ONEGRAPH_OF { return a == b; });
        case greater: return compute(result, a, b, count, ONEGRAPH_OF { return a > b; });
        case greater_equal: return compute(result, a, b, count, ONEGRAPH_OF { return a >= b; });
        case less: return compute(result, a, b, count, ONEGRAPH_OF { return a < b; });
        case less_equal: return compute(result, a, b, count, ONEGRAPH_OF { return a <= b; });
        case and_: return compute(result, a, b, count, ONEGRAPH_OF { return (a != 0) & (b != 0); });
        case or_: return compute(result, a, b, count, ONEGRAPH_OF { return (a != 0) | (b != 0); });
        case xor_: return compute(result, a, b, count, ONEGRAPH_OF { return (a != 0) != (b != 0); });
        default: return compute(result, a, b, count, ONEGRAPH_OF { return a == 0; });
    }
}

template <typename T>
ONEGRAPH_INLINE void calculate(int op, T *result, Row<T> a, Row<T> b, std::int64_t count, bool is_truncated) {
    using W = typename Unsigned<T>::type;
    switch (op) {
        case add: return compute(result, a, b, count, ONEGRAPH_OF { return static_cast<W>(a) + static_cast<W>(b); });
        case subtract: return compute(result, a, b, count, ONEGRAPH_OF { return static_cast<W>(a) - static_cast<W>(b); });
        case multiply: return compute(result, a, b, count, ONEGRAPH_OF { return static_cast<W>(a) * static_cast<W>(b); });
        case maximum: return compute(result, a, b, count, ONEGRAPH_OF { return a >= b || is_nan(a) ? a : b; });
        case minimum: return compute(result, a, b, count, ONEGRAPH_OF { return a <= b || is_nan(a) ? a : b; });
        case negative:
            if constexpr (std::is_floating_point_v<T>) return compute(result, a, b, count, ONEGRAPH_OF { return -a; });
            return compute(result, a, b, count, ONEGRAPH_OF { return W(0) - static_cast<W>(a); });
        case divide: return compute(result, a, b, count, ONEGRAPH_OF { return quotient(a, b); });
        case sign: return compute(result, a, b, count, ONEGRAPH_OF { return sign_of(a); });
        case absolute:
            if constexpr (std::is_floating_point_v<T>) return compute(result, a, b, count, ONEGRAPH_OF { return magnitude_of(a); });
            return compute(result, a, b, count, ONEGRAPH_OF { return a < T(0) ? W(0) - static_cast<W>(a) : static_cast<W>(a); });
        default: break;
    }
    if constexpr (std::is_floating_point_v<T>) {
        if (op == floor_) return compute(result, a, b, count, ONEGRAPH_OF { return floor_of(a); });
        if (op == ceil_) return compute(result, a, b, count, ONEGRAPH_OF { return ceil_of(a); });
        if (op == square_root) return compute(result, a, b, count, ONEGRAPH_OF { return root_of(a); });
        if constexpr (std::is_same_v<T, float>)
            if (op == sine || op == cosine) return sines(result, a, count, op == cosine);
        if (op == modulo && is_truncated) return remainders<true>(result, a, b, count);
        if (op == modulo) return remainders<false>(result, a, b, count);
        compute(result, a, b, count, ONEGRAPH_OF { return whole_of(a); });
    } else {
        if (op == bit_and) return compute(result, a, b, count, ONEGRAPH_OF { return a & b; });
        if (op == bit_or) return compute(result, a, b, count, ONEGRAPH_OF { return a | b; });
        if (op == bit_xor) return compute(result, a, b, count, ONEGRAPH_OF { return a ^ b; });
        if (op == bit_not) return compute(result, a, b, count, ONEGRAPH_OF { return ~a; });
        if (op == shift_left) return compute(result, a, b, count, ONEGRAPH_OF { return shifted(a, b, true); });
        if (op == shift_right) return compute(result, a, b, count, ONEGRAPH_OF { return shifted(a, b, false); });
        compute(result, a, b, count, ONEGRAPH_OF { return remainder_of(a, b, is_truncated); });
    }
}

#undef ONEGRAPH_OF

// Computes a row of elements that booleans choose, by their bits: a branch would be mispredicted at every second element.
template <typename T>
ONEGRAPH_INLINE void choose(T *result, const std::uint8_t *chosen, const T *a, const T *b, const std::ptrdiff_t *steps, std::int64_t count) {
    const auto loop = [&](std::ptrdiff_t condition, std::ptrdiff_t first, std::ptrdiff_t second) ONEGRAPH_VECTORS {
        for (std::int64_t i = 0; i < count; i++) {
            const auto mask = static_cast<T>(T(0) - T(chosen[i * condition] != 0));
            result[i] = static_cast<T>((a[i * first] & mask) | (b[i * second] & static_cast<T>(~mask)));
        }
    };
    if (steps[0] != 1) return loop(steps[0], steps[1], steps[2]);
    if (steps[1] == 1 && steps[2] == 1) return loop(1, 1, 1);
    if (steps[1] == 1 && steps[2] == 0) return loop(1, 1, 0);
    if (steps[1] == 0 && steps[2] == 1) return loop(1, 0, 1);
    if (steps[1] == 0 && steps[2] == 0) return loop(1, 0, 0);
    loop(1, steps[1], steps[2]);
}

// One op on each element of tensors of any data type of numpy's; the result is dense.
class Elements : public Runnable {
public:
    explicit Elements(const KernelArguments &arguments);

    void run(void *const *addresses, int threads) const override;

private:
    struct Axis {
        std::int64_t dim;
        std::ptrdiff_t steps[3]; // of each source, in elements
    };

    // Calls `body` with the number of the first element of each row, its size, and where it lies in the sources.
    template <typename Body>
    void for_rows(std::int64_t first, std::int64_t last, const Body &body) const;
    void run_rows(const char *const *sources, char *target, std::int64_t first, std::int64_t last) const;

    int op_, source_, target_;
    bool is_truncated_; // of modulo
    std::size_t n_inputs_;
    std::vector<Axis> axes_; // the last one is a row
    std::int64_t rows_ = 1;
};

Elements::Elements(const KernelArguments &arguments)
    : op_(arguments.number("op")), source_(arguments.number("source")), target_(arguments.number("target")),
      is_truncated_(arguments.flag("truncate")), n_inputs_(arguments.count - 1) {
    const std::size_t rank = arguments.size("rank");
    if (n_inputs_ < 1 || n_inputs_ > 3 || arguments.n_list() != rank * arguments.count)
        throw std::invalid_argument("other tensors");
    const int *dims = arguments.list();
    for (std::size_t axis = 0; axis < rank; axis++) {
        if (dims[axis] == 1) continue;
        Axis next {dims[axis], {}};
        bool continues = !axes_.empty();
        for (std::size_t input = 0; input < n_inputs_; input++) {
            next.steps[input] = dims[rank * (input + 1) + axis];
            continues = continues && axes_.back().steps[input] == next.dim * next.steps[input];
        }
        if (continues) {
            next.dim *= axes_.back().dim;
            axes_.back() = next;
        } else {
            axes_.push_back(next);
        }
    }
    if (axes_.empty()) axes_.push_back({1, {}});
    for (std::size_t axis = 0; axis + 1 < axes_.size(); axis++)
        rows_ *= axes_[axis].dim;
}

template <typename Body>
void Elements::for_rows(std::int64_t first, std::int64_t last, const Body &body) const {
    const std::int64_t size = axes_.back().dim;
    for (std::int64_t number = first / size; number * size < last; number++) {
        std::ptrdiff_t places[3] {};
        std::int64_t rest = number;
        for (std::size_t axis = axes_.size() - 1; axis-- > 0; rest /= axes_[axis].dim)
            for (std::size_t input = 0; input < n_inputs_; input++)
                places[input] += rest % axes_[axis].dim * axes_[axis].steps[input];
        const std::int64_t begin = std::max(first, number * size), end = std::min(last, (number + 1) * size);
        for (std::size_t input = 0; input < n_inputs_; input++)
            places[input] += (begin - number * size) * axes_.back().steps[input];
        body(begin, end - begin, places);
    }
}

void Elements::run_rows(const char *const *sources, char *target, std::int64_t first, std::int64_t last) const {
    const auto &steps = axes_.back().steps;
    if (op_ == select)
        return with_size(source_ == f64 || source_ == s64 || source_ == u64 ? onegraph_type_u64
                         : source_ == f32 || source_ == s32 || source_ == u32 ? onegraph_type_u32
                         : source_ == s16 || source_ == u16 ? onegraph_type_u16 : onegraph_type_byte, [&](auto number) {
            using T = decltype(number);
            for_rows(first, last, [&](std::int64_t begin, std::int64_t count, const std::ptrdiff_t *places) {
                const auto *chosen = reinterpret_cast<const std::uint8_t *>(sources[0]) + places[0];
                const auto *a = reinterpret_cast<const T *>(sources[1]) + places[1];
                const auto *b = reinterpret_cast<const T *>(sources[2]) + places[2];
                auto *result = reinterpret_cast<T *>(target) + begin;
                compiled_for<true>([&]() ONEGRAPH_VECTORS { choose(result, chosen, a, b, steps, count); });
            });
        });
    with_number(source_, [&](auto number) {
        using T = decltype(number);
        const std::size_t other = n_inputs_ - 1; // the second source, or the only one
        for_rows(first, last, [&](std::int64_t begin, std::int64_t count, const std::ptrdiff_t *places) {
            const Row<T> a {reinterpret_cast<const T *>(sources[0]) + places[0], steps[0]};
            const Row<T> b {reinterpret_cast<const T *>(sources[other]) + places[other], steps[other]};
            if (op_ == cast)
                return with_number(target_, [&](auto result) {
                    using R = decltype(result);
                    auto *results = reinterpret_cast<R *>(target) + begin;
                    const bool to_boolean = target_ == boolean;
                    compiled_for<is_common<T> && is_common<R>>([&]() ONEGRAPH_VECTORS {
                        if (to_boolean) return compute(results, a, b, count, [](T x, T) ONEGRAPH_VECTORS { return x != T(0); });
                        compute(results, a, b, count, [](T x, T) ONEGRAPH_VECTORS { return converted<R>(x); });
                    });
                });
            if (op_ >= is_not_number)
                return compiled_for<is_common<T>>([&]() ONEGRAPH_VECTORS {
                    compare<T>(op_, reinterpret_cast<std::uint8_t *>(target) + begin, a, b, count);
                });
            compiled_for<is_common<T>>([&]() ONEGRAPH_VECTORS {
                calculate<T>(op_, reinterpret_cast<T *>(target) + begin, a, b, count, is_truncated_);
            });
        });
    });
}

void Elements::run(void *const *addresses, int threads) const {
    const char *sources[3] = {};
    for (std::size_t i = 0; i < n_inputs_; i++)
        sources[i] = static_cast<const char *>(addresses[i]);
    auto *target = static_cast<char *>(addresses[n_inputs_]);
    onegraph::divide(rows_ * axes_.back().dim, 1, threads,
            [&](std::int64_t begin, std::int64_t end) { run_rows(sources, target, begin, end); });
}

// `source`: the data type of the sources behind a condition. `layout`: the dims of the result, then for each source the
// stride along each axis in elements, 0 along an axis of broadcasting.
const Registered<Elements> ELEMENTS {"elements",
        "op: Add|Subtract|Multiply|Maximum|Minimum|Negative|Divide|Mod|Abs|Sign|Floor|Ceil|Round|Sqrt|Sin|Cos|"
        "BitwiseAnd|BitwiseOr|BitwiseXor|BitwiseNot|ShiftLeft|ShiftRight|IsNaN|IsInf|Equal|Greater|GreaterEqual|Less|LessEqual|And|Or|Xor|Not|Where|Cast, "
        "source: boolean|s8|u8|int16|uint16|s32|uint32|s64|uint64|f32|float64, "
        "target: boolean|s8|u8|int16|uint16|s32|uint32|s64|uint64|f32|float64, truncate, rank, layout..."};

} // namespace
} // namespace onegraph
