// Finds the kernels of the package by their names, and the numbers of each.

#include "registry.h"

#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>

namespace {

// The place of a name among the names of numbers; calls `visit(name, is_list)` for each until it returns true.
template <typename Visit>
bool find(std::string_view numbers, const Visit &visit) {
    while (!numbers.empty()) {
        const std::size_t end = std::min(numbers.find(", "), numbers.size());
        const std::string_view field = numbers.substr(0, end), name = field.substr(0, field.find_first_of(":."));
        if (visit(name, field.substr(name.size(), 3) == "...")) return true;
        numbers.remove_prefix(std::min(end + 2, numbers.size()));
    }
    return false;
}

} // namespace

onegraph_kernel::onegraph_kernel(const char *name, const char *numbers, Make make)
    : Named(name), numbers(numbers), make(make) {}

namespace onegraph {

KernelArguments::KernelArguments(const onegraph_kernel &kernel, const onegraph_step_t &step)
    : n_inputs(step.n_inputs), count(step.n_inputs + step.n_outputs), tensors(step.tensors), kernel_(kernel),
      code_(step.code), n_code_(step.n_code), n_single_(0) {
    const bool has_list = find(kernel.numbers, [&](std::string_view, bool is_list) { return is_list || (n_single_++, false); });
    if (has_list ? n_code_ < n_single_ : n_code_ != n_single_)
        throw std::invalid_argument("other numbers than those of the kernel " + std::string(kernel.name));
}

int KernelArguments::number(const char *name) const {
    std::size_t place = 0;
    const auto is_it = [&](std::string_view other, bool) { return other == name || (place++, false); };
    if (!find(kernel_.numbers, is_it) || place >= n_single_)
        throw std::invalid_argument("the kernel " + std::string(kernel_.name) + " has no number " + name);
    return code_[place];
}

float KernelArguments::real(const char *name) const {
    const int bits = number(name);
    float found;
    std::memcpy(&found, &bits, sizeof found);
    return found;
}

} // namespace onegraph

extern "C" {

const onegraph_kernel *onegraph_kernel_named(const char *name) {
    return onegraph_kernel::named(name);
}

const onegraph_kernel *onegraph_kernel_after(const onegraph_kernel *kernel) {
    return kernel ? kernel->next : onegraph_kernel::first;
}

const char *onegraph_kernel_name(const onegraph_kernel *kernel) {
    return kernel->name;
}

const char *onegraph_kernel_numbers(const onegraph_kernel *kernel) {
    return kernel->numbers;
}

int onegraph_kernel_run(const onegraph_step_t *step, void *const *addresses) {
    const onegraph::Inside inside;
    return onegraph::guarded([&] {
        const onegraph_kernel &kernel = *step->kernel;
        kernel.make(onegraph::KernelArguments(kernel, *step))->run(addresses, step->threads);
        return dnnl_success;
    });
}
}
