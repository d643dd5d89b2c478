// Preloaded, lets a request for aligned memory fail that a child of tests/runtime/test_process_faults.py chooses.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

static long left = -1; // requests that still succeed; -1: all
static long seen = 0;

void fail_after(long count) {
    left = count;
}

long requests(void) {
    return seen;
}

void *aligned_alloc(size_t alignment, size_t size) {
    static void *(*real)(size_t, size_t);
    if (!real) real = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc");
    seen++;
    if (left == 0) return NULL;
    if (left > 0) left--;
    return real(alignment, size);
}
