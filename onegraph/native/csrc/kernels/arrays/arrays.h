// Kernels on dense arrays whose shapes a call states. Steps that numpy runs call them by name, and so do steps of a plan.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "../../guard.h"
#include "../registry.h"
#include "../shares.h"

#include "../cpu.h"
// gcc 12 warns of variables of its own intrinsics that are uninitialized on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace onegraph {

// An index that is out of range: the array that has it, its place there, and the index.
struct BadIndex {
    std::size_t array;
    std::int64_t place, index;
};

// The arrays of a call, inputs first, and its numbers.
class ArrayCall {
public:
    ArrayCall(std::size_t count, const onegraph_array_t *arrays, const double *numbers, int threads, std::int64_t *answer)
        : threads(threads), answer(answer), count_(count), arrays_(arrays), numbers_(numbers) {}

    template <typename T>
    T *data(std::size_t array) const {
        return static_cast<T *>(at(array).data);
    }

    int type(std::size_t array) const { return at(array).type; }
    int rank(std::size_t array) const { return at(array).rank; }
    bool has(std::size_t array) const { return at(array).data != nullptr; }
    std::int64_t dim(std::size_t array, int axis) const {
        check(axis >= 0 && axis < rank(array));
        return at(array).dims[axis];
    }

    // Refuses arrays whose shapes do not fit one another.
    static void check(bool fits) {
        if (!fits) throw std::invalid_argument("other sizes than those of the kernel");
    }

    // The product of the dims of the axes from `begin` up to, but not including, `end`; -1 is the rank.
    std::int64_t size(std::size_t array, int begin = 0, int end = -1) const {
        std::int64_t found = 1;
        for (int axis = begin; axis < (end < 0 ? rank(array) : end); axis++)
            found *= dim(array, axis);
        return found;
    }

    double number(std::size_t place) const { return numbers_[place]; }
    std::int64_t integer(std::size_t place) const { return static_cast<std::int64_t>(numbers_[place]); }
    bool flag(std::size_t place) const { return numbers_[place] != 0; }

    const int threads;
    std::int64_t *const answer; // numbers that the caller reads, such as the number of results

private:
    const onegraph_array_t &at(std::size_t array) const {
        check(array < count_);
        return arrays_[array];
    }

    std::size_t count_;
    const onegraph_array_t *arrays_;
    const double *numbers_;
};

} // namespace onegraph

// A kernel by its name.
struct onegraph_array_kernel : onegraph::Named<onegraph_array_kernel> {
    using Run = void (*)(const onegraph::ArrayCall &);

    onegraph_array_kernel(const char *name, Run run) : Named(name), run(run) {}

    const Run run;
};

namespace onegraph {

using NamedKernel = onegraph_array_kernel;

// Calls `body(begin, end)` for `count` things, each as much work as `weight` elements, on some threads.
template <typename Body>
void divide(std::int64_t count, std::int64_t weight, int threads, const Body &body) {
    const auto unit = static_cast<std::size_t>(std::max<std::int64_t>(weight, 1));
    if (count < 1) return;
    share(static_cast<std::size_t>(count) * unit, threads, unit, [&](std::size_t begin, std::size_t end) {
        body(static_cast<std::int64_t>(begin / unit), static_cast<std::int64_t>(end / unit));
    });
}

template <typename Body>
ONEGRAPH_AVX2 void with_avx2(const Body &body) {
    body();
}

template <typename Body>
ONEGRAPH_AVX512 void with_avx512(const Body &body) {
    body();
}

// Calls a function that is inlined, compiled for the instruction sets of the CPU.
template <typename Body>
void with_vectors(const Body &body) {
    if (has_avx512()) return with_avx512(body);
    if (has_avx2()) return with_avx2(body);
    body();
}

#define ONEGRAPH_VECTORS __attribute__((always_inline))

// Calls `body(T())` with the C++ type of a data type of numbers; throws invalid_argument for others.
template <typename Body>
void with_type(int type, const Body &body) {
    switch (type) {
        case onegraph_type_f32: return body(float());
        case onegraph_type_f64: return body(double());
        case onegraph_type_s8: return body(std::int8_t());
        case onegraph_type_u8: return body(std::uint8_t());
        case onegraph_type_s16: return body(std::int16_t());
        case onegraph_type_u16: return body(std::uint16_t());
        case onegraph_type_s32: return body(std::int32_t());
        case onegraph_type_u32: return body(std::uint32_t());
        case onegraph_type_s64: return body(std::int64_t());
        case onegraph_type_u64: return body(std::uint64_t());
        default: throw std::invalid_argument("a kernel lacks this data type");
    }
}

template <typename Body>
void with_float(int type, const Body &body) {
    if (type == onegraph_type_f32) return body(float());
    if (type == onegraph_type_f64) return body(double());
    throw std::invalid_argument("a kernel lacks this data type");
}

inline std::size_t size_of_type(int type) {
    switch (type) {
        case onegraph_type_f64:
        case onegraph_type_s64:
        case onegraph_type_u64: return 8;
        case onegraph_type_f32:
        case onegraph_type_s32:
        case onegraph_type_u32: return 4;
        case onegraph_type_s8:
        case onegraph_type_u8:
        case onegraph_type_byte: return 1;
        default: return 2;
    }
}

// Calls `body(T())` with an unsigned type of the size of a data type.
template <typename Body>
void with_size(int type, const Body &body) {
    switch (size_of_type(type)) {
        case 1: return body(std::uint8_t());
        case 2: return body(std::uint16_t());
        case 4: return body(std::uint32_t());
        default: return body(std::uint64_t());
    }
}

template <typename T>
ONEGRAPH_INLINE bool is_nan(T number) {
    if constexpr (std::is_floating_point_v<T>) return number != number;
    return false;
}

// The index counted from 0.
ONEGRAPH_INLINE std::int64_t wrapped(std::int64_t index, std::int64_t dim) {
    return index < 0 ? index + dim : index;
}

} // namespace onegraph
