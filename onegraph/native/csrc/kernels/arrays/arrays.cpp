// Finds and runs the kernels on dense arrays.

#include "arrays.h"

extern "C" const onegraph_array_kernel *onegraph_array_kernel_named(const char *name) {
    return onegraph_array_kernel::named(name);
}

extern "C" int onegraph_array_run(const onegraph_array_kernel *kernel, size_t count, const onegraph_array_t *arrays,
        const double *numbers, int limit, int64_t *answer) {
    return onegraph::guarded([&]() -> int {
        const int now = onegraph::openmp().get ? onegraph::openmp().get() : 1;
        const int threads = onegraph::is_forked() ? 1 : limit > 0 ? limit : now;
        onegraph::adapt_waiting(threads);
        try {
            kernel->run({count, arrays, numbers, threads, answer});
        } catch (const onegraph::BadIndex &bad) {
            answer[0] = static_cast<int64_t>(bad.array), answer[1] = bad.place, answer[2] = bad.index;
            return onegraph_bad_index;
        }
        return dnnl_success;
    });
}
