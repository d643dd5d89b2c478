// oneapi/dnnl/dnnl_common.h

dnnl_status_t dnnl_engine_create(dnnl_engine_t *engine, dnnl_engine_kind_t kind, size_t index);
dnnl_status_t dnnl_engine_get_kind(dnnl_engine_t engine, dnnl_engine_kind_t *kind);
dnnl_status_t dnnl_engine_destroy(dnnl_engine_t engine);

dnnl_status_t dnnl_stream_create(dnnl_stream_t *stream, dnnl_engine_t engine, unsigned flags);
dnnl_status_t dnnl_stream_get_engine(const_dnnl_stream_t stream, dnnl_engine_t *engine);
dnnl_status_t dnnl_stream_wait(dnnl_stream_t stream);
dnnl_status_t dnnl_stream_destroy(dnnl_stream_t stream);

dnnl_status_t dnnl_get_default_fpmath_mode(dnnl_fpmath_mode_t *mode);
dnnl_status_t dnnl_set_default_fpmath_mode(dnnl_fpmath_mode_t mode);
dnnl_status_t dnnl_set_verbose(int level);
const dnnl_version_t *dnnl_version(void);
