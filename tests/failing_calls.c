// Preloaded, lets one system call of a child of tests/runtime/test_system_calls.py fail, end the process, or stop it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>

enum { END = -1, STOP = -2 };

static atomic_long seen = 0;
static long chosen = -1; // the number of the call; -1: none
static int outcome = 0;  // an error of errno.h, END or STOP

void choose_call(long number, int what) {
    seen = 0;
    chosen = number;
    outcome = what;
}

long calls_seen(void) {
    return seen;
}

static int fails(void) {
    if (seen++ != chosen) return 0;
    if (outcome > 0) errno = outcome;
    else raise(outcome == END ? SIGKILL : SIGSTOP);
    return outcome > 0;
}

// Integers and pointers are passed in registers, so that one signature serves all. The headers declare others.
#define CALL(name, failure)                                                                          \
    long call_##name(long a, long b, long c, long d, long e, long f) __asm__(#name);                 \
    long call_##name(long a, long b, long c, long d, long e, long f) {                               \
        static long (*real)(long, long, long, long, long, long);                                     \
        if (!real) real = (long (*)(long, long, long, long, long, long))dlsym(RTLD_NEXT, #name);     \
        return fails() ? failure : real(a, b, c, d, e, f);                                           \
    }

CALL(open, -1)
CALL(open64, -1)
CALL(openat, -1)
CALL(read, -1)
CALL(pread, -1)
CALL(pread64, -1)
CALL(write, -1)
CALL(pwrite64, -1)
CALL(close, -1)
CALL(mmap, -1)
CALL(mmap64, -1)
CALL(madvise, -1)
CALL(ioctl, -1)
CALL(fcntl64, -1)
CALL(fstatat64, -1)
CALL(fstat64, -1)
CALL(fstat, -1)
CALL(stat64, -1)
CALL(lstat64, -1)
CALL(stat, -1)
CALL(rename, -1)
CALL(unlink, -1)
CALL(mkdir, -1)
CALL(chmod, -1)
CALL(fchmod, -1)
CALL(fsync, -1)
CALL(flock, -1)
CALL(lseek64, -1)
CALL(ftruncate64, -1)
CALL(futimens, -1)
CALL(utimensat, -1)
CALL(access, -1)
CALL(faccessat, -1)
CALL(readlink, -1)
CALL(getcwd, 0)
CALL(getrandom, -1)
CALL(sched_getaffinity, -1)
CALL(dup, -1)
CALL(opendir, 0)
CALL(fdopendir, 0)
CALL(readdir64, 0)
