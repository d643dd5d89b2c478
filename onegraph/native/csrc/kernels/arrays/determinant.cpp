// Determinant: that of each matrix, by elimination in f64.

#include "arrays.h"

namespace onegraph {
namespace {

// Changes the rows of the matrix, which has `size` of them.
double eliminated(double *matrix, std::int64_t size) {
    double result = 1;
    int exponent = 0, power = 0; // of 2, apart from the result, as factors may leave the range of f64
    for (std::int64_t column = 0; column < size; column++) {
        double *const own = matrix + column * size;
        std::int64_t best = column;
        for (std::int64_t row = column + 1; row < size; row++)
            if (std::abs(matrix[row * size + column]) > std::abs(matrix[best * size + column])) best = row;
        if (best != column) {
            std::swap_ranges(own + column, own + size, matrix + best * size + column);
            result = -result;
        }
        const double pivot = own[column];
        result *= pivot;
        if (pivot == 0) return result; // or NaN, of an infinity before
        if (std::isfinite(result)) result = std::frexp(result, &power), exponent += power;
        for (std::int64_t row = column + 1; row < size; row++) {
            double *const other = matrix + row * size;
            const double share = other[column] / pivot;
            for (std::int64_t i = column + 1; i < size; i++)
                other[i] -= share * own[i];
        }
    }
    return std::ldexp(result, exponent);
}

// src; dst.
template <typename T>
void determinants(const ArrayCall &call) {
    const std::int64_t size = call.dim(0, call.rank(0) - 1), area = size * size;
    divide(call.size(1), area * size, call.threads, [&](std::int64_t begin, std::int64_t end) {
        std::vector<double> matrix(static_cast<std::size_t>(area));
        for (std::int64_t i = begin; i < end; i++) {
            const T *source = call.data<const T>(0) + i * area;
            std::copy(source, source + area, matrix.begin());
            call.data<T>(1)[i] = static_cast<T>(eliminated(matrix.data(), size));
        }
    });
}

const NamedKernel kernel("Determinant", [](const ArrayCall &call) {
    with_float(call.type(0), [&](auto zero) { determinants<decltype(zero)>(call); });
});

} // namespace
} // namespace onegraph
