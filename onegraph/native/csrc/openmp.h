// The OpenMP runtime of the library, and how its threads wait.

#pragma once

#include <cstdint>

namespace onegraph {

// Functions of the runtime; all null if the library has none.
struct OpenMP {
    int (*get)() = nullptr;
    void (*set)(int) = nullptr;
    int (*number)() = nullptr; // of the calling thread in its team, from 0 on
    // Runs a function on a number of threads. Some runtimes lack it.
    void (*parallel)(void (*body)(void *), void *argument, unsigned threads, unsigned flags) = nullptr;

    OpenMP();
};

const OpenMP &openmp();

// Whether the calling thread continues in the child of a fork, which has none of the threads.
bool is_forked() noexcept;

// Nanoseconds of a steady clock.
std::int64_t now();

// Whether each of `count` threads gets its own processor now, and no other program holds one of them.
bool side_by_side(int count);

// Call this before a run with `count` threads. A thread of libgomp that waits at a barrier spins for some milliseconds.
// That is the fastest way on an idle machine. Beside another program it is the slowest, because the threads that still
// work wait for the processor. This function tests from time to time whether the processors are free, and shortens the
// spinning until they are.
// With `is_asked`, it tests the processors even where the user chose how threads wait, for is_crowded().
void adapt_waiting(int count, bool is_asked = false) noexcept;

// Whether the last test found that other programs hold processors of the threads.
bool is_crowded() noexcept;

// Call this in the child of a fork, which has none of the threads.
void forget_waiting() noexcept;

} // namespace onegraph
