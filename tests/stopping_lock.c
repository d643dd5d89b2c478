// Preloaded, lets a thread wait where it next takes a lock in a library, until it is let go or half a second has gone.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static volatile int waits = 0, let_go = 0;
static __thread void *library = NULL;

// The library that has `symbol` is the one; the calling thread waits.
void stop_in(void *symbol) {
    Dl_info info;
    let_go = 0;
    if (dladdr(symbol, &info)) library = info.dli_fbase;
}

int is_waiting(void) {
    return waits;
}

void go_on(void) {
    let_go = 1;
}

int pthread_mutex_lock(pthread_mutex_t *mutex) {
    static int (*real)(pthread_mutex_t *);
    Dl_info info;
    if (!real) real = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
    if (library && dladdr(__builtin_return_address(0), &info) && info.dli_fbase == library) {
        library = NULL;
        waits = 1;
        for (int i = 0; i < 500 && !let_go; i++)
            usleep(1000);
        waits = 0;
    }
    return real(mutex);
}
