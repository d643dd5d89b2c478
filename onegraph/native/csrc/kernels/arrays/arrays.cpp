// The table of the kernels on dense arrays.

#include "arrays.h"

#include <map>
#include <string>

namespace onegraph {
namespace {

struct Table {
    std::vector<ArrayKernel> kernels;
    std::map<std::string, int> numbers;
};

Table &table() {
    static Table found;
    return found;
}

} // namespace

NamedKernel::NamedKernel(const char *name, ArrayKernel kernel) {
    table().numbers[name] = static_cast<int>(table().kernels.size());
    table().kernels.push_back(kernel);
}

} // namespace onegraph

extern "C" int onegraph_array_kernel(const char *name) {
    const auto &numbers = onegraph::table().numbers;
    const auto found = numbers.find(name);
    return found == numbers.end() ? -1 : found->second;
}

extern "C" int onegraph_array_run(int kernel, size_t count, const onegraph_array_t *arrays, const double *numbers, int limit,
        int64_t *answer) {
    return onegraph::guarded([&]() -> int {
        const auto &kernels = onegraph::table().kernels;
        const int now = onegraph::openmp().get ? onegraph::openmp().get() : 1;
        const int threads = onegraph::is_forked() ? 1 : limit > 0 ? limit : now;
        onegraph::adapt_waiting(threads);
        try {
            kernels.at(static_cast<std::size_t>(kernel))({count, arrays, numbers, threads, answer});
        } catch (const onegraph::BadIndex &bad) {
            answer[0] = static_cast<int64_t>(bad.array), answer[1] = bad.place, answer[2] = bad.index;
            return onegraph_bad_index;
        }
        return dnnl_success;
    });
}
