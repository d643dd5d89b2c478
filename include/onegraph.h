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
// Instruction sets that are newer than 3.2.
enum {
    onegraph_cpu_isa_avx10_2 = 0x201ff, // since 3.9
    onegraph_cpu_isa_avx10_2_amx_2 = 0x22fff, // since 3.9
};

// guard: what calls that need the library's threads return in the child of a fork, which has none of them, once
// onegraph_lose_threads was called there.
enum {
    onegraph_lost = -3,
};
void onegraph_lose_threads(void);

// guard: to be called around a fork. The first waits until no thread is in the library and lets none in.
void onegraph_before_fork(void);
void onegraph_after_fork(int in_child);

// guard: the text of the last C++ exception that a call of this thread threw; "" when it threw none.
const char *onegraph_what(void);

// guard: the number of engines of a kind; dnnl_engine_get_count itself has no status for an exception.
int onegraph_engine_count(dnnl_engine_kind_t kind, size_t *count);

// guard: calls a function that the headers lack, which takes a kind of engine, and a number or the address of one.
int onegraph_call_newer(uintptr_t function, dnnl_engine_kind_t kind, size_t argument);

// allocator: 64-byte aligned host memory for the library; a failed request throws, never returns NULL. Every thread
// keeps some of what it frees for its next requests.
void *onegraph_host_allocate(size_t size, size_t alignment);
void onegraph_host_deallocate(void *pointer);
size_t onegraph_host_allocations(void);

// partition: ops of one kind with the same attributes; of a setting the type is f, i, b or s, for f32, s64, bool, str.
typedef struct {
    int attribute;
    char type;
    const void *value;
    size_t length;
} onegraph_setting_t;

typedef struct {
    int kind;
    size_t n_settings;
    const onegraph_setting_t *settings;
} onegraph_template_t;

// partition: adds ops to a graph, and tells the status of each. `names`: one after another, each with its zero.
// `counts`: for each op the number of inputs and that of outputs. For each of these its id, and its place in `tensors`,
// which are without ids.
int onegraph_graph_add_ops(dnnl_graph_graph_t graph, size_t n_ops, const size_t *ids, onegraph_template_t **templates,
        const char *names, const size_t *counts, const size_t *tensor_ids, const size_t *places,
        const dnnl_graph_logical_tensor_t *tensors, int *statuses);

// partition: how many ops, inputs and outputs a partition has, in `sizes`, and the ids of them all, one after another.
// Answers with invalid_arguments where these are more than `capacity`.
int onegraph_partition_ids(dnnl_graph_partition_t partition, size_t *sizes, size_t capacity, size_t *ids);

// partition: compiles a partition `count` times for the same tensors, past the cache of the library where it `is_bound`
// to the thread; tells the status, and has made none where that is not success.
int onegraph_partition_compile(dnnl_graph_partition_t partition, size_t n_inputs, dnnl_graph_logical_tensor_t **inputs,
        size_t n_outputs, dnnl_graph_logical_tensor_t **outputs, dnnl_engine_t engine, int is_bound, size_t count,
        dnnl_graph_compiled_partition_t *compiled, int *status);

// plan: compiled partitions executed one after another on tensors in slots of memory; one run at a time.
typedef struct onegraph_plan onegraph_plan;

typedef struct {
    dnnl_graph_compiled_partition_t partition;
    size_t n_inputs;
    size_t n_outputs;
    dnnl_graph_logical_tensor_t **tensors; // inputs, then outputs
    int threads; // 0: as many as the run may use
} onegraph_step_t;

// What these functions return beside a dnnl_status_t.
enum {
    onegraph_busy = -1, // the plan is in a run
    onegraph_misaligned = -2, // an address is no multiple of the alignment of its slot; nothing was run
    onegraph_moved = -4, // an array has other memory than when it was bound; nothing was run
};

// `slots`, `offsets`: where the tensors of all steps lie, in the order of the steps, and how many bytes from the start of
// the slot. `limit`: number of threads of a run at most; 0 leaves it to the caller's OpenMP setting, which is always
// restored. `bound`: whether only the thread that compiled the steps can run them. `alignment`: that of every slot at
// least, in bytes. Copies what it is given.
int onegraph_plan_create(onegraph_plan **plan, dnnl_engine_t engine, dnnl_stream_t stream, int limit, int bound, size_t alignment,
        size_t n_steps, const onegraph_step_t *steps, size_t n_places, const size_t *slots, const size_t *offsets, size_t n_slots);
int onegraph_plan_destroy(onegraph_plan *plan);
int onegraph_plan_bind(onegraph_plan *plan, size_t slot, void *address);
// The two that are called most take the plan as an integer: cffi converts that in a fraction of the time.
int onegraph_plan_run(uintptr_t plan);
// Binds the slots from 1 on, then runs.
int onegraph_plan_call(uintptr_t plan, size_t n_slots, void *const *addresses);
int onegraph_plan_run_steps(onegraph_plan *plan, size_t first, size_t last, int64_t *nanoseconds);
// Runs until `enough` nanoseconds have gone, `most` times at most; each run takes so many nanoseconds, and there are `count`.
int onegraph_plan_sample(onegraph_plan *plan, int64_t enough, size_t most, int64_t *nanoseconds, size_t *count);
// The least time of each step, -1 where a busy neighbour keeps its threads from running side by side. Steps that take
// less than `enough` nanoseconds are run several times.
int onegraph_plan_measure(onegraph_plan *plan, int64_t enough, int64_t *nanoseconds);
// Sets the number of threads of the calling thread; 1 where it has come out of a fork. Does nothing without OpenMP.
int onegraph_restore_threads(int count);
// To be called in the child of a fork: from now on runs of this thread use one thread.
void onegraph_forked(void);

// library: path of the file that provides dnnl_version to this extension.
const char *onegraph_library_path(void);
