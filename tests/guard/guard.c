// Memory between pages that nobody may touch: preloaded, it serves every block that the oneDNN library allocates, by the
// allocator of onegraph or by itself. A read or write beside a block ends the process with a line that names the block.
//
// GUARD_SIDE=end (the default): a block ends at such a page, exactly. GUARD_SIDE=begin: a block begins behind one.
// Fresh memory holds 0xff in each byte, which is NaN in every float type. Freed memory cannot be touched either.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define ARENA ((size_t)1 << 38) // addresses, of which none is used twice
#define ENDED 77 // the exit status
#define SEARCHED 1024 // pages behind an address, for the block that it lies before
#define WRITES 2 // the bit of a write in the error code of a page fault

// Of each block, at the place of its first page in the arena: its size and its start, 0 where no block begins.
typedef struct {
    uint64_t size, start;
} Block;

static char *arena;
static Block *blocks;
static _Atomic size_t used;
static int at_begin;

static size_t pages_of(size_t size) {
    return (size + PAGE - 1) / PAGE;
}

static int is_guarded(const void *pointer) {
    return arena && (char *)pointer >= arena && (char *)pointer < arena + ARENA;
}

static void *guarded(size_t alignment, size_t size) {
    const size_t body = (pages_of(size) + !size) * PAGE, apart = alignment > PAGE ? alignment : PAGE;
    const size_t whole = body + apart + PAGE; // a page before it, and one behind it
    const size_t at = atomic_fetch_add(&used, (whole + PAGE - 1) / PAGE * PAGE);
    if (at + whole > ARENA) {
        static const char text[] = "guard: no addresses are left\n";
        if (write(2, text, sizeof text - 1) < 0) _exit(ENDED);
        _exit(ENDED);
    }
    uintptr_t first = ((uintptr_t)arena + at + PAGE + apart - 1) / apart * apart;
    if (mprotect((void *)first, body, PROT_READ | PROT_WRITE)) return NULL;
    memset((void *)first, 0xff, body);
    uintptr_t start = first;
    if (!at_begin) start = (first + body - size) & ~(uintptr_t)(alignment - 1);
    blocks[(first - (uintptr_t)arena) / PAGE] = (Block) {size, start};
    return (void *)start;
}

static Block *block_of(const void *pointer) {
    return &blocks[((const char *)pointer - arena) / PAGE];
}

static void release(void *pointer) {
    Block *block = block_of(pointer);
    char *first = (char *)((uintptr_t)pointer / PAGE * PAGE);
    mmap(first, (pages_of(block->size) + !block->size) * PAGE, PROT_NONE,
            MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

// For blocks of the library's own allocator, and for arrays: the smallest alignment that a caller asks for, because an
// array of ten floats ends forty bytes behind its start.
void *guard_allocate(size_t size, size_t alignment) {
    return guarded(alignment ? alignment : 64, size ? size : 1);
}

void guard_deallocate(void *pointer) {
    if (pointer) release(pointer);
}

// The functions of the C library that oneDNN calls ---------------------------------------------------------------------

#define LEAST 1024 // bytes; small objects stay in the heap

void *aligned_alloc(size_t alignment, size_t size) {
    static void *(*next)(size_t, size_t);
    if (!next) next = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc");
    return arena && size >= LEAST ? guarded(alignment, size) : next(alignment, size);
}

int posix_memalign(void **pointer, size_t alignment, size_t size) {
    static int (*next)(void **, size_t, size_t);
    if (!next) next = (int (*)(void **, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
    if (!arena || size < LEAST) return next(pointer, alignment, size);
    void *found = guarded(alignment, size);
    if (!found) return ENOMEM;
    *pointer = found;
    return 0;
}

void free(void *pointer) {
    static void (*next)(void *);
    if (is_guarded(pointer)) {
        release(pointer);
        return;
    }
    if (!next) next = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    next(pointer);
}

void *realloc(void *pointer, size_t size) {
    static void *(*next)(void *, size_t);
    if (!next) next = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    if (!is_guarded(pointer)) return next(pointer, size);
    const size_t known = block_of(pointer)->size;
    void *found = malloc(size);
    if (found) memcpy(found, pointer, known < size ? known : size), release(pointer);
    return found;
}

// The allocator of the graph API ---------------------------------------------------------------------------------------

typedef int (*Create)(void *, void *(*)(size_t, size_t), void (*)(void *));
typedef int (*CreateSycl)(void *, void *(*)(size_t, size_t, const void *, const void *),
        void (*)(void *, const void *, const void *, void *));

static void *real_dlsym(void *handle, const char *name) {
    static void *(*next)(void *, const char *);
    if (!next) next = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return next(handle, name);
}

static void *library(void) {
    return dlopen("libdnnl.so.3", RTLD_LAZY | RTLD_NOLOAD);
}

int dnnl_graph_allocator_create(void *allocator, void *(*allocate)(size_t, size_t), void (*deallocate)(void *)) {
    (void)allocate, (void)deallocate;
    return ((Create)real_dlsym(library(), "dnnl_graph_allocator_create"))(
            allocator, guard_allocate, guard_deallocate);
}

static void *sycl_allocate(size_t size, size_t alignment, const void *device, const void *context) {
    (void)device, (void)context;
    return guard_allocate(size, alignment);
}

static void sycl_deallocate(void *pointer, const void *device, const void *context, void *event) {
    (void)device, (void)context;
    static void (*wait)(void *);
    if (!wait) wait = (void (*)(void *))real_dlsym(library(), "_ZN4sycl3_V15event4waitEv");
    if (event && wait) wait(event);
    guard_deallocate(pointer);
}

static int create_sycl(void *allocator, void *allocate, void *deallocate) {
    (void)allocate, (void)deallocate;
    return ((CreateSycl)real_dlsym(library(), "dnnl_graph_sycl_interop_allocator_create"))(
            allocator, sycl_allocate, sycl_deallocate);
}

void *dlsym(void *handle, const char *name) {
    if (name && !strcmp(name, "dnnl_graph_sycl_interop_allocator_create")) return (void *)create_sycl;
    return real_dlsym(handle, name);
}

// What happened --------------------------------------------------------------------------------------------------------

static void tell(int number, siginfo_t *info, void *context) {
    char text[256];
    const char *address = info->si_addr;
    const int writes = (int)(((ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & WRITES);
    int length = 0;
    if (is_guarded(address)) {
        // The block that ends or begins next to the address, of those on both sides of it.
        const size_t page = (size_t)(address - arena) / PAGE;
        const Block *before = NULL, *behind = NULL;
        size_t first = page, next = page + 1;
        while (first > 0 && !blocks[first].start)
            first--;
        while (next < page + SEARCHED && next < ARENA / PAGE && !blocks[next].start)
            next++;
        if (blocks[first].start) before = &blocks[first];
        if (next < page + SEARCHED && blocks[next].start) behind = &blocks[next];
        const uintptr_t at = (uintptr_t)address, end = before ? before->start + before->size : 0;
        const Block *block = !behind || (before && at - end < behind->start - at) ? before : behind;
        if (block)
            length = snprintf(text, sizeof text, "guard: %s at byte %ld of a block of %ld bytes\n",
                    writes ? "write" : "read", (long)(at - block->start), (long)block->size);
    }
    if (length > 0 && write(2, text, (size_t)length) > 0) _exit(ENDED);
    signal(number, SIG_DFL);
    raise(number);
}

__attribute__((constructor)) static void prepare(void) {
    const char *side = getenv("GUARD_SIDE");
    at_begin = side && !strcmp(side, "begin");
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *table = mmap(NULL, ARENA / PAGE * sizeof(Block), PROT_READ | PROT_WRITE, flags, -1, 0);
    void *found = mmap(NULL, ARENA, PROT_NONE, flags, -1, 0);
    if (table == MAP_FAILED || found == MAP_FAILED) abort();
    blocks = table, arena = found;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = tell, action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}
