// Whole graphs and partitions in one call. The C API needs a call for each op, attribute and tensor.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "guard.h"
#include "openmp.h"

namespace {

dnnl_status_t set(dnnl_graph_op_t op, const onegraph_setting_t &setting) {
    const auto attribute = static_cast<dnnl_graph_op_attr_t>(setting.attribute);
    const void *value = setting.value;
    switch (setting.type) {
        case 'f':
            return dnnl_graph_op_set_attr_f32(op, attribute, static_cast<const float *>(value), setting.length);
        case 'i':
            return dnnl_graph_op_set_attr_s64(op, attribute, static_cast<const int64_t *>(value), setting.length);
        case 'b':
            return dnnl_graph_op_set_attr_bool(op, attribute, static_cast<const uint8_t *>(value), setting.length);
        default: return dnnl_graph_op_set_attr_str(op, attribute, static_cast<const char *>(value), setting.length);
    }
}

class Op {
public:
    Op(std::size_t id, const onegraph_template_t &given, const char *name) {
        status_ = dnnl_graph_op_create(&op_, id, static_cast<dnnl_graph_op_kind_t>(given.kind), name);
        for (std::size_t i = 0; !status_ && i < given.n_settings; i++)
            status_ = set(op_, given.settings[i]);
    }
    ~Op() { dnnl_graph_op_destroy(op_); }
    Op(const Op &) = delete;
    Op &operator=(const Op &) = delete;

    void add_input(const dnnl_graph_logical_tensor_t &tensor) {
        if (!status_) status_ = dnnl_graph_op_add_input(op_, &tensor);
    }
    void add_output(const dnnl_graph_logical_tensor_t &tensor) {
        if (!status_) status_ = dnnl_graph_op_add_output(op_, &tensor);
    }
    dnnl_status_t add_to(dnnl_graph_graph_t graph) const { return status_ ? status_ : dnnl_graph_add_op(graph, op_); }

private:
    dnnl_graph_op_t op_ = nullptr;
    dnnl_status_t status_;
};

dnnl_status_t compile_uncached(dnnl_graph_partition_t partition, dnnl_graph_compiled_partition_t compiled,
        size_t n_inputs, const dnnl_graph_logical_tensor_t **inputs, size_t n_outputs,
        const dnnl_graph_logical_tensor_t **outputs, dnnl_engine_t engine) {
    const onegraph::Uncached uncached;
    return dnnl_graph_partition_compile(partition, compiled, n_inputs, inputs, n_outputs, outputs, engine);
}

// Restores the number of threads of the calling thread.
class CallersThreads {
public:
    CallersThreads() : before_(onegraph::openmp().get ? onegraph::openmp().get() : 0) {}
    ~CallersThreads() {
        if (before_) onegraph_restore_threads(before_);
    }
    CallersThreads(const CallersThreads &) = delete;
    CallersThreads &operator=(const CallersThreads &) = delete;

private:
    int before_;
};

} // namespace

template <>
inline constexpr bool onegraph::needs_threads<&compile_uncached> = true;

namespace {

std::mutex exclusive; // a job that waits for it is inside the library, so that no fork meets it locked

dnnl_status_t compile(const onegraph_job_t &job) {
    std::unique_lock<std::mutex> alone(exclusive, std::defer_lock);
    if (job.is_exclusive) alone.lock();
    const auto ins = const_cast<const dnnl_graph_logical_tensor_t **>(job.inputs);
    const auto outs = const_cast<const dnnl_graph_logical_tensor_t **>(job.outputs);
    std::size_t made = 0;
    dnnl_status_t status = dnnl_success;
    while (!status && made < job.count) {
        status = onegraph::guard<&dnnl_graph_compiled_partition_create>(&job.compiled[made], job.partition);
        if (status) break;
        const auto target = job.compiled[made++];
        status = job.is_bound
                ? onegraph::guard<&compile_uncached>(
                          job.partition, target, job.n_inputs, ins, job.n_outputs, outs, job.engine)
                : onegraph::guard<&dnnl_graph_partition_compile>(
                          job.partition, target, job.n_inputs, ins, job.n_outputs, outs, job.engine);
    }
    while (status && made > 0)
        onegraph::guard<&dnnl_graph_compiled_partition_destroy>(job.compiled[--made]);
    return status;
}

} // namespace

extern "C" {

int onegraph_graph_add_ops(dnnl_graph_graph_t graph, size_t n_ops, const size_t *ids, onegraph_template_t **templates,
        const char *names, const size_t *counts, const size_t *tensor_ids, const size_t *places,
        const dnnl_graph_logical_tensor_t *tensors, int *statuses) {
    const auto next = [&] {
        dnnl_graph_logical_tensor_t tensor = tensors[*places++];
        tensor.id = *tensor_ids++;
        return tensor;
    };
    const onegraph::Inside inside;
    return onegraph::guarded([&] {
        for (std::size_t i = 0; i < n_ops; i++) {
            Op op(ids[i], *templates[i], names);
            names += std::strlen(names) + 1;
            for (std::size_t n = *counts++; n > 0; n--)
                op.add_input(next());
            for (std::size_t n = *counts++; n > 0; n--)
                op.add_output(next());
            statuses[i] = onegraph::guarded([&] { return op.add_to(graph); });
        }
        return dnnl_success;
    });
}

int onegraph_partition_ids(dnnl_graph_partition_t partition, size_t *sizes, size_t capacity, size_t *ids) {
    const onegraph::Inside inside;
    return onegraph::guarded([&] {
        dnnl_status_t status = dnnl_graph_partition_get_op_num(partition, &sizes[0]);
        if (!status) status = dnnl_graph_partition_get_input_ports_num(partition, &sizes[1]);
        if (!status) status = dnnl_graph_partition_get_output_ports_num(partition, &sizes[2]);
        if (status) return status;
        if (sizes[0] + sizes[1] + sizes[2] > capacity) return dnnl_invalid_arguments;
        status = dnnl_graph_partition_get_ops(partition, sizes[0], ids);
        std::vector<dnnl_graph_logical_tensor_t> ports(sizes[1] + sizes[2]);
        dnnl_graph_logical_tensor_t *outputs = ports.data() + sizes[1];
        // The library refuses to fill an array without elements.
        if (!status && sizes[1]) status = dnnl_graph_partition_get_input_ports(partition, sizes[1], ports.data());
        if (!status && sizes[2]) status = dnnl_graph_partition_get_output_ports(partition, sizes[2], outputs);
        for (std::size_t i = 0; !status && i < ports.size(); i++)
            ids[sizes[0] + i] = ports[i].id;
        return status;
    });
}

int onegraph_compile(size_t n_jobs, onegraph_job_t *jobs, int most) {
    const onegraph::Inside inside;
    std::atomic<std::size_t> next {0};
    const auto work = [&] {
        const CallersThreads restored;
        for (std::size_t i; (i = next++) < n_jobs;) {
            onegraph_restore_threads(jobs[i].threads);
            jobs[i].status = compile(jobs[i]);
        }
    };
    std::vector<std::thread> others;
    const auto help = [&] {
        onegraph::pass(); // a fork already waits for the calling thread, which waits for this thread
        work();
    };
    const dnnl_status_t status = onegraph::guarded([&] {
        while (others.size() + 1 < std::min(n_jobs, static_cast<std::size_t>(std::max(most, 1))))
            others.emplace_back(help);
        return dnnl_success;
    });
    (void)status; // if no further thread can be started, fewer do the work
    work();
    for (std::thread &other : others)
        other.join();
    return dnnl_success;
}
}
