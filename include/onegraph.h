// onegraph's own C: what the 3.2 headers lack, with upstream's values, and the functions of csrc/.

enum {
    onegraph_op_group_norm = 83, // since 3.6
    onegraph_op_gen_index = 84, // since 3.7
    onegraph_op_greater_equal = 85, // since 3.7
    onegraph_op_rms_norm = 86, // since 3.11
    onegraph_op_dropout = 87, // since 3.12
};

enum {
    onegraph_op_attr_group_shape = 0x4e, // since 3.7
    onegraph_op_attr_accumulation_mode = 0x88, // since 3.10
};

enum {
    onegraph_f8_e5m2 = 9, // since 3.4
    onegraph_f8_e4m3 = 10, // since 3.4
    onegraph_s4 = 11, // since 3.7
    onegraph_u4 = 12, // since 3.7
    onegraph_e8m0 = 13, // since 3.7
    onegraph_f4_e2m1 = 14, // since 3.8
    onegraph_f4_e3m0 = 15, // since 3.8
    onegraph_s64 = 16, // since 3.12
};

// guard: the text of the last C++ exception that a call of this thread threw; "" when it threw none.
const char *onegraph_what(void);

// allocator: 64-byte aligned host memory for the library; a failed request throws, never returns NULL.
void *onegraph_host_allocate(size_t size, size_t alignment);
void onegraph_host_deallocate(void *pointer);
size_t onegraph_host_allocations(void);

// library: path of the file that provides dnnl_version to this extension.
const char *onegraph_library_path(void);
