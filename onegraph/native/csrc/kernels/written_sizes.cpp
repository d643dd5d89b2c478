// Integers that sizes decide: the numbers of a Range, and the dims of a Shape.

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "registry.h"

namespace onegraph {
namespace {

class WrittenSizes final : public Runnable {
public:
    explicit WrittenSizes(const KernelArguments &made)
        : is_range_(made.flag("is_range")), numbers_(made.list(), made.list() + made.n_list()) {
        if (made.n_inputs || made.count != 1) throw std::invalid_argument("one result");
        is_wide_ = static_cast<int>(made.tensors[0]->data_type) == onegraph_s64;
        if (!is_wide_ && made.tensors[0]->data_type != dnnl_s32) throw std::invalid_argument("s64 or s32");
        count_ = 1;
        for (int axis = 0; axis < made.tensors[0]->ndims; axis++)
            count_ *= static_cast<std::size_t>(made.tensors[0]->dims[axis]);
        if (is_range_ ? numbers_.size() != 2 : numbers_.size() != count_) throw std::invalid_argument("other numbers");
    }

    void run(void *const *addresses, int) const override {
        if (is_wide_)
            write(static_cast<std::int64_t *>(addresses[0]));
        else
            write(static_cast<std::int32_t *>(addresses[0]));
    }

private:
    template <typename T>
    void write(T *result) const {
        for (std::size_t i = 0; i < count_; i++)
            result[i] = static_cast<T>(is_range_ ? numbers_[0] + static_cast<std::int64_t>(i) * numbers_[1] : numbers_[i]);
    }

    bool is_range_, is_wide_ = false;
    std::vector<std::int64_t> numbers_;
    std::size_t count_ = 0;
};

const Registered<WrittenSizes> WRITTEN_SIZES {"written_sizes", "is_range, of..."};

} // namespace
} // namespace onegraph
