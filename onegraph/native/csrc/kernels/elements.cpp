// One op on a few elements of any data type of numpy's, where calling numpy takes longer than the op.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "registry.h"

namespace onegraph {
namespace {

enum Op {
    add, subtract, multiply, maximum, minimum, negative, // of integers, and all but maximum and minimum of floats
    equal, greater, greater_equal, less, less_equal,
    and_, or_, xor_, not_, // of booleans
    select, // a boolean, then what it chooses from
    cast, // between all types but from floats to integers
};
enum Type { boolean, s8, u8, s16, u16, s32, u32, s64, u64, f32, f64 };

template <typename T>
T load(const char *place) {
    T value;
    std::memcpy(&value, place, sizeof value);
    return value;
}

template <typename T>
void store(char *place, T value) {
    std::memcpy(place, &value, sizeof value);
}

// Integers wrap around, as numpy's: they are computed without a sign.
template <typename T>
struct Wide {
    using type = std::uint64_t;
};
template <>
struct Wide<float> {
    using type = float;
};
template <>
struct Wide<double> {
    using type = double;
};

template <typename T>
T arithmetic(int op, T a, T b) {
    using W = typename Wide<T>::type;
    const W x = static_cast<W>(a), y = static_cast<W>(b);
    switch (op) {
        case add: return static_cast<T>(x + y);
        case subtract: return static_cast<T>(x - y);
        case multiply: return static_cast<T>(x * y);
        case maximum: return a < b ? b : a;
        case minimum: return b < a ? b : a;
        case negative: return static_cast<T>(W(0) - x);
        default: return a;
    }
}

template <typename T>
bool compared(int op, T a, T b) {
    switch (op) {
        case equal: return a == b;
        case greater: return a > b;
        case greater_equal: return a >= b;
        case less: return a < b;
        default: return a <= b;
    }
}

bool combined(int op, bool a, bool b) {
    switch (op) {
        case and_: return a && b;
        case or_: return a || b;
        case xor_: return a != b;
        default: return !a;
    }
}

// Calls `body` with a number of the type that this one of include/onegraph.h is.
template <typename Body>
void with_type(int type, Body body) {
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

// One op on a few elements of any data type of numpy's; the result is dense.
class Elements : public Runnable {
public:
    explicit Elements(const KernelArguments &arguments);

    void run(void *const *addresses, int threads) const override;

private:
    int op_, source_, target_;
    std::size_t n_inputs_, total_ = 1;
    std::vector<std::ptrdiff_t> places_; // for each source, the element that each element of the result reads
};

Elements::Elements(const KernelArguments &arguments)
    : op_(arguments.number("op")), source_(arguments.number("source")), target_(arguments.number("target")),
      n_inputs_(arguments.count - 1) {
    const std::size_t rank = arguments.size("rank");
    if (n_inputs_ < 1 || n_inputs_ > 3 || arguments.n_list() != rank * arguments.count)
        throw std::invalid_argument("other tensors");
    const int *dims = arguments.list();
    for (std::size_t i = 0; i < rank; i++)
        total_ *= static_cast<std::size_t>(dims[i]);
    for (std::size_t input = 0; input < n_inputs_; input++) {
        const int *strides = dims + rank * (input + 1);
        for (std::size_t number = 0; number < total_; number++) {
            std::ptrdiff_t place = 0;
            for (std::size_t axis = rank, rest = number; axis-- > 0; rest /= static_cast<std::size_t>(dims[axis]))
                place += static_cast<std::ptrdiff_t>(rest % static_cast<std::size_t>(dims[axis])) * strides[axis];
            places_.push_back(place);
        }
    }
}

void Elements::run(void *const *addresses, int) const {
    const char *sources[3] = {};
    for (std::size_t i = 0; i < n_inputs_; i++)
        sources[i] = static_cast<const char *>(addresses[i]);
    auto *target = static_cast<char *>(addresses[n_inputs_]);
    const auto *first = places_.data(), *second = first + (n_inputs_ > 1 ? total_ : 0);
    const auto *third = first + (n_inputs_ > 2 ? 2 * total_ : 0);
    const int op = op_;
    if (op >= and_ && op <= not_) {
        for (std::size_t i = 0; i < total_; i++)
            target[i] = combined(op, sources[0][first[i]] != 0, n_inputs_ > 1 && sources[1][second[i]] != 0);
        return;
    }
    with_type(source_, [&](auto number) {
        using T = decltype(number);
        constexpr auto size = static_cast<std::ptrdiff_t>(sizeof(T));
        const auto at = [&](std::size_t input, std::ptrdiff_t place) { return load<T>(sources[input] + size * place); };
        if (op == select) {
            for (std::size_t i = 0; i < total_; i++) {
                const bool chosen = sources[0][first[i]] != 0;
                store<T>(target + size * static_cast<std::ptrdiff_t>(i), chosen ? at(1, second[i]) : at(2, third[i]));
            }
        } else if (op == cast) {
            const bool to_boolean = target_ == boolean;
            with_type(target_, [&](auto result) {
                using R = decltype(result);
                for (std::size_t i = 0; i < total_; i++) {
                    const T value = at(0, first[i]);
                    store<R>(target + sizeof(R) * i, to_boolean ? static_cast<R>(value != T(0)) : static_cast<R>(value));
                }
            });
        } else if (op >= equal) {
            for (std::size_t i = 0; i < total_; i++)
                target[i] = compared<T>(op, at(0, first[i]), at(1, second[i]));
        } else {
            const std::size_t other = n_inputs_ - 1;
            const auto *places = n_inputs_ > 1 ? second : first;
            for (std::size_t i = 0; i < total_; i++)
                store<T>(target + size * static_cast<std::ptrdiff_t>(i),
                        arithmetic<T>(op, at(0, first[i]), at(other, places[i])));
        }
    });
}

// `source`: the data type of the sources behind a condition. `layout`: the dims of the result, then for each source the
// stride along each axis in elements, 0 along an axis of broadcasting.
const Registered<Elements> ELEMENTS {"elements",
        "op: Add|Subtract|Multiply|Maximum|Minimum|Negative|Equal|Greater|GreaterEqual|Less|LessEqual|And|Or|Xor|Not|Where|Cast, "
        "source: boolean|s8|u8|int16|uint16|s32|uint32|s64|uint64|f32|float64, "
        "target: boolean|s8|u8|int16|uint16|s32|uint32|s64|uint64|f32|float64, rank, layout..."};

} // namespace
} // namespace onegraph
