#include "guard.h"

#include <cstdio>

namespace {
thread_local char what_text[512] = "";
}

namespace onegraph {
void keep_what(const char *text) noexcept {
    std::snprintf(what_text, sizeof what_text, "%s", text);
}
} // namespace onegraph

extern "C" const char *onegraph_what(void) {
    // Reading empties it, so that a later failure without an exception is not given this text.
    thread_local char last[sizeof what_text];
    std::snprintf(last, sizeof last, "%s", what_text);
    what_text[0] = '\0';
    return last;
}
