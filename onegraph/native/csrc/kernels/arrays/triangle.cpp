// Triangle: the elements of matrices on one side of a diagonal, and zeros.

#include "arrays.h"

namespace onegraph {
namespace {

// src; dst. Numbers: whether the elements above the diagonal stay, and how far it lies to the right.
void triangle(const ArrayCall &call) {
    const int rank = call.rank(0);
    const std::int64_t rows = call.dim(0, rank - 2), columns = call.dim(0, rank - 1);
    const auto size = static_cast<std::int64_t>(size_of_type(call.type(0)));
    const bool is_upper = call.flag(0);
    call.check(call.size(1) == call.size(0));
    const std::int64_t offset = call.integer(1);
    divide(call.size(0, 0, rank - 1), columns, call.threads, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t row = first; row < last; row++) {
            const std::int64_t diagonal = row % rows + offset + !is_upper; // the first column of the right part
            const std::int64_t left = std::clamp<std::int64_t>(diagonal, 0, columns) * size, all = columns * size;
            const char *source = call.data<const char>(0) + row * all;
            char *target = call.data<char>(1) + row * all;
            const std::int64_t begin = is_upper ? left : 0, end = is_upper ? all : left;
            std::memset(target, 0, static_cast<std::size_t>(begin));
            std::memcpy(target + begin, source + begin, static_cast<std::size_t>(end - begin));
            std::memset(target + end, 0, static_cast<std::size_t>(all - end));
        }
    });
}

const NamedKernel kernel("Triangle", triangle);

} // namespace
} // namespace onegraph
