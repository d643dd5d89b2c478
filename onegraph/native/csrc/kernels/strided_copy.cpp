// Copies elements of any data type from one layout to another.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "registry.h"
#include "shares.h"

namespace onegraph {
namespace {

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

    template <typename T>
    void copy_rows(const char *source, char *target, std::size_t begin, std::size_t end) const;

    std::size_t size_;
    std::vector<Axis> axes_; // the last one is a row
    std::size_t rows_ = 1;
};

StridedCopy::StridedCopy(const KernelArguments &arguments) : size_(arguments.size("size")) {
    const auto &source = *arguments.tensors[0], &target = *arguments.tensors[1];
    if (arguments.n_inputs != 1 || arguments.count != 2 || source.ndims != target.ndims)
        throw std::invalid_argument("other tensors than one and its copy");
    const auto bytes = static_cast<std::int64_t>(size_);
    const std::size_t backwards = arguments.size("backwards"); // bits of the axes along which the source runs backwards
    for (int axis = 0; axis < target.ndims; axis++) {
        if (target.dims[axis] == 1) continue;
        const std::int64_t step = (backwards >> axis & 1) ? -bytes : bytes;
        const Axis next {target.dims[axis], source.layout.strides[axis] * step, target.layout.strides[axis] * bytes};
        if (!axes_.empty() && axes_.back().source == next.dim * next.source && axes_.back().target == next.dim * next.target)
            axes_.back() = {axes_.back().dim * next.dim, next.source, next.target};
        else
            axes_.push_back(next);
    }
    if (axes_.empty()) axes_.push_back({1, bytes, bytes});
    for (std::size_t axis = 0; axis + 1 < axes_.size(); axis++)
        rows_ *= static_cast<std::size_t>(axes_[axis].dim);
}

template <typename T>
void StridedCopy::copy_rows(const char *source, char *target, std::size_t begin, std::size_t end) const {
    constexpr auto SIZE = static_cast<std::int64_t>(sizeof(T));
    const Axis &row = axes_.back();
    for (std::size_t number = begin; number < end; number++) {
        std::int64_t from = 0, to = 0;
        auto rest = static_cast<std::int64_t>(number);
        for (std::size_t axis = axes_.size() - 1; axis-- > 0; rest /= axes_[axis].dim) {
            from += rest % axes_[axis].dim * axes_[axis].source;
            to += rest % axes_[axis].dim * axes_[axis].target;
        }
        const char *first = source + from;
        char *result = target + to;
        if (row.source == SIZE && row.target == SIZE) {
            std::memcpy(result, first, static_cast<std::size_t>(row.dim) * sizeof(T));
            continue;
        }
        for (std::int64_t i = 0; i < row.dim; i++)
            std::memcpy(result + i * row.target, first + i * row.source, sizeof(T));
    }
}

void StridedCopy::run(void *const *addresses, int threads) const {
    const auto *source = static_cast<const char *>(addresses[0]);
    auto *target = static_cast<char *>(addresses[1]);
    const auto unit = static_cast<std::size_t>(std::max<std::int64_t>(axes_.back().dim, 1));
    if (!rows_ || !axes_.back().dim) return;
    share(rows_ * unit, threads, unit, [&](std::size_t begin, std::size_t end) {
        const std::size_t first = begin / unit, last = end / unit;
        switch (size_) {
            case 1: return copy_rows<std::uint8_t>(source, target, first, last);
            case 2: return copy_rows<std::uint16_t>(source, target, first, last);
            case 4: return copy_rows<std::uint32_t>(source, target, first, last);
            default: return copy_rows<std::uint64_t>(source, target, first, last);
        }
    });
}

const Registered<StridedCopy> STRIDED_COPY {"strided_copy", "size, backwards"};

} // namespace
} // namespace onegraph
