// Runs a kernel on dense arrays as a step of a plan, whose shapes are known.

#include <string>

#include "arrays.h"

#include "../sizes.h"

namespace onegraph {
namespace {

// A kernel on dense arrays. The list holds the number of its numbers, and these; the type of each array; then the letters
// of the kernel's name, of that of the op, each behind their number. `indices`: the input with indices, which is not the
// first one, or -1 if there is none; those of s32 become s64.
class ArrayStep : public Runnable {
public:
    explicit ArrayStep(const KernelArguments &arguments);
    void run(void *const *addresses, int threads) const override;

private:
    // The arrays in C++, with widened indices.
    std::vector<onegraph_array_t> arrays_at(void *const *addresses, std::vector<std::int64_t> &wide) const;
    [[noreturn]] void refuse(const BadIndex &bad) const;

    std::size_t n_inputs_, count_;
    int indices_;
    std::vector<double> numbers_;
    std::vector<int> types_;
    std::vector<std::vector<std::int64_t>> dims_;
    std::string kernel_, op_;
    const onegraph_array_kernel *kernel_of_name_ = nullptr;
    std::int64_t n_results_ = 1; // elements of the first result
};

ArrayStep::ArrayStep(const KernelArguments &arguments)
    : n_inputs_(arguments.n_inputs), count_(arguments.count), indices_(arguments.number("indices")) {
    const int *next = arguments.list(), *const end = next + arguments.n_list();
    const auto taken = [&](std::size_t count) {
        if (static_cast<std::size_t>(end - next) < count) throw std::invalid_argument("too few numbers");
        next += count;
        return next - count;
    };
    const auto counted = [&]() {
        const auto count = static_cast<std::size_t>(*taken(1));
        return std::make_pair(taken(count), count);
    };
    const auto [numbers, n_numbers] = counted();
    numbers_.assign(numbers, numbers + n_numbers);
    const int *const types = taken(count_);
    types_.assign(types, types + count_);
    for (std::string *text : {&kernel_, &op_}) {
        const auto [letters, n_letters] = counted();
        text->assign(letters, letters + n_letters);
    }
    kernel_of_name_ = onegraph_array_kernel::named(kernel_.c_str());
    if (!kernel_of_name_ || count_ == n_inputs_) throw std::invalid_argument("no kernel on arrays has this name");
    if (indices_ == 0 || indices_ >= static_cast<int>(n_inputs_)) throw std::invalid_argument("no such array of indices");
    for (std::size_t i = 0; i < count_; i++) {
        const auto &tensor = *arguments.tensors[i];
        if (!may_have(tensor.data_type, size_of_type(types_[i])))
            throw std::invalid_argument("elements of another size");
        dims_.emplace_back(tensor.dims, tensor.dims + std::max(tensor.ndims, 0));
        if (dims_.back().empty()) dims_.back().push_back(1);
    }
    for (const std::int64_t dim : dims_[n_inputs_])
        n_results_ *= dim;
}

std::vector<onegraph_array_t> ArrayStep::arrays_at(void *const *addresses, std::vector<std::int64_t> &wide) const {
    std::vector<onegraph_array_t> arrays;
    for (std::size_t i = 0; i < count_; i++)
        arrays.push_back({addresses[i], types_[i], static_cast<int>(dims_[i].size()), dims_[i].data()});
    if (indices_ >= 0 && types_[static_cast<std::size_t>(indices_)] == onegraph_type_s32) {
        auto &narrow = arrays[static_cast<std::size_t>(indices_)];
        std::int64_t count = 1;
        for (int axis = 0; axis < narrow.rank; axis++)
            count *= narrow.dims[axis];
        const auto *first = static_cast<const std::int32_t *>(narrow.data);
        wide.assign(first, first + count);
        narrow.data = wide.data(), narrow.type = onegraph_type_s64;
    }
    return arrays;
}

void ArrayStep::run(void *const *addresses, int threads) const {
    if (!n_results_) return;
    std::vector<std::int64_t> wide;
    const std::vector<onegraph_array_t> arrays = arrays_at(addresses, wide);
    std::int64_t answer[3] {};
    try {
        kernel_of_name_->run({count_, arrays.data(), numbers_.data(), std::max(threads, 1), answer});
    } catch (const BadIndex &bad) {
        refuse(bad);
    }
}

void ArrayStep::refuse(const BadIndex &bad) const {
    std::string where;
    std::int64_t rest = bad.place;
    const auto &dims = dims_[bad.array];
    for (std::size_t axis = dims.size(); axis-- > 0; rest /= dims[axis])
        where = std::to_string(rest % dims[axis]) + (where.empty() ? "" : ", ") + where;
    throw WrongContents(op_ + ": index " + std::to_string(bad.index) + " at [" + where + "] of indices is out of range");
}

const Registered<ArrayStep> ARRAYS {"arrays", "indices, level, contents..."};

} // namespace
} // namespace onegraph
