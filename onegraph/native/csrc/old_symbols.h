// Takes older versions of a few symbols of glibc and libstdc++, so that a wheel built on a new system runs on systems
// from glibc 2.27 on, like the oneDNN library itself. The compiler includes this file before any other.
#pragma once

#include <features.h>

#if defined(__x86_64__) && defined(__GLIBC__)

// glibc 2.34 moved these functions from libdl and libpthread into libc, and gave them new versions. On an older system
// libdnnl.so, which needs libdl and libpthread, brings them.
__asm__(".symver dlopen, dlopen@GLIBC_2.2.5");
__asm__(".symver dlsym, dlsym@GLIBC_2.2.5");
__asm__(".symver dladdr, dladdr@GLIBC_2.2.5");
__asm__(".symver pthread_mutex_trylock, pthread_mutex_trylock@GLIBC_2.2.5");
__asm__(".symver pthread_rwlock_rdlock, pthread_rwlock_rdlock@GLIBC_2.2.5");
__asm__(".symver pthread_rwlock_wrlock, pthread_rwlock_wrlock@GLIBC_2.2.5");
__asm__(".symver pthread_rwlock_unlock, pthread_rwlock_unlock@GLIBC_2.2.5");

// glibc 2.29 gave these functions versions that set no errno.
__asm__(".symver exp, exp@GLIBC_2.2.5");
__asm__(".symver log, log@GLIBC_2.2.5");
__asm__(".symver pow, pow@GLIBC_2.2.5");

// gcc 12 gave std::condition_variable::wait a new version, with the same contents.
__asm__(".symver _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE, "
        "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");

// Headers of libstdc++ read this variable of glibc 2.32. Its value 0, for "perhaps several threads", is always right.
extern "C" {
__attribute__((visibility("hidden"))) inline char __libc_single_threaded = 0;
}

// Containers of gcc 11 and later call this function of libstdc++ 3.4.29 for a size above the limit of their allocator.
#include <new>
namespace std {
[[noreturn]] __attribute__((visibility("hidden"))) inline void __throw_bad_array_new_length() {
    throw bad_array_new_length();
}
} // namespace std

#endif
