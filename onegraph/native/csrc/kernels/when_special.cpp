// Steps that a run executes only where an element of an input is NaN or infinite.

#include <cmath>
#include <stdexcept>

#include "registry.h"
#include "special_numbers.h"

namespace onegraph {
namespace {

// The beginning of these steps, which are those up to the next WhenSpecialEnd. It has no result. `shown`: the first inputs
// show whether the next ones, `hidden` many, have such elements, so that those are read only if an element of the first is
// NaN or infinite; 0 if nothing shows it.
class WhenSpecial : public Runnable {
public:
    explicit WhenSpecial(const KernelArguments &arguments)
        : shown_(arguments.size("shown")), hidden_(arguments.size("hidden")) {
        for (std::size_t i = 0; i < arguments.count; i++)
            inputs_.emplace_back(*arguments.tensors[i]);
    }

    void run(void *const *addresses, int threads) const override {
        const auto any = [&](std::size_t begin, std::size_t end) {
            for (std::size_t i = begin; i < end; i++)
                if (inputs_[i].are_in(static_cast<const char *>(addresses[i]), threads)) return true;
            return false;
        };
        const std::size_t first = shown_ + hidden_;
        holds_ = any(first, inputs_.size()) || ((!shown_ || any(0, shown_)) && any(shown_, first));
    }

    bool is_condition() const override { return true; }
    bool holds() const override { return holds_; }

private:
    std::size_t shown_, hidden_;
    std::vector<SpecialNumbers> inputs_;
    mutable bool holds_ = true; // one run uses a plan at a time
};

// The end of these steps, which does nothing.
class WhenSpecialEnd : public Runnable {
public:
    explicit WhenSpecialEnd(const KernelArguments &) {}
    void run(void *const *, int) const override {}
    bool is_end() const override { return true; }
};

// NaN if an element of an input is NaN, infinite or at least 2 ** 20 in magnitude; otherwise 0.
class Unbounded : public Runnable {
public:
    explicit Unbounded(const KernelArguments &arguments) {
        for (std::size_t i = 0; i < arguments.n_inputs; i++)
            inputs_.emplace_back(*arguments.tensors[i]);
        if (arguments.count != arguments.n_inputs + 1 || arguments.tensors[arguments.n_inputs]->data_type != dnnl_f32)
            throw std::invalid_argument("no place for the answer");
    }

    void run(void *const *addresses, int threads) const override {
        float answer = 0;
        for (std::size_t i = 0; i < inputs_.size(); i++)
            if (inputs_[i].are_in(static_cast<const char *>(addresses[i]), threads, true)) answer = NAN;
        *static_cast<float *>(addresses[inputs_.size()]) = answer;
    }

private:
    std::vector<SpecialNumbers> inputs_;
};

const Registered<Unbounded> UNBOUNDED {"unbounded"};
const Registered<WhenSpecial> WHEN_SPECIAL {"when_special", "shown, hidden"};
const Registered<WhenSpecialEnd> WHEN_SPECIAL_END {"when_special_end"};

} // namespace
} // namespace onegraph
