// oneapi/dnnl/dnnl.h: only the settings that the graph API shares with the primitive API

dnnl_status_t dnnl_get_primitive_cache_capacity(int *capacity);
dnnl_status_t dnnl_set_primitive_cache_capacity(int capacity);
dnnl_status_t dnnl_set_max_cpu_isa(dnnl_cpu_isa_t isa);
dnnl_cpu_isa_t dnnl_get_effective_cpu_isa(void);
dnnl_status_t dnnl_set_cpu_isa_hints(dnnl_cpu_isa_hints_t isa_hints);
dnnl_cpu_isa_hints_t dnnl_get_cpu_isa_hints(void);
