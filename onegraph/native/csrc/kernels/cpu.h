// What the CPU has, and how the kernels are compiled for it. Its options hold for all that follows.

#pragma once

#include "oneapi/dnnl/dnnl.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

// -O2 leaves loops as they are whose length is not known to be a multiple of a vector.
// No comparison needs its exception, so that both sides of a choice can be computed.
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math")
// A product and a sum are rounded one after the other on every CPU.
#pragma GCC optimize("fp-contract=off")

#define ONEGRAPH_INLINE inline __attribute__((always_inline))

// Fetches memory that is read later into the second cache, which waits for more lines at once than the first one does. The CPU
// itself fetches no further than a page, and hardly at all while it multiplies. Nothing happens at an address without memory.
#define ONEGRAPH_FETCH(address) __builtin_prefetch(address, 0, 2)

namespace onegraph {

#if defined(__x86_64__)
#define ONEGRAPH_AVX2 __attribute__((target("avx2,f16c,fma")))
#define ONEGRAPH_AVX512 __attribute__((target("fma,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")))

inline bool cpu_has_avx2() {
    unsigned a, b, c = 0, d;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

inline bool cpu_has_avx512() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")
            && __builtin_cpu_supports("avx512dq");
}

// Whether the library may use instructions, which ONEDNN_MAX_CPU_ISA limits, and dnnl_set_max_cpu_isa before the first question.
// A set has the bits of those that are part of it.
inline bool may_use(dnnl_cpu_isa_t instructions) {
    return (dnnl_get_effective_cpu_isa() & instructions) == instructions;
}

inline bool has_avx2() {
    static const bool found = cpu_has_avx2() && may_use(dnnl_cpu_isa_avx2);
    return found;
}

inline bool has_avx512() {
    static const bool found = has_avx2() && cpu_has_avx512() && may_use(dnnl_cpu_isa_avx512_core);
    return found;
}

inline bool has_bf16() {
    static const bool found = has_avx512() && __builtin_cpu_supports("avx512bf16") && may_use(dnnl_cpu_isa_avx512_core_bf16);
    return found;
}

inline bool has_vnni() {
    static const bool found = has_avx512() && __builtin_cpu_supports("avx512vnni") && may_use(dnnl_cpu_isa_avx512_core_vnni);
    return found;
}
#else
#define ONEGRAPH_AVX2
#define ONEGRAPH_AVX512

inline bool cpu_has_avx2() {
    return false;
}

inline bool cpu_has_avx512() {
    return false;
}

inline bool has_avx2() {
    return false;
}

inline bool has_avx512() {
    return false;
}

inline bool has_bf16() {
    return false;
}

inline bool has_vnni() {
    return false;
}
#endif

// A function that is inlined, compiled for each instruction set. For a level of onegraph_kernel, `of` is the one for this
// CPU. Three functions may stand for one that differs, as in its number of lanes.
template <auto portable, auto avx2 = portable, auto avx512 = avx2>
struct ForCpu;

template <typename Result, typename... Arguments, Result (*portable)(Arguments...), Result (*avx2)(Arguments...),
        Result (*avx512)(Arguments...)>
struct ForCpu<portable, avx2, avx512> {
    using Function = Result (*)(Arguments...);

    static Result on_any(Arguments... arguments) { return portable(arguments...); }
    ONEGRAPH_AVX2 static Result with_avx2(Arguments... arguments) { return avx2(arguments...); }
    ONEGRAPH_AVX512 static Result with_avx512(Arguments... arguments) { return avx512(arguments...); }

    static Function of(int level = 3) {
        if (level > 1 && has_avx512()) return with_avx512;
        return level > 0 && has_avx2() ? with_avx2 : on_any;
    }
};

} // namespace onegraph
