// oneapi/dnnl/dnnl_common_types.h, as cffi reads it. The compiler fills in values and sizes.

typedef enum {
    dnnl_success,
    dnnl_out_of_memory,
    dnnl_invalid_arguments,
    dnnl_unimplemented,
    dnnl_last_impl_reached,
    dnnl_runtime_error,
    dnnl_not_required,
    dnnl_invalid_graph,
    dnnl_invalid_graph_op,
    dnnl_invalid_shape,
    dnnl_invalid_data_type,
    ...
} dnnl_status_t;

typedef enum {
    dnnl_data_type_undef,
    dnnl_f16,
    dnnl_bf16,
    dnnl_f32,
    dnnl_s32,
    dnnl_s8,
    dnnl_u8,
    dnnl_f64,
    dnnl_boolean,
    ...
} dnnl_data_type_t;

#define DNNL_MAX_NDIMS ...
typedef int64_t dnnl_dim_t;
typedef dnnl_dim_t dnnl_dims_t[...];

typedef enum {
    dnnl_fpmath_mode_strict,
    dnnl_fpmath_mode_bf16,
    dnnl_fpmath_mode_f16,
    dnnl_fpmath_mode_any,
    dnnl_fpmath_mode_tf32,
    ...
} dnnl_fpmath_mode_t;

typedef enum {
    dnnl_any_engine,
    dnnl_cpu,
    dnnl_gpu,
    ...
} dnnl_engine_kind_t;

typedef struct dnnl_engine *dnnl_engine_t;

typedef enum {
    dnnl_stream_in_order,
    dnnl_stream_out_of_order,
    dnnl_stream_default_flags,
    ...
} dnnl_stream_flags_t;

typedef struct dnnl_stream *dnnl_stream_t;
typedef const struct dnnl_stream *const_dnnl_stream_t;

typedef struct {
    int major;
    int minor;
    int patch;
    const char *hash;
    unsigned cpu_runtime;
    unsigned gpu_runtime;
    ...;
} dnnl_version_t;
