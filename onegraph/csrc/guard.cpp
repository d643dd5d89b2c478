#include "guard.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>

namespace {
thread_local char what_text[512] = "";
bool forked = false; // set in a child of one thread
std::atomic<int> inside {0}, forking {0}; // threads in the library, and those that are about to fork
constexpr useconds_t nap = 20; // microseconds
}

namespace onegraph {
void keep_what(const char *text) noexcept {
    std::snprintf(what_text, sizeof what_text, "%s", text);
}

bool threads_are_lost() noexcept {
    return forked;
}
Inside::Inside() noexcept {
    while (true) {
        inside.fetch_add(1);
        if (!forking.load()) return;
        inside.fetch_sub(1);
        while (forking.load())
            usleep(nap);
    }
}

Inside::~Inside() {
    inside.fetch_sub(1);
}
} // namespace onegraph

extern "C" void onegraph_before_fork(void) {
    forking.fetch_add(1);
    while (inside.load())
        usleep(nap);
}

extern "C" void onegraph_after_fork(int in_child) {
    if (in_child)
        forking = 0, inside = 0;
    else
        forking.fetch_sub(1);
}

extern "C" void onegraph_lose_threads(void) {
    forked = true;
}

extern "C" const char *onegraph_what(void) {
    // Reading empties it, so that a later failure without an exception is not given this text.
    thread_local char last[sizeof what_text];
    std::snprintf(last, sizeof last, "%s", what_text);
    what_text[0] = '\0';
    return last;
}
