// Copies elements of any data type from one layout to another.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "registry.h"
#include "shares.h"

#include "sizes.h"
#include "turned.h"

namespace onegraph {
namespace {

constexpr std::int64_t GROUP = 4096; // elements that are copied together

// One tensor of elements of `size` bytes; the copy has the same dims. Elements of the source may share memory or run
// backwards.
class StridedCopy : public Runnable {
public:
    explicit StridedCopy(const KernelArguments &arguments);
    void run(void *const *addresses, int threads) const override;

private:
    struct Axis {
        std::int64_t dim, source, target; // strides in bytes
    };

    // Where a number of places of the outer axes, counted from the last one, lies.
    struct Place {
        std::int64_t source, target;
    };
    Place place(std::size_t number) const;

    template <typename T>
    void copy_rows(const char *source, char *target, std::size_t begin, std::size_t end) const;
    template <typename T>
    void turn_columns(const char *source, char *target, std::size_t begin, std::size_t end) const;

    std::size_t size_;
    std::vector<Axis> outer_;
    Axis lines_ {1, 0, 0}, row_ {1, 0, 0}; // of each place of the outer axes, lines of rows
    bool turns_ = false; // whether the elements of a column lie one behind another in the source, and those of a row in the target
    bool parts_ = false, joins_ = false; // whether a column or a row is the three channels of an image, side by side
    std::int64_t group_ = 1; // lines that are copied together
    std::size_t n_outer_ = 1;
};

StridedCopy::StridedCopy(const KernelArguments &arguments) : size_(arguments.size("size")) {
    const auto &source = *arguments.tensors[0], &target = *arguments.tensors[1];
    if (arguments.n_inputs != 1 || arguments.count != 2 || source.ndims != target.ndims
            || !may_have(source.data_type, size_) || !may_have(target.data_type, size_))
        throw std::invalid_argument("other tensors than one and its copy");
    const auto bytes = static_cast<std::int64_t>(size_);
    const std::size_t backwards = arguments.size("backwards"); // bits of the axes along which the source runs backwards
    for (int axis = 0; axis < target.ndims; axis++) {
        if (source.dims[axis] != target.dims[axis]) throw std::invalid_argument("a copy of other dims");
        if (target.dims[axis] == 1) continue;
        const std::int64_t step = (backwards >> axis & 1) ? -bytes : bytes;
        const Axis next {target.dims[axis], source.layout.strides[axis] * step, target.layout.strides[axis] * bytes};
        const bool follows = !outer_.empty() && outer_.back().source == next.dim * next.source
                && outer_.back().target == next.dim * next.target;
        if (follows)
            outer_.back() = {outer_.back().dim * next.dim, next.source, next.target};
        else
            outer_.push_back(next);
    }
    if (!outer_.empty()) row_ = outer_.back(), outer_.pop_back();
    const auto is_column = [&](const Axis &axis) { return axis.source == bytes; };
    const auto columns = std::find_if(outer_.begin(), outer_.end(), is_column);
    turns_ = columns != outer_.end() && row_.target == bytes && row_.source != bytes;
    if (turns_) {
        lines_ = *columns, outer_.erase(columns);
        const std::int64_t lanes = 16 / bytes;
        parts_ = lines_.dim == 3 && row_.source == 3 * bytes, joins_ = row_.dim == 3 && lines_.target == 3 * bytes;
        const bool is_narrow = parts_ || lines_.dim < lanes;
        std::int64_t part = is_narrow && row_.dim > GROUP ? GROUP : 0; // of a row, which stays in the cache
        while (part > 0 && row_.dim % part != 0)
            part--;
        if (part > GROUP / 16) {
            outer_.push_back({row_.dim / part, row_.source * part, row_.target * part});
            row_.dim = part;
        }
        group_ = parts_ ? lines_.dim : lanes * std::max<std::int64_t>(1, GROUP / (row_.dim * lanes));
    } else if (!outer_.empty()) {
        lines_ = outer_.back(), outer_.pop_back();
    }
    for (const Axis &axis : outer_)
        n_outer_ *= static_cast<std::size_t>(axis.dim);
}

StridedCopy::Place StridedCopy::place(std::size_t number) const {
    Place found {0, 0};
    auto rest = static_cast<std::int64_t>(number);
    for (std::size_t axis = outer_.size(); axis-- > 0; rest /= outer_[axis].dim) {
        found.source += rest % outer_[axis].dim * outer_[axis].source;
        found.target += rest % outer_[axis].dim * outer_[axis].target;
    }
    return found;
}

// Copies up to 64 bytes, some of them twice: a loop over bytes takes longer.
ONEGRAPH_INLINE void copy_short(char *target, const char *source, std::size_t size) {
    const auto from_both_ends = [&](auto count) {
        constexpr std::size_t SIZE = decltype(count)::value;
        char first[SIZE], last[SIZE];
        std::memcpy(first, source, SIZE);
        std::memcpy(last, source + size - SIZE, SIZE);
        std::memcpy(target, first, SIZE);
        std::memcpy(target + size - SIZE, last, SIZE);
    };
    if (size >= 32) return from_both_ends(std::integral_constant<std::size_t, 32>());
    if (size >= 16) return from_both_ends(std::integral_constant<std::size_t, 16>());
    if (size >= 8) return from_both_ends(std::integral_constant<std::size_t, 8>());
    if (size >= 4) return from_both_ends(std::integral_constant<std::size_t, 4>());
    if (size >= 2) return from_both_ends(std::integral_constant<std::size_t, 2>());
    if (size) *target = *source;
}

// Copies lines, which are counted over all places.
template <typename T>
void StridedCopy::copy_rows(const char *source, char *target, std::size_t begin, std::size_t end) const {
    constexpr auto SIZE = static_cast<std::int64_t>(sizeof(T));
    constexpr std::int64_t SHORT = 64 / SIZE; // elements of a row, up to which a call takes longer
    const bool is_whole = row_.source == SIZE && row_.target == SIZE;
    const auto lines = static_cast<std::size_t>(lines_.dim);
    for (std::size_t number = begin; number < end;) {
        const Place at = place(number / lines);
        const std::size_t first = number % lines, last = std::min(lines, first + end - number);
        number += last - first;
        const char *from = source + at.source + static_cast<std::int64_t>(first) * lines_.source;
        char *to = target + at.target + static_cast<std::int64_t>(first) * lines_.target;
        for (std::size_t line = first; line < last; line++, from += lines_.source, to += lines_.target) {
            if (is_whole && row_.dim > SHORT)
                std::memcpy(to, from, static_cast<std::size_t>(row_.dim) * sizeof(T));
            else if (is_whole)
                copy_short(to, from, static_cast<std::size_t>(row_.dim) * sizeof(T));
            else if (row_.target == SIZE)
                for (std::int64_t i = 0; i < row_.dim; i++)
                    move_element<T>(to + i * SIZE, from + i * row_.source);
            else
                for (std::int64_t i = 0; i < row_.dim; i++)
                    move_element<T>(to + i * row_.target, from + i * row_.source);
        }
    }
}

// An element at any address.
template <typename T>
struct Loose {
    typedef T type __attribute__((aligned(1), may_alias));
};

// Elements of NUMBER channels that lie side by side, to a line for each channel.
template <typename T, int NUMBER>
ONEGRAPH_INLINE void part_channels(const char *source, char *target, std::int64_t to, std::int64_t count) {
    using Element = typename Loose<T>::type;
    const auto *from = reinterpret_cast<const Element *>(source);
    for (std::int64_t i = 0; i < count; i++)
        for (int channel = 0; channel < NUMBER; channel++)
            reinterpret_cast<Element *>(target + channel * to)[i] = from[i * NUMBER + channel];
}

// Elements of lines of NUMBER channels, side by side.
template <typename T, int NUMBER>
ONEGRAPH_INLINE void join_channels(const char *source, char *target, std::int64_t from, std::int64_t count) {
    using Element = typename Loose<T>::type;
    auto *to = reinterpret_cast<Element *>(target);
    for (std::int64_t i = 0; i < count; i++)
        for (int channel = 0; channel < NUMBER; channel++)
            to[i * NUMBER + channel] = reinterpret_cast<const Element *>(source + channel * from)[i];
}

// Copies groups of columns of the source, which become lines of the target; they are counted over all places.
template <typename T>
void StridedCopy::turn_columns(const char *source, char *target, std::size_t begin, std::size_t end) const {
    constexpr std::int64_t SIZE = sizeof(T);
    const auto groups = static_cast<std::size_t>((lines_.dim + group_ - 1) / group_);
    for (std::size_t number = begin; number < end; number++) {
        const Place at = place(number / groups);
        const std::int64_t first = static_cast<std::int64_t>(number % groups) * group_;
        const std::int64_t count = std::min(group_, lines_.dim - first);
        const char *from = source + at.source + first * SIZE;
        char *to = target + at.target + first * lines_.target;
        if (parts_)
            ForCpu<part_channels<T, 3>>::of()(from, to, lines_.target, row_.dim);
        else if (joins_)
            ForCpu<join_channels<T, 3>>::of()(from, to, row_.source, count);
        else
            turn_block<T>(from, row_.source, row_.dim, to, lines_.target, count);
    }
}

void StridedCopy::run(void *const *addresses, int threads) const {
    const auto *source = static_cast<const char *>(addresses[0]);
    auto *target = static_cast<char *>(addresses[1]);
    const auto row = static_cast<std::size_t>(row_.dim), group = static_cast<std::size_t>(group_);
    const std::size_t count = n_outer_ * ((static_cast<std::size_t>(lines_.dim) + group - 1) / group), unit = row * group;
    if (!count || !unit) return;
    share(count * unit, threads, unit, [&](std::size_t begin, std::size_t end) {
        const auto copy = [&](auto element) {
            using T = decltype(element);
            if (turns_) return turn_columns<T>(source, target, begin / unit, end / unit);
            copy_rows<T>(source, target, begin / unit, end / unit);
        };
        switch (size_) {
            case 1: return copy(std::uint8_t());
            case 2: return copy(std::uint16_t());
            case 4: return copy(std::uint32_t());
            default: return copy(std::uint64_t());
        }
    });
}

const Registered<StridedCopy> STRIDED_COPY {"strided_copy", "size, backwards"};

} // namespace
} // namespace onegraph
