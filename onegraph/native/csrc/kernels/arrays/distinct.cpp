// Distinct: each element of an array once, in order, with its first place, the places of all, and their number.

#include "arrays.h"

namespace onegraph {
namespace {

// src; values, first places, for each element the place of its value, and counts, of s64. The answer is the number of values.
// NaN is larger than every number, and one value.
template <typename T>
void distinct(const ArrayCall &call) {
    struct Element {
        T number;
        std::int64_t place;

        bool operator<(const Element &other) const {
            if (number < other.number || other.number < number) return number < other.number;
            if (is_nan(number) != is_nan(other.number)) return is_nan(other.number);
            return place < other.place;
        }
    };
    const std::int64_t count = call.size(0);
    std::vector<Element> elements(static_cast<std::size_t>(count));
    const T *source = call.data<const T>(0);
    for (std::int64_t i = 0; i < count; i++)
        elements[static_cast<std::size_t>(i)] = {source[i], i};
    std::sort(elements.begin(), elements.end());
    T *const values = call.data<T>(1);
    std::int64_t *const first = call.data<std::int64_t>(2), *const inverse = call.data<std::int64_t>(3);
    std::int64_t *const counts = call.data<std::int64_t>(4);
    std::int64_t found = -1;
    const Element *before = nullptr;
    for (const Element &element : elements) {
        const bool is_same = before && (before->number == element.number || (is_nan(before->number) && is_nan(element.number)));
        if (!is_same) {
            found++;
            values[found] = element.number, first[found] = element.place, counts[found] = 0;
        }
        counts[found]++;
        inverse[element.place] = found;
        before = &element;
    }
    call.answer[0] = found + 1;
}

const NamedKernel kernel("Distinct", [](const ArrayCall &call) {
    with_type(call.type(0), [&](auto zero) { distinct<decltype(zero)>(call); });
});

} // namespace
} // namespace onegraph
