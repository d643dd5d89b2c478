#include <dlfcn.h>

#include "guard.h"

extern "C" const char *onegraph_library_path(void) {
    // The file that this extension really calls. If the process already has a library with the same soname, the loader
    // uses that library instead of the requested file.
    Dl_info info;
    return dladdr(reinterpret_cast<void *>(&dnnl_version), &info) && info.dli_fname ? info.dli_fname : "";
}
