// onegraph's own declarations: names that the 3.2 headers lack, with upstream's values, and the functions of csrc/.

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
enum {
    onegraph_tensor_property_host_scalar = 3, // since 3.9
};
enum {
    onegraph_dump_mode_none = 0, // since 3.11
    onegraph_dump_mode_subgraph = 1,
    onegraph_dump_mode_graph = 2,
};
// Instruction sets that are newer than 3.2.
enum {
    onegraph_cpu_isa_avx10_2 = 0x201ff, // since 3.9
    onegraph_cpu_isa_avx10_2_amx_2 = 0x22fff, // since 3.9
};

// guard: the status of calls that need the library's threads, in the child of a fork after onegraph_lose_threads. The
// child has none of these threads.
enum {
    onegraph_lost = -3,
};
void onegraph_lose_threads(void);

// guard: call these before and after a fork. The first waits until no thread is in the library, and lets no thread in.
void onegraph_before_fork(void);
void onegraph_after_fork(int in_child);

// guard: the text of the last C++ exception in a call of this thread; "" if there was none.
const char *onegraph_what(void);

// guard: the number of engines of a kind. dnnl_engine_get_count itself has no status to report an exception.
int onegraph_engine_count(dnnl_engine_kind_t kind, size_t *count);

// guard: calls a function that the headers lack. It takes up to 7 numbers and addresses; all 7 are passed, because an
// x86-64 function ignores arguments that it does not have.
int onegraph_call_newer(uintptr_t function, const uintptr_t *arguments);

// allocator: 64-byte aligned host memory for the library. A failed request throws and never returns NULL. Every thread
// keeps some freed blocks for its next requests.
void *onegraph_host_allocate(size_t size, size_t alignment);
void onegraph_host_deallocate(void *pointer);
size_t onegraph_host_allocations(void);
// Gives memory that was freed, and that the C library or this one keeps, back to the system.
void onegraph_trim(void);
int onegraph_allocator_create(dnnl_graph_allocator_t *allocator);
// allocator: empties the library's cache of constants, which also has those of destroyed partitions. Runs prepare their
// constants again. Waits until no other thread is in the library.
int onegraph_flush_constants(void);
// allocator: out_of_memory if the address space is limited, so that prepared constants get no memory.
int onegraph_can_prepare(void);
// allocator: how much memory the prepared constants take, and in how many blocks.
void onegraph_prepared(size_t *bytes, size_t *blocks);

// partition: a template for ops of one kind with the same attributes. The type of a setting is f, i, b or s, for f32,
// s64, bool, str.
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

// partition: adds ops to a graph, and writes the status of each. `names`: the zero-terminated names, one after another.
// `counts`: for each op, the number of inputs and the number of outputs. `tensor_ids`, `places`: for each input and
// output, its id and its index in `tensors`, which have no ids.
int onegraph_graph_add_ops(dnnl_graph_graph_t graph, size_t n_ops, const size_t *ids, onegraph_template_t **templates,
        const char *names, const size_t *counts, const size_t *tensor_ids, const size_t *places,
        const dnnl_graph_logical_tensor_t *tensors, int *statuses);

// partition: writes the numbers of ops, inputs and outputs of a partition to `sizes`, and all their ids to `ids`, one
// after another. Returns invalid_arguments if there are more than `capacity` ids.
int onegraph_partition_ids(dnnl_graph_partition_t partition, size_t *sizes, size_t capacity, size_t *ids);

// partition: a partition to compile `count` times for the same tensors and number of threads. If it `is_bound` to the
// calling thread, the library's cache is not used. Jobs that are `is_exclusive` wait for each other, in all threads.
typedef struct {
    dnnl_graph_partition_t partition;
    size_t n_inputs;
    dnnl_graph_logical_tensor_t **inputs;
    size_t n_outputs;
    dnnl_graph_logical_tensor_t **outputs;
    dnnl_engine_t engine;
    int is_bound;
    int is_exclusive;
    int threads;
    size_t count;
    dnnl_graph_compiled_partition_t *compiled;
    int status; // the result; if it is not success, nothing was compiled
} onegraph_job_t;

// Compiles partitions with at most `most` threads, the calling one included; with that one alone if a job is bound to
// it.
int onegraph_compile(size_t n_jobs, onegraph_job_t *jobs, int most);

// kernels: what a step of a plan runs instead of a compiled partition. Each kernel has a file or a folder in csrc/kernels/,
// and a name; see csrc/kernels/registry.h.
typedef struct onegraph_kernel onegraph_kernel;
// The kernel of a name, or NULL; and the one after another in the list of all, after NULL the first one.
const onegraph_kernel *onegraph_kernel_named(const char *name);
const onegraph_kernel *onegraph_kernel_after(const onegraph_kernel *kernel);
const char *onegraph_kernel_name(const onegraph_kernel *kernel);
// The names of the numbers that it is made for.
const char *onegraph_kernel_numbers(const onegraph_kernel *kernel);
// kernels: casts elements that lie one behind another, if `is_portable` without instructions that some CPUs lack.
void onegraph_cast_elements(dnnl_data_type_t from, const void *source, dnnl_data_type_t to, void *target, size_t count,
        int is_portable);

// kernels/arrays: kernels on dense arrays, by name, for steps that numpy runs.
enum onegraph_type {
    onegraph_type_f32,
    onegraph_type_f64,
    onegraph_type_s8,
    onegraph_type_u8,
    onegraph_type_s16,
    onegraph_type_u16,
    onegraph_type_s32,
    onegraph_type_u32,
    onegraph_type_s64,
    onegraph_type_u64,
    onegraph_type_byte, // of one byte that is moved
    onegraph_type_half, // of two bytes that are moved
};
typedef struct {
    void *data; // NULL for an array that is absent
    int type;
    int rank;
    const int64_t *dims;
} onegraph_array_t;
typedef struct onegraph_array_kernel onegraph_array_kernel;
// NULL if there is none of this name.
const onegraph_array_kernel *onegraph_array_kernel_named(const char *name);
// Runs a kernel on at most `limit` threads; 0 takes the caller's OpenMP setting. `arrays`: inputs, then outputs. `answer`:
// three numbers that the kernel writes. Returns a dnnl_status_t or onegraph_bad_index, with the array that has the index,
// its place there and the index in `answer`; the outputs are then undefined.
int onegraph_array_run(const onegraph_array_kernel *kernel, size_t count, const onegraph_array_t *arrays,
        const double *numbers, int limit, int64_t *answer);

// plan: steps that are executed one after another, on tensors in slots of memory; one run at a time.
typedef struct onegraph_plan onegraph_plan;

typedef struct {
    dnnl_graph_compiled_partition_t partition; // NULL for a kernel
    size_t n_inputs;
    size_t n_outputs;
    dnnl_graph_logical_tensor_t **tensors; // inputs, then outputs
    int threads; // 0: all threads of the run
    int keeps; // whether the library keeps constants of the step that it finds by a hash
    const onegraph_kernel *kernel; // NULL for a partition
    const int *code; // the numbers of the kernel
    size_t n_code;
    int prepares; // whether the first execution may prepare constants, in memory that stays
    size_t room; // where the slot 0 has memory that no tensor uses meanwhile, and how many bytes
    size_t room_size;
    dnnl_graph_compiled_partition_t alone; // the partition for one thread, which runs beside other programs; or NULL
} onegraph_step_t;

// open_kernels: fills in `tensors`, whose ranks are known, of `numbers`: the dims of all of them, then the strides, then
// `codes`. `pointers` are those of the tensors `ends`. `starts`: for each step, where its pointers and its codes begin.
// Returns dnnl_invalid_arguments if a tensor or a number is too large, or a tensor runs backwards.
int onegraph_kernels_fill(size_t n_tensors, dnnl_graph_logical_tensor_t *tensors, const int64_t *numbers, size_t n_codes,
        int *codes, size_t n_ends, const int64_t *ends, dnnl_graph_logical_tensor_t **pointers, size_t n_steps,
        const int64_t *starts, onegraph_step_t *steps);

// memory_plan: places pieces of memory in one block. A piece is written by step `starts`, and used last by step `ends`; the
// pieces are ordered by `starts`. It takes the place of the piece `sources`, unless that is -1, if the step that writes it is
// the last to use the other one, and their sizes are equal. Otherwise it takes the smallest free gap that holds it, or
// grows the block. Writes the offset of each piece, the size of the block, and for each step the start and the size of the
// largest part that no piece uses meanwhile.
int onegraph_plan_memory(size_t n, const int64_t *sizes, const int64_t *starts, const int64_t *ends, const int64_t *sources,
        size_t n_steps, int64_t *offsets, int64_t *rooms, int64_t *size);

// Makes the kernel of a step, and runs it once on tensors at these addresses.
int onegraph_kernel_run(const onegraph_step_t *step, void *const *addresses);

// Pages of a mapped file that are given back after the first execution of a step.
typedef struct {
    size_t step;
    void *address;
    size_t size;
} onegraph_pages_t;

// These functions return a dnnl_status_t or one of these values.
enum {
    onegraph_busy = -1, // another run uses the plan
    onegraph_misaligned = -2, // an address is not a multiple of its slot's alignment; nothing was run
    onegraph_moved = -4, // the memory of an array has moved since the binding; nothing was run
    onegraph_bad_index = -5, // an index is out of range
    onegraph_wrong_contents = -6, // a kernel refuses the contents of a tensor
};

// `slots`, `offsets`: for each tensor of each step, in order, its slot and its offset in bytes. `limit`: the maximum
// number of threads of a run; 0 takes the caller's OpenMP setting, which is always restored. `bound`: whether only the
// thread that compiled the steps can run them. `alignment`: the minimum alignment of every slot, in bytes. `pages`: ordered
// by step. `n_last`: the number of steps at the end that onegraph_plan_finish executes; all are kernels. Copies its
// arguments.
int onegraph_plan_create(onegraph_plan **plan, dnnl_engine_t engine, dnnl_stream_t stream, int limit, int bound, size_t alignment,
        size_t n_steps, const onegraph_step_t *steps, size_t n_places, const size_t *slots, const size_t *offsets, size_t n_slots,
        size_t n_pages, const onegraph_pages_t *pages, size_t n_last);
int onegraph_plan_destroy(onegraph_plan *plan);
// Memory for the intermediates of runs, which plans share: each run takes a block, and gives it back at its end.
typedef struct onegraph_arenas onegraph_arenas;
int onegraph_arenas_create(onegraph_arenas **arenas);
int onegraph_arenas_destroy(onegraph_arenas *arenas);
// Lets each run of a plan take `size` bytes for slot 0, until this slot is bound.
int onegraph_plan_share(onegraph_plan *plan, onegraph_arenas *arenas, size_t size);
int onegraph_plan_bind(onegraph_plan *plan, size_t slot, void *address);
// Lets each finish of a run change the number at `turn` from 0 to 1 or back; NULL ends that.
int onegraph_plan_exchange(onegraph_plan *plan, int *turn);
// Executes the last steps, and changes the number. Fails before it changes anything, or not at all.
int onegraph_plan_finish(onegraph_plan *plan);
// Writes back what the steps before the last ones have written over variables, if no finish was since.
int onegraph_plan_take_back(onegraph_plan *plan);
// The two hottest functions take the plan as an integer, because cffi converts an integer faster than a pointer.
int onegraph_plan_run(uintptr_t plan);
// Binds the slots 1 to `n_slots`, then runs.
int onegraph_plan_call(uintptr_t plan, size_t n_slots, void *const *addresses);
// The memory of a slot in each iteration of a loop: `first` in iteration 0. In iteration n it is n - 1 times `step` bytes
// behind `odd` or `even`, as n is.
typedef struct {
    size_t slot;
    uintptr_t first, odd, even;
    ptrdiff_t step;
} onegraph_moving_t;

// Runs the iterations from `begin` up to, but not including, `end`, until `enough` nanoseconds have passed, or until the
// byte in the memory of the last of the `n` slots is 0 after an iteration, if `goes` is set. `done`: the iteration that
// would be the next one.
int onegraph_plan_repeat(uintptr_t plan, size_t begin, size_t end, size_t n, const onegraph_moving_t *slots, int goes,
        int64_t enough, size_t *done);
int onegraph_plan_run_steps(onegraph_plan *plan, size_t first, size_t last, int64_t *nanoseconds);
// Runs until `enough` nanoseconds have passed, but at most `most` times. Writes the nanoseconds of each run, and adds
// the number of runs to `count`.
int onegraph_plan_sample(onegraph_plan *plan, int64_t enough, size_t most, int64_t *nanoseconds, size_t *count);
// Writes the least time of each step, or -1 if another program keeps its threads from running side by side. Steps that
// take less than `enough` nanoseconds run several times.
int onegraph_plan_measure(onegraph_plan *plan, int64_t enough, int64_t *nanoseconds);
// Executes each step that keeps constants for the first time. Writes the bytes that the library keeps of each step; -1
// if it took the constants of another partition.
int onegraph_plan_prepare(onegraph_plan *plan, int64_t *bytes);
// Sets the calling thread's number of OpenMP threads; always 1 in the thread that continues in the child of a fork.
// Does nothing without OpenMP.
int onegraph_restore_threads(int count);
// Call this in the child of a fork: from then on, runs of this thread use one thread.
void onegraph_forked(void);

// watch: memory whose changes are noticed, whoever makes them and however.
typedef struct onegraph_watch onegraph_watch;
// Notes the contents of `count` pieces of memory, which must stay readable while the watch is asked. Returns a
// dnnl_status_t.
int onegraph_watch_create(onegraph_watch **watch, size_t count, void *const *addresses, const size_t *sizes, int threads);
void onegraph_watch_destroy(onegraph_watch *watch);
// Whether the contents are other ones now. Writes of the same contents are no change. Takes the watch as an integer.
int onegraph_watch_changed(uintptr_t watch, int threads);
// The bytes that each question reads, because the system does not tell whether they were written.
size_t onegraph_watch_bytes(const onegraph_watch *watch);

// library: path of the file that provides dnnl_version to this extension.
const char *onegraph_library_path(void);

// file_digest: the sizes in bytes of the parts of a file that have digests of their own, and of a digest.
enum {
    onegraph_digest_chunk = 4194304,
    onegraph_digest_size = 64,
};
// file_digest: writes the digest of each chunk of `size` bytes at `offset` of a file, on at most `threads` threads. `memory`:
// where the whole file is mapped, whose pages are given back; 0 to read it. Returns 0, or the number of an error of the
// system; EIO if the file is shorter.
int onegraph_digest(int descriptor, uintptr_t memory, size_t offset, size_t size, int threads, void *digests);
// file_digest: writes the digest of each file, and the last time in nanoseconds since 1970 at which one of them changed.
// `paths`: zero-terminated, one after another.
int onegraph_digest_files(size_t count, const char *paths, void *digests, long long *changed);
