// The hot path: the library steps of a program, executed one after another without the GIL.
//
// A plan has the steps of a run, and the tensors that they read and write. A step is a compiled partition of the library
// or a kernel of the package. One run uses a plan at a time. A slot is memory of the caller. Every tensor has a slot and
// an offset in it; binding a slot moves all of its tensors at once.

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "allocator.h"
#include "arenas.h"
#include "guard.h"
#include "kernels/registry.h"
#include "openmp.h"
#include "parts.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 // from Linux 5.14 on
#endif

namespace {

using onegraph::now;
using onegraph::openmp;
using onegraph::side_by_side;

// Set in the forked child: OpenMP would wait for the parent's threads, which do not exist in the child.
thread_local bool forked = false;

// Sets the number of threads for this thread's next parallel regions, and restores the caller's number at the end.
class Threads {
public:
    explicit Threads(int limit) {
        if (!openmp().get) return;
        before_ = current_ = openmp().get();
        limit_ = forked ? 1 : limit > 0 ? limit : before_;
    }
    ~Threads() {
        if (current_ != before_) openmp().set(before_);
    }
    Threads(const Threads &) = delete;
    Threads &operator=(const Threads &) = delete;

    int current() const { return current_; }
    int most() const { return limit_; }
    void use(int count) {
        count = count > 0 ? std::min(count, limit_) : limit_;
        if (count == current_) return;
        openmp().set(count);
        current_ = count;
    }

private:
    int before_ = 0, current_ = 0, limit_ = 0; // all 0 if the library has no OpenMP; use() then does nothing
};

std::size_t size_of(dnnl_data_type_t type) {
    switch (type) {
        case dnnl_f32:
        case dnnl_s32: return 4;
        case dnnl_bf16:
        case dnnl_f16: return 2;
        default: return static_cast<int>(type) == onegraph_s64 ? 8 : 1;
    }
}

struct Place {
    dnnl_graph_tensor_t tensor; // NULL for a tensor of a kernel
    void **address; // of a tensor of a kernel
    std::size_t slot;
    std::size_t offset;
};

struct Step {
    dnnl_graph_compiled_partition_t partition;
    std::size_t n_inputs, n_outputs;
    const_dnnl_graph_tensor_t *tensors; // inputs, then outputs
    int threads;
    bool keeps;
    std::unique_ptr<const onegraph::Runnable> kernel; // instead of a partition
    void *const *addresses; // of the kernel's tensors
    bool prepares; // whether the first execution may prepare constants
    std::size_t room, room_size; // memory of the arena that no tensor uses meanwhile
    dnnl_graph_compiled_partition_t alone; // for one thread, beside other programs; NULL if several are as good
    std::size_t n_conditional; // if the kernel is a condition, the number of the steps behind it that it is for
};

} // namespace

bool onegraph::is_forked() noexcept {
    return forked;
}

struct onegraph_plan {
    dnnl_stream_t stream = nullptr;
    int limit = 0;
    bool bound = false;
    std::vector<Step> steps;
    std::vector<const_dnnl_graph_tensor_t> tensors;
    std::vector<void *> addresses; // of the tensors of kernels
    std::vector<Place> places; // ordered by slot
    std::vector<std::size_t> starts; // index in `places` of each slot's first tensor, then the size of `places`
    std::vector<std::size_t> alignments; // of each slot, in bytes
    bool keeps = false; // whether a step keeps constants
    std::vector<const onegraph::Runnable *> reversible; // the kernels whose last run can be taken back
    bool adapts = false; // whether a step has a partition for one thread
    std::size_t ending = 0; // the first of the last steps, which finish() executes
    char *arena = nullptr; // the memory of slot 0
    onegraph_arenas *arenas = nullptr; // where each run takes this memory from; NULL if it is bound
    std::size_t arena_size = 0; // bytes that a run takes
    int *turn = nullptr; // which memory of the variables is the present one
    std::vector<onegraph_pages_t> pages; // ordered by step
    mutable std::size_t given_back = 0; // how many of them
    // The values of onegraph::flushes() when a run prepared all constants, and when the steps last began.
    mutable std::size_t prepared = 0, begun = 0;
    std::atomic_flag busy = ATOMIC_FLAG_INIT;
    const bool made_after_fork = forked;

    // Whether its kernels would wait for threads that the child of a fork lacks, and have thread affinity, so that a
    // new thread cannot run them. A call continues in the child if a signal handler forks during the call.
    bool is_lost() const { return bound && forked && !made_after_fork; }

    ~onegraph_plan() {
        for (auto tensor : tensors)
            dnnl_graph_tensor_destroy(const_cast<dnnl_graph_tensor_t>(tensor));
    }

    void find_conditions() {
        for (std::size_t i = 0; i < steps.size(); i++) {
            if (!steps[i].kernel || !steps[i].kernel->is_condition()) continue;
            const auto is_end = [](const Step &step) { return step.kernel && step.kernel->is_end(); };
            const auto end = std::find_if(steps.begin() + static_cast<std::ptrdiff_t>(i), steps.end(), is_end);
            if (end != steps.end()) steps[i].n_conditional = static_cast<std::size_t>(end - steps.begin()) - i;
        }
    }

    dnnl_status_t execute(const Step &step, int threads, bool alone = false) const {
        if (step.kernel) {
            // A library built for SYCL may not have executed the steps before.
            if (dnnl_status_t status = dnnl_stream_wait(stream)) return status;
            step.kernel->run(step.addresses, threads);
            return dnnl_success;
        }
        std::optional<onegraph::Scratch> scratch;
        if (!step.prepares || prepared == onegraph::flushes()) scratch.emplace(arena + step.room, step.room_size);
        const dnnl_status_t status = dnnl_graph_compiled_partition_execute(
                alone ? step.alone : step.partition, stream, step.n_inputs, step.tensors, step.n_outputs, step.tensors + step.n_inputs);
        return !status && scratch && scratch->is_in_use() ? dnnl_runtime_error : status;
    }

    void bind(std::size_t slot, void *address) {
        if (slot == 0) arena = static_cast<char *>(address);
        for (std::size_t i = starts[slot]; i < starts[slot + 1]; i++) {
            void *place = static_cast<char *>(address) + places[i].offset;
            if (places[i].tensor)
                dnnl_graph_tensor_set_data_handle(places[i].tensor, place);
            else
                *places[i].address = place;
        }
    }

    // Executes `body` with memory for the intermediates.
    template <typename Body>
    dnnl_status_t with_arena(Body body) {
        if (!arenas) return body();
        const onegraph::Arena taken(*arenas, arena_size);
        if (!taken.memory()) return dnnl_out_of_memory;
        if (taken.memory() != arena) bind(0, taken.memory());
        return body();
    }

    // Many kernels keep the number of threads that they were compiled with. In the thread that continues in the child
    // of a fork they would wait for threads that do not exist. A new thread has its own OpenMP team.
    template <typename Body>
    dnnl_status_t with_a_team(Body body) const {
        if (!forked || bound) return body();
        dnnl_status_t status = dnnl_runtime_error;
        std::thread([&] {
            forked = true;
            onegraph::pass(); // a fork already waits for the calling thread, which waits for this thread
            status = onegraph::guarded(body);
        }).join();
        return status;
    }

    dnnl_status_t run(std::size_t first, std::size_t last, std::int64_t *nanoseconds) const {
        if (is_lost()) return onegraph::lost;
        const std::size_t flushes = onegraph::flushes();
        const bool is_prepared = prepared == flushes;
        if (first == 0) begun = flushes;
        const dnnl_status_t status = with_a_team([&] {
            std::optional<onegraph::Preparation> preparation;
            if (keeps && !is_prepared) preparation.emplace();
            return run_here(first, last, nanoseconds);
        });
        if (!status && last >= ending && begun == flushes) prepared = flushes;
        return status;
    }

    dnnl_status_t run_here(std::size_t first, std::size_t last, std::int64_t *nanoseconds) const {
        const onegraph::Execution execution;
        const onegraph::InOrder in_order;
        Threads threads(limit);
        onegraph::adapt_waiting(threads.most(), adapts);
        return run_steps(first, last, nanoseconds, threads, adapts && onegraph::is_crowded());
    }

    dnnl_status_t run_steps(
            std::size_t first, std::size_t last, std::int64_t *nanoseconds, Threads &threads, bool crowded) const {
        dnnl_status_t status = dnnl_success;
        for (std::size_t i = first; i < last && !status; i++) {
            const std::int64_t start = nanoseconds ? now() : 0;
            const bool alone = crowded && steps[i].alone;
            threads.use(alone ? 1 : steps[i].threads);
            if (given_back < pages.size()) map_pages(i);
            status = execute(steps[i], threads.current(), alone);
            if (nanoseconds && !status) {
                status = dnnl_stream_wait(stream);
                nanoseconds[i] = now() - start;
            }
            if (!status && given_back < pages.size()) status = give_back(i);
            if (status || !steps[i].n_conditional || steps[i].kernel->holds()) continue;
            if (nanoseconds) std::fill_n(nanoseconds + i + 1, steps[i].n_conditional, 0);
            i += steps[i].n_conditional;
        }
        const dnnl_status_t waited = dnnl_stream_wait(stream);
        return status ? status : waited;
    }

    // Whole runs, for which `next` binds slots and says whether there is another one. The first one may prepare constants.
    template <typename Next>
    dnnl_status_t repeat(Next next) const {
        if (!next()) return dnnl_success;
        if (dnnl_status_t status = run()) return status;
        if (ending != steps.size() || !reversible.empty() || (keeps && prepared != onegraph::flushes())) {
            while (next())
                if (dnnl_status_t status = run()) return status;
            return dnnl_success;
        }
        return with_a_team([&] {
            const onegraph::Execution execution;
            const onegraph::InOrder in_order;
            Threads threads(limit);
            onegraph::adapt_waiting(threads.most(), adapts);
            const bool crowded = adapts && onegraph::is_crowded();
            while (next())
                if (dnnl_status_t status = run_steps(0, ending, nullptr, threads, crowded)) return status;
            return dnnl_success;
        });
    }

    // A whole run.
    dnnl_status_t run() const {
        const struct Undo {
            const onegraph_plan &plan;
            ~Undo() { plan.take_back(); } // does nothing after finish()
        } undo {*this};
        if (dnnl_status_t status = run(0, ending, nullptr)) return status;
        return finish();
    }

    // Executes the last steps, which write new values of variables over the old ones, and exchanges the memories of the
    // other variables. What steps before have written over variables is not taken back from here on. Kernels of the
    // package cannot fail, and no interrupt arrives here: a run that fails or is interrupted changes no variable.
    dnnl_status_t finish() const {
        if (dnnl_status_t status = dnnl_stream_wait(stream)) return status;
        Threads threads(limit);
        for (std::size_t i = ending; i < steps.size(); i++) {
            threads.use(steps[i].threads);
            steps[i].kernel->run(steps[i].addresses, threads.current());
        }
        keep_old(turn != nullptr);
        if (turn) *turn ^= 1;
        return dnnl_success;
    }

    void keep_old(bool keeps) const {
        for (const onegraph::Runnable *kernel : reversible)
            kernel->keep_old(keeps);
    }

    // Writes back what steps have written over variables since the last finish().
    void take_back() const {
        for (const onegraph::Runnable *kernel : reversible)
            kernel->take_back();
    }

    // Maps the pages of constants whose last reader is a step, all at once: page by page takes five times as long. Where
    // the system cannot, the step does.
    void map_pages(std::size_t step) const {
        for (std::size_t k = given_back; k < pages.size() && pages[k].step <= step; k++)
            madvise(pages[k].address, pages[k].size, MADV_POPULATE_READ);
    }

    // Gives back the pages of constants whose last reader is a step up to `last`. The library has copies of most of
    // them after the first execution; the system reads a page from its file again if it is needed.
    dnnl_status_t give_back(std::size_t last) const {
        for (; given_back < pages.size() && pages[given_back].step <= last; given_back++) {
            if (dnnl_status_t status = dnnl_stream_wait(stream)) return status;
            madvise(pages[given_back].address, pages[given_back].size, MADV_DONTNEED);
        }
        return dnnl_success;
    }

    dnnl_status_t prepare(std::int64_t *bytes) const {
        std::fill_n(bytes, steps.size(), 0);
        if (is_lost()) return dnnl_success; // another thread compiles it again
        return with_a_team([&] {
            const onegraph::Execution execution;
            Threads threads(limit);
            for (std::size_t i = 0; i < steps.size(); i++) {
                if (!steps[i].keeps) continue;
                threads.use(steps[i].threads);
                const onegraph::Preparation preparation;
                const dnnl_status_t status = execute(steps[i], threads.current());
                const dnnl_status_t waited = dnnl_stream_wait(stream);
                if (status || waited) return status ? status : waited;
                bytes[i] = preparation.kept();
                give_back(i);
            }
            return dnnl_success;
        });
    }

    // The least time of each step, or -1 if its threads never ran side by side.
    dnnl_status_t measure(std::int64_t enough, std::int64_t *nanoseconds) const {
        if (is_lost()) {
            std::fill_n(nanoseconds, steps.size(), -1);
            return dnnl_success;
        }
        return with_a_team([&] { return measure_here(enough, nanoseconds); });
    }

    dnnl_status_t measure_here(std::int64_t enough, std::int64_t *nanoseconds) const {
        const onegraph::Execution execution;
        Threads threads(limit);
        onegraph::adapt_waiting(threads.most());
        int patience = 2; // retries for all steps, so that a program that stays busy does not delay every step
        for (std::size_t i = 0; i < steps.size(); i++) {
            threads.use(steps[i].threads);
            nanoseconds[i] = -1;
            while (patience > 0 || threads.current() == 1) {
                std::int64_t least;
                if (side_by_side(threads.current())) { // otherwise each execution may wait for a time slice
                    if (dnnl_status_t status = measure(steps[i], threads.current(), enough, least)) return status;
                    if (side_by_side(threads.current())) {
                        nanoseconds[i] = least;
                        break;
                    }
                }
                patience--;
            }
        }
        return dnnl_success;
    }

    // The time of the first execution if it is more than 100 * `enough` nanoseconds, otherwise the least time of
    // several executions, because another program may delay some of them.
    dnnl_status_t measure(const Step &step, int threads, std::int64_t enough, std::int64_t &least) const {
        // The first execution also prepares constants.
        const std::int64_t begin = now();
        {
            std::optional<onegraph::Preparation> preparation;
            if (step.keeps) preparation.emplace();
            if (dnnl_status_t status = execute(step, threads)) return status;
            if (dnnl_status_t status = dnnl_stream_wait(stream)) return status;
        }
        least = now() - begin;
        if (least > 100 * enough) return dnnl_success;
        for (std::int64_t spent = 0, runs = 0; runs == 0 || (spent < 5 * enough && runs < 6); runs++) {
            const std::int64_t start = now();
            if (dnnl_status_t status = execute(step, threads)) return status;
            if (dnnl_status_t status = dnnl_stream_wait(stream)) return status;
            const std::int64_t taken = now() - start;
            least = std::min(least, taken);
            spent += taken;
        }
        return dnnl_success;
    }
};

namespace {

// Runs `body` alone on the plan and keeps every exception inside.
template <typename Body>
int alone(onegraph_plan *plan, Body body) noexcept {
    if (onegraph::threads_are_lost()) return onegraph_lost;
    const onegraph::Inside inside; // outlives the flag: a fork while the flag is set would leave it set in the child
    if (plan->busy.test_and_set(std::memory_order_acquire)) return onegraph_busy;
    struct Release {
        std::atomic_flag &flag;
        ~Release() { flag.clear(std::memory_order_release); }
    } release {plan->busy};
    return onegraph::guarded(body);
}

// The same, with memory for the intermediates.
template <typename Body>
int executed(onegraph_plan *plan, Body body) noexcept {
    return alone(plan, [&] { return plan->with_arena(body); });
}

} // namespace

int onegraph::place(
        std::uintptr_t address, std::size_t n, const std::size_t *slots, void *const *addresses) noexcept {
    auto *plan = reinterpret_cast<onegraph_plan *>(address);
    return alone(plan, [&]() -> int {
        for (std::size_t i = 0; i < n; i++)
            if (slots[i] && reinterpret_cast<std::uintptr_t>(addresses[i]) % plan->alignments[slots[i]])
                return onegraph_misaligned;
        for (std::size_t i = 0; i < n; i++)
            if (slots[i]) plan->bind(slots[i], addresses[i]);
        return dnnl_success;
    });
}

extern "C" {

int onegraph_arenas_create(onegraph_arenas **arenas) {
    return onegraph::guarded([&] {
        *arenas = new onegraph_arenas;
        return dnnl_success;
    });
}

int onegraph_arenas_destroy(onegraph_arenas *arenas) {
    delete arenas;
    return dnnl_success;
}

int onegraph_plan_share(onegraph_plan *plan, onegraph_arenas *arenas, size_t size) {
    return alone(plan, [&] {
        plan->arenas = arenas;
        plan->arena_size = size;
        return dnnl_success;
    });
}

int onegraph_plan_create(onegraph_plan **plan, dnnl_engine_t engine, dnnl_stream_t stream, int limit, int bound, size_t alignment,
        size_t n_steps, const onegraph_step_t *steps, size_t n_places, const size_t *slots, const size_t *offsets, size_t n_slots,
        size_t n_pages, const onegraph_pages_t *pages, size_t n_last) {
    const onegraph::Inside inside;
    return onegraph::guarded([&] {
        auto made = std::make_unique<onegraph_plan>();
        made->stream = stream;
        made->limit = limit;
        made->ending = n_steps - n_last;
        made->bound = bound;
        made->tensors.reserve(n_places);
        made->addresses.reserve(n_places);
        made->starts.assign(n_slots + 1, 0);
        made->alignments.assign(n_slots, alignment);
        made->pages.assign(pages, pages + n_pages);
        for (std::size_t i = 0; i < n_steps; i++) {
            const onegraph_step_t &step = steps[i];
            const std::size_t count = step.n_inputs + step.n_outputs;
            const_dnnl_graph_tensor_t *own = made->tensors.data() + made->tensors.size();
            void **addresses = made->addresses.data() + made->addresses.size();
            for (std::size_t j = 0; j < count; j++) {
                dnnl_graph_tensor_t tensor = nullptr;
                // Never NULL, because the library would then allocate the memory itself.
                void *address = made.get();
                if (step.kernel)
                    made->addresses.push_back(nullptr);
                else if (auto status = dnnl_graph_tensor_create(&tensor, step.tensors[j], engine, address))
                    return status;
                else
                    made->tensors.push_back(tensor);
                const std::size_t place = made->places.size(), slot = slots[place];
                made->places.push_back({tensor, tensor ? nullptr : addresses + j, slot, offsets[place]});
                made->starts[slot + 1]++;
                std::size_t &needed = made->alignments[slot];
                needed = std::max(needed, size_of(step.tensors[j]->data_type));
            }
            std::unique_ptr<const onegraph::Runnable> kernel;
            if (step.kernel) kernel = step.kernel->make(onegraph::KernelArguments(*step.kernel, step));
            if (kernel && kernel->may_take_back()) made->reversible.push_back(kernel.get());
            made->steps.push_back({step.partition, step.n_inputs, step.n_outputs, own, step.threads, step.keeps != 0,
                    std::move(kernel), addresses, step.prepares != 0, step.room, step.room_size, step.alone, 0});
            made->adapts |= step.alone != nullptr;
            made->keeps |= step.keeps != 0;
        }
        made->find_conditions();
        std::stable_sort(made->places.begin(), made->places.end(),
                [](const Place &a, const Place &b) { return a.slot < b.slot; });
        for (std::size_t i = 0; i < n_slots; i++)
            made->starts[i + 1] += made->starts[i];
        *plan = made.release();
        return dnnl_success;
    });
}

int onegraph_plan_destroy(onegraph_plan *plan) {
    const onegraph::Inside inside;
    delete plan;
    return dnnl_success;
}

int onegraph_plan_bind(onegraph_plan *plan, size_t slot, void *address) {
    return alone(plan, [&] {
        if (slot == 0) plan->arenas = nullptr;
        plan->bind(slot, address);
        return dnnl_success;
    });
}

int onegraph_plan_run(uintptr_t address) {
    auto *plan = reinterpret_cast<onegraph_plan *>(address);
    return executed(plan, [&] { return plan->run(); });
}

int onegraph_plan_exchange(onegraph_plan *plan, int *turn) {
    return alone(plan, [&] {
        plan->turn = turn;
        plan->keep_old(turn != nullptr);
        return dnnl_success;
    });
}

int onegraph_plan_finish(onegraph_plan *plan) {
    return alone(plan, [&] { return plan->finish(); });
}

int onegraph_plan_take_back(onegraph_plan *plan) {
    return alone(plan, [&] {
        plan->take_back();
        return dnnl_success;
    });
}

int onegraph_plan_call(uintptr_t address, size_t n_slots, void *const *addresses) {
    auto *plan = reinterpret_cast<onegraph_plan *>(address);
    return alone(plan, [&]() -> int {
        for (std::size_t i = 0; i < n_slots; i++)
            if (reinterpret_cast<std::uintptr_t>(addresses[i]) % plan->alignments[i + 1]) return onegraph_misaligned;
        for (std::size_t i = 0; i < n_slots; i++)
            plan->bind(i + 1, addresses[i]);
        return plan->with_arena([&] { return plan->run(); });
    });
}

int onegraph_plan_repeat(uintptr_t address, size_t begin, size_t end, size_t n, const onegraph_moving_t *slots, int goes,
        int64_t enough, size_t *done) {
    auto *plan = reinterpret_cast<onegraph_plan *>(address);
    return alone(plan, [&]() -> int {
        for (std::size_t i = 0; i < n; i++) {
            const onegraph_moving_t &one = slots[i];
            if ((one.first | one.odd | one.even | static_cast<std::uintptr_t>(one.step)) % plan->alignments[one.slot])
                return onegraph_misaligned;
        }
        const std::int64_t start = now();
        const unsigned char *last = nullptr;
        *done = begin;
        const auto next = [&] {
            if (last) ++*done;
            if (*done >= end || (last && ((goes && !*last) || now() - start > enough))) return false;
            for (std::size_t i = 0; i < n; i++) {
                const onegraph_moving_t &one = slots[i];
                std::uintptr_t place = one.first;
                if (*done) place = (*done & 1 ? one.odd : one.even) + (*done - 1) * static_cast<std::uintptr_t>(one.step);
                void *address = reinterpret_cast<void *>(place);
                plan->bind(one.slot, address);
                last = static_cast<const unsigned char *>(address);
            }
            return true;
        };
        return plan->with_arena([&] { return plan->repeat(next); });
    });
}

int onegraph_plan_run_steps(onegraph_plan *plan, size_t first, size_t last, int64_t *nanoseconds) {
    return executed(plan, [&] { return plan->run(first, last, nanoseconds); });
}

int onegraph_plan_sample(onegraph_plan *plan, int64_t enough, size_t most, int64_t *nanoseconds, size_t *count) {
    return executed(plan, [&]() -> dnnl_status_t {
        const std::int64_t begin = now();
        for (std::int64_t end = begin; *count < most && end - begin <= enough; ++*count) {
            const std::int64_t start = now();
            if (dnnl_status_t status = plan->run()) return status;
            end = now();
            nanoseconds[*count] = end - start;
        }
        return dnnl_success;
    });
}

int onegraph_plan_measure(onegraph_plan *plan, int64_t enough, int64_t *nanoseconds) {
    return executed(plan, [&] { return plan->measure(enough, nanoseconds); });
}

int onegraph_plan_prepare(onegraph_plan *plan, int64_t *bytes) {
    return executed(plan, [&] { return plan->prepare(bytes); });
}

int onegraph_restore_threads(int count) {
    if (openmp().set) openmp().set(forked ? 1 : count);
    return dnnl_success;
}

void onegraph_forked(void) {
    forked = true;
    onegraph::forget_waiting();
    if (openmp().set) openmp().set(1);
}
}
