// Concat of elements of any type.

#include "arrays.h"

namespace onegraph {
namespace {

// The inputs; dst. Numbers: the axis, the number of inputs.
void concat(const ArrayCall &call) {
    const auto axis = static_cast<int>(call.integer(0));
    const auto count = static_cast<std::size_t>(call.integer(1));
    const auto element = static_cast<std::int64_t>(size_of_type(call.type(count)));
    const std::int64_t outer = call.size(count, 0, axis), row = call.size(count, axis) * element;
    char *target = call.data<char>(count);
    std::int64_t whole = 0;
    for (std::size_t i = 0; i < count; i++) {
        call.check(call.size(i, 0, axis) == outer);
        whole += call.size(i, axis) * element;
    }
    call.check(whole == row);
    for (std::size_t i = 0; i < count; i++) {
        const std::int64_t part = call.size(i, axis) * element;
        const char *source = call.data<const char>(i);
        char *begin = target;
        divide(outer, part / 4 + 1, call.threads, [&](std::int64_t first, std::int64_t last) {
            for (std::int64_t at = first; at < last; at++)
                std::memcpy(begin + at * row, source + at * part, static_cast<std::size_t>(part));
        });
        target += part;
    }
}

const NamedKernel entry("Concat", concat);

} // namespace
} // namespace onegraph
