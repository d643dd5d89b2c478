// Steps that a run executes only where an element of an input is NaN or infinite.

#include "registry.h"
#include "special_numbers.h"

namespace onegraph {
namespace {

// The beginning of these steps, which are those up to the next WhenSpecialEnd. It has no result.
class WhenSpecial : public Runnable {
public:
    explicit WhenSpecial(const KernelArguments &arguments) {
        for (std::size_t i = 0; i < arguments.count; i++)
            inputs_.emplace_back(*arguments.tensors[i]);
    }

    void run(void *const *addresses, int threads) const override {
        holds_ = false;
        for (std::size_t i = 0; i < inputs_.size() && !holds_; i++)
            holds_ = inputs_[i].are_in(static_cast<const char *>(addresses[i]), threads);
    }

    bool is_condition() const override { return true; }
    bool holds() const override { return holds_; }

private:
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

const Registered<WhenSpecial> WHEN_SPECIAL {"when_special"};
const Registered<WhenSpecialEnd> WHEN_SPECIAL_END {"when_special_end"};

} // namespace
} // namespace onegraph
