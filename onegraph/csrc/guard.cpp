#include "guard.h"

#include <cstdio>

namespace {
thread_local char what_text[512] = "";
bool forked = false; // set in a child of one thread
}

namespace onegraph {
void keep_what(const char *text) noexcept {
    std::snprintf(what_text, sizeof what_text, "%s", text);
}

bool threads_are_lost() noexcept {
    return forked;
}
} // namespace onegraph

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
