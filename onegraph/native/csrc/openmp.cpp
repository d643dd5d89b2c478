#include "openmp.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "guard.h"

namespace onegraph {

OpenMP::OpenMP() {
    // Take the functions that the library itself calls. A second libgomp in the process would count other threads.
    Dl_info info;
    if (dnnl_version()->cpu_runtime != DNNL_RUNTIME_OMP) return;
    if (!dladdr(reinterpret_cast<void *>(&dnnl_version), &info)) return;
    void *library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!library) return;
    get = reinterpret_cast<int (*)()>(dlsym(library, "omp_get_max_threads"));
    set = reinterpret_cast<void (*)(int)>(dlsym(library, "omp_set_num_threads"));
    if (!get || !set) get = nullptr, set = nullptr;
    number = reinterpret_cast<int (*)()>(dlsym(library, "omp_get_thread_num"));
    parallel = reinterpret_cast<decltype(parallel)>(dlsym(library, "GOMP_parallel"));
    if (!number) parallel = nullptr;
}

const OpenMP &openmp() {
    static const OpenMP functions;
    return functions;
}

std::int64_t now() {
    using namespace std::chrono;
    return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

namespace {

// About ten microseconds of work without memory access; returns the nanoseconds that it took.
std::int64_t work() {
    const std::int64_t start = now();
    volatile std::uint64_t sink;
    std::uint64_t value = 1;
    for (int i = 0; i < 8000; i++)
        value = value * 6364136223846793005u + 1442695040888963407u;
    sink = value;
    (void)sink;
    return now() - start;
}

int processors() {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) ? 0 : CPU_COUNT(&set);
}

// Threads that wait until all are awake, and then work at the same time.
struct Meeting {
    static constexpr std::int64_t patience = 200'000; // nanoseconds; a sleeping thread wakes up faster

    const int expected;
    const std::int64_t deadline = now() + patience;
    std::atomic<int> arrived {0}, late {0};
    std::atomic<std::int64_t> longest {0};

    explicit Meeting(int count) : expected(count) {}

    static void attend(void *self) {
        Meeting &meeting = *static_cast<Meeting *>(self);
        meeting.arrived++;
        while (meeting.arrived < meeting.expected)
            if (now() > meeting.deadline) {
                meeting.late++;
                return;
            }
        const std::int64_t taken = work();
        for (std::int64_t known = meeting.longest; known < taken && !meeting.longest.compare_exchange_weak(known, taken);) {}
    }
};

// Idle threads that belong to libgomp. While it has more threads than there are processors, each of its threads spins
// for less than a microsecond.
class Crowd {
public:
    bool exists() const { return wanted_ != nullptr; }

    void gather(int threads) {
        auto wanted = std::make_shared<Wanted>();
        std::thread([wanted, threads] {
            // libgomp keeps the threads of this region until the thread that began it ends.
            openmp().parallel([](void *) {}, nullptr, static_cast<unsigned>(threads), 0);
            std::unique_lock<std::mutex> lock(wanted->mutex);
            wanted->ended.wait(lock, [&] { return !wanted->value; });
        }).detach();
        wanted_ = std::move(wanted);
    }

    void dismiss() {
        {
            const std::lock_guard<std::mutex> lock(wanted_->mutex);
            wanted_->value = false;
        }
        wanted_->ended.notify_all();
        wanted_.reset();
    }

    // In the child of a fork, the mutex may be locked for ever.
    void forget() { new std::shared_ptr<Wanted>(std::move(wanted_)); }

private:
    struct Wanted {
        std::mutex mutex;
        std::condition_variable ended;
        bool value = true;
    };
    std::shared_ptr<Wanted> wanted_;
};

// Whether libgomp's threads wait as it chooses, and not as the user chose.
bool is_adaptable() {
    static const bool adaptable = openmp().parallel && !std::getenv("OMP_WAIT_POLICY") && !std::getenv("GOMP_SPINCOUNT");
    return adaptable;
}

// Nanoseconds that the processors of this thread were busy until now; 0 if that is not known.
std::int64_t busy_time() {
    cpu_set_t set;
    std::FILE *file = sched_getaffinity(0, sizeof(set), &set) ? nullptr : std::fopen("/proc/stat", "re");
    if (!file) return 0;
    // Programs of lower priority give way, so that their time does not count beside a program of normal priority.
    const bool is_nice = getpriority(PRIO_PROCESS, 0) > 0;
    std::int64_t ticks = 0;
    char line[512];
    while (std::fgets(line, sizeof line, file)) {
        unsigned cpu;
        long long user, nice, system, idle, wait, irq, softirq;
        if (std::sscanf(line, "cpu%u %lld %lld %lld %lld %lld %lld %lld", &cpu, &user, &nice, &system, &idle, &wait,
                    &irq, &softirq)
                != 8)
            continue;
        // Time that a virtual machine's host gives to others is not counted: shorter spinning would not get it back.
        if (cpu < CPU_SETSIZE && CPU_ISSET(cpu, &set)) ticks += user + (is_nice ? nice : 0) + system + irq + softirq;
    }
    std::fclose(file);
    return ticks * (1'000'000'000 / sysconf(_SC_CLK_TCK));
}

std::int64_t own_time() {
    timespec time {};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return std::int64_t {time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// How many threads of all programs want a processor of the machine now; INT_MAX if that is not known.
int runnable() {
    std::FILE *file = std::fopen("/proc/loadavg", "re");
    if (!file) return INT_MAX;
    int count = INT_MAX;
    if (std::fscanf(file, "%*s %*s %*s %d/", &count) != 1) count = INT_MAX;
    std::fclose(file);
    return count;
}

// Whether another program keeps a thread of a team waiting. A virtual machine's host may do that too. Then sleeping at
// barriers is of no use, and slow, because waking up a virtual processor may take 100 microseconds.
bool is_disturbed(int count) { return !side_by_side(count) && runnable() > count; }

// What other programs do on the processors of this thread.
class Others {
public:
    // How many processors they kept busy since the last window ended. Nothing before this one ends, and after a pause,
    // in which the program ran nothing: others that used its processors meanwhile may have stopped. Less than 0 if many
    // short sleeps of the program's threads fall between the ticks by which the kernel counts.
    std::optional<double> processors() {
        const std::int64_t time = time_, work = work_, length = now() - time;
        if (length < window) return std::nullopt;
        time_ = now(), work_ = busy_time() - own_time();
        if (length > 3 * window) return std::nullopt;
        return static_cast<double>(work_ - work) / static_cast<double>(length);
    }

private:
    static constexpr std::int64_t window = 150'000'000; // nanoseconds; the kernel counts in hundredths of a second

    std::int64_t time_ = 0, work_ = 0;
};

constexpr std::int64_t period = 50'000'000; // nanoseconds between two tests, which take about 20 microseconds
std::atomic<std::int64_t> next_test {0};
std::atomic<bool> crowded {false}; // what the last test found
Others others; // this and `crowd` belong to the thread that moved `next_test` on
Crowd crowd;

} // namespace

bool side_by_side(int count) {
    if (!openmp().parallel || count < 2 || count > processors()) return true; // cannot be measured
    for (int i = 0; i < 3; i++) {
        const std::int64_t alone = work();
        Meeting meeting(count);
        openmp().parallel(Meeting::attend, &meeting, static_cast<unsigned>(count), 0);
        if (meeting.late) continue; // another program got a time slice, or a thread woke up late
        if (meeting.longest < 3 * alone / 2 + 1000) return true;
    }
    return false;
}

bool is_crowded() noexcept { return crowded; }

void adapt_waiting(int count, bool is_asked) noexcept {
    if (count < 2 || !(is_asked || is_adaptable())) return;
    const std::int64_t time = now();
    std::int64_t due = next_test.load(std::memory_order_relaxed);
    if (time < due || !next_test.compare_exchange_strong(due, INT64_MAX)) return;
    try {
        // Processors that others may keep busy. A thread that wakes up gets a processor at once, so that a short test
        // alone may find all of them free.
        const double left = processors() - count;
        const std::optional<double> used = others.processors();
        if (crowded) {
            if (used && *used < left + 0.3 && !is_disturbed(count)) crowded = false;
        } else if ((used && *used > left + 0.5) || is_disturbed(count)) {
            crowded = true;
        }
        if (crowd.exists() && !crowded) crowd.dismiss();
        // libgomp counts the threads of this run's team, and all but the first of a region of another thread.
        if (!crowd.exists() && crowded && is_adaptable()) crowd.gather(std::max(processors() - count, 0) + 2);
    } catch (const std::exception &) {
        // No thread can be started: the next test tries again.
    }
    next_test = now() + period;
}

void forget_waiting() noexcept {
    crowd.forget();
    next_test = INT64_MAX; // the child uses one thread
}

} // namespace onegraph
