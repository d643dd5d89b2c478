// CouplePairs: probabilities of classes from those of pairs of classes, as in libsvm.

#include "arrays.h"

namespace onegraph {
namespace {

constexpr int ROUNDS = 100; // at most
constexpr double ERROR = 0.005; // that is left, times the number of classes

// The system of a row and its solution so far.
struct System {
    explicit System(std::int64_t count)
        : count(count), factors(static_cast<std::size_t>(count * count)), solution(static_cast<std::size_t>(count)),
          products(solution) {}

    double &at(std::int64_t row, std::int64_t column) { return factors[static_cast<std::size_t>(row * count + column)]; }

    // The system for the probabilities of the first class of each pair.
    template <typename T>
    void fill(const T *pairs) {
        for (std::int64_t i = 0; i < count; i++)
            at(i, i) = 0;
        for (std::int64_t i = 0; i < count; i++)
            for (std::int64_t j = i + 1; j < count; j++) {
                const auto first = static_cast<double>(*pairs++), second = 1 - first;
                at(i, i) += second * second, at(j, j) += first * first;
                at(i, j) = at(j, i) = -second * first;
            }
    }

    // Solves it class by class, until the error is small.
    void solve() {
        const auto classes = static_cast<std::size_t>(count);
        std::fill(solution.begin(), solution.end(), 1.0 / static_cast<double>(count));
        for (int round = 0; round < ROUNDS; round++) {
            double whole = 0, error = 0;
            for (std::size_t i = 0; i < classes; i++) {
                products[i] = 0;
                for (std::size_t j = 0; j < classes; j++)
                    products[i] += factors[i * classes + j] * solution[j];
                whole += solution[i] * products[i];
            }
            for (const double product : products)
                error = std::max(error, std::abs(product - whole));
            if (!(error >= ERROR / static_cast<double>(count))) return;
            for (std::size_t i = 0; i < classes; i++) {
                const double *row = &factors[i * classes], step = (whole - products[i]) / row[i], scale = 1 + step;
                solution[i] += step;
                whole = (whole + step * (step * row[i] + 2 * products[i])) / (scale * scale);
                for (std::size_t j = 0; j < classes; j++) {
                    products[j] = (products[j] + step * row[j]) / scale;
                    solution[j] /= scale;
                }
            }
        }
    }

    std::int64_t count;
    std::vector<double> factors, solution, products;
};

// src (rows, pairs); dst (rows, classes).
template <typename T>
void couple(const ArrayCall &call) {
    const std::int64_t rows = call.dim(0, 0), pairs = call.dim(0, 1), classes = call.dim(1, 1);
    call.check(call.dim(1, 0) == rows && 2 * pairs == classes * (classes - 1));
    divide(rows, classes * classes * classes, call.threads, [&](std::int64_t begin, std::int64_t end) {
        System system(classes);
        for (std::int64_t row = begin; row < end; row++) {
            system.fill(call.data<const T>(0) + row * pairs);
            system.solve();
            std::copy(system.solution.begin(), system.solution.end(), call.data<T>(1) + row * classes);
        }
    });
}

const NamedKernel entry("CouplePairs", [](const ArrayCall &call) {
    with_float(call.type(0), [&](auto zero) { couple<decltype(zero)>(call); });
});

} // namespace
} // namespace onegraph
