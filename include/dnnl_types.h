// oneapi/dnnl/dnnl_types.h: only the instruction sets

typedef enum {
    dnnl_cpu_isa_default,
    dnnl_cpu_isa_sse41,
    dnnl_cpu_isa_avx,
    dnnl_cpu_isa_avx2,
    dnnl_cpu_isa_avx2_vnni,
    dnnl_cpu_isa_avx2_vnni_2,
    dnnl_cpu_isa_avx512_core,
    dnnl_cpu_isa_avx512_core_vnni,
    dnnl_cpu_isa_avx512_core_bf16,
    dnnl_cpu_isa_avx512_core_fp16,
    dnnl_cpu_isa_avx512_core_amx,
    dnnl_cpu_isa_avx512_core_amx_fp16,
    ...
} dnnl_cpu_isa_t;

typedef enum {
    dnnl_cpu_isa_no_hints,
    dnnl_cpu_isa_prefer_ymm,
    ...
} dnnl_cpu_isa_hints_t;
