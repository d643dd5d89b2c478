#include <dlfcn.h>

#include "guard.h"

extern "C" const char *onegraph_library_path(void) {
    // The file that the calls of this extension really go to: a library of the same soname that was in the process
    // before is taken by the loader instead of the one that was asked for.
    Dl_info info;
    return dladdr(reinterpret_cast<void *>(&dnnl_version), &info) && info.dli_fname ? info.dli_fname : "";
}
