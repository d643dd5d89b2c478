// Divides attention and its gradient into blocks of rows for threads.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "problem.h"

#include "../amx.h"
#include "../registry.h"
#include "../shares.h"

#include "../sizes.h"

namespace onegraph {
namespace {

constexpr std::size_t ALIGNMENT = 64;

// Memory that is freed at the end of a run.
class Scratch {
public:
    explicit Scratch(std::size_t size) : memory_(static_cast<char *>(onegraph_host_allocate(std::max<std::size_t>(size, 1), ALIGNMENT))) {}
    ~Scratch() { onegraph_host_deallocate(memory_); }
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;

    char *at(std::size_t place) const { return memory_ + place; }

private:
    char *memory_;
};

bool is_code(dnnl_data_type_t type) {
    return type == dnnl_s8 || type == dnnl_u8;
}

// The tiles for a data type on this CPU.
const AttentionTiles &tiles_for(dnnl_data_type_t type, int level) {
#if defined(__x86_64__)
    if (type == dnnl_bf16 && level > 3 && has_tiles()) return AMX_TILES;
    if (type == dnnl_bf16 && level > 2 && has_bf16()) return BF16_TILES;
    if (level > 1 && has_avx512()) return AVX512_TILES;
    if (level > 0 && has_avx2()) return AVX2_TILES;
#endif
    return PORTABLE_TILES;
}

// The dims of a port, and whether those of a tensor may be 1 or left out instead.
struct AttentionShape {
    long dims[4];
    bool is_broadcast;
};

AttentionShape shape_of(AttentionTensor AttentionProblem::*port, const AttentionProblem &p) {
    using P = AttentionProblem;
    const long heads = p.heads * p.group;
    if (port == &P::query || port == &P::grad_query) return {{p.batches, heads, p.queries, p.size}, false};
    if (port == &P::key || port == &P::grad_key) return {{p.batches, p.heads, p.keys, p.size}, false};
    if (port == &P::value || port == &P::grad_value) return {{p.batches, p.heads, p.keys, p.value_size}, false};
    if (port == &P::key_scale || port == &P::key_zero) return {{p.batches, p.heads, p.keys, p.size}, true};
    if (port == &P::value_scale || port == &P::value_zero) return {{p.batches, p.heads, p.keys, p.value_size}, true};
    if (port == &P::mask) return {{p.batches, heads, p.queries, p.keys}, true};
    if (port == &P::sink) return {{p.batches, heads, p.queries, 1}, true};
    if (port == &P::lengths) return {{p.batches}, false};
    return {{p.batches, heads, p.queries, p.value_size}, false}; // without the last axis, also those of the logsumexp
}

// Tiles of bf16 take all that they multiply for bf16.
bool has_type(AttentionTensor AttentionProblem::*port, dnnl_data_type_t type, dnnl_data_type_t query) {
    using P = AttentionProblem;
    if (port == &P::key || port == &P::value || port == &P::query || port == &P::grad_dst)
        return is_float(type) ? type == query || query != dnnl_bf16 : port != &P::query && is_code(type);
    if (port == &P::key_scale || port == &P::value_scale || port == &P::sink || port == &P::logsumexp) return type == dnnl_f32;
    if (port == &P::key_zero || port == &P::value_zero) return is_code(type) || type == dnnl_s32 || is_float(type);
    if (port == &P::lengths) return is_long(type);
    return is_float(type) || (port == &P::mask && type == dnnl_boolean);
}

// `first`: the axis of the shape that is the first one of the tensor.
bool fits(const dnnl_graph_logical_tensor_t &tensor, const AttentionShape &shape, std::size_t first, std::size_t rank) {
    const auto given = static_cast<std::size_t>(tensor.ndims);
    if (given > rank || first > rank - given || (!shape.is_broadcast && given != rank)) return false;
    for (std::size_t axis = 0; axis < given; axis++)
        if (const long dim = tensor.dims[axis]; dim != shape.dims[first + axis] && !(shape.is_broadcast && dim == 1)) return false;
    return true;
}

// `first`: the axis of (batch, heads, tokens, size) that is the first one of the tensor.
AttentionTensor described(const dnnl_graph_logical_tensor_t &tensor, std::size_t first) {
    std::ptrdiff_t strides[4] = {};
    const auto size = static_cast<std::ptrdiff_t>(size_of(tensor.data_type));
    for (int axis = 0; axis < tensor.ndims; axis++)
        if (tensor.dims[axis] > 1) strides[first + static_cast<std::size_t>(axis)] = tensor.layout.strides[axis] * size;
    return {tensor.data_type, strides[0], strides[1], strides[2], strides[3]};
}

// Calls `function` with the members and the rank of each tensor, in the order of the ports.
template <typename Function>
void for_each_port(bool is_backward, const AttentionProblem &p, const Function &function) {
    using P = AttentionProblem;
    using M = AttentionMemory;
    function(&P::query, &M::query, 4), function(&P::key, &M::key, 4), function(&P::value, &M::value, 4);
    if (is_code(p.key.type)) function(&P::key_scale, &M::key_scale, 4), function(&P::key_zero, &M::key_zero, 4);
    if (is_code(p.value.type)) function(&P::value_scale, &M::value_scale, 4), function(&P::value_zero, &M::value_zero, 4);
    if (p.has_lengths) function(&P::lengths, &M::lengths, 1);
    if (!is_backward && p.has_mask) function(&P::mask, &M::mask, 4);
    if (p.has_sink) function(&P::sink, &M::sink, 4);
    function(&P::dst, &M::dst, 4);
    if (p.has_logsumexp) function(&P::logsumexp, &M::logsumexp, 3);
    if (!is_backward) return;
    function(&P::grad_dst, &M::grad_dst, 4);
    if (p.has_mask) function(&P::mask, &M::mask, 4);
    function(&P::grad_query, &M::grad_query, 4), function(&P::grad_key, &M::grad_key, 4);
    function(&P::grad_value, &M::grad_value, 4);
}

// Scaled dot product attention, or its gradient, with memory that is linear in the numbers of queries and keys.
//
// Tensors, each (batch, heads, tokens, size) with any strides: query, key, value, and a mask that is broadcast to the
// scores; dst, and its logsumexp without the last axis. The gradient takes query, key, value, dst, logsumexp, grad_dst and
// the mask, and gives the gradients of query, key and value. A row that sees no key is 0, and its logsumexp minus infinity.
//
// Keys, values or both may be codes of s8 or u8. Behind the values then come the scales, in f32, and the zero points of the
// keys, and those of the values, each of which is broadcast to the codes. There is no gradient of codes. key_axis and
// value_axis: the axis of the codes along which scales and zero points of one axis run.
//
// softcap: the limit of the scores before the mask; 0 for none. selects: where a mask of booleans puts the score `hidden`.
// sink: behind the mask come scores of f32 that are broadcast to (batch, heads, queries, 1). They are those of a further key of
// each row, whose value is 0, which nothing limits or hides. The logsumexp has them, too.
// plain: a row without a finite score is NaN, as of a SoftMax, and all keys are seen.
// lengths: the numbers of keys of each batch. causal: query t sees no key behind t + past, where past follows from lengths
// if there are some. window: the number of last keys that a query sees; 0 for all.
class Attention : public Runnable {
public:
    explicit Attention(const KernelArguments &arguments);

    // The gradients are bit-equal for equal numbers of threads, dst for any number.
    void run(void *const *addresses, int threads) const override;

private:
    AttentionBlock block(const AttentionMemory &memory, long head, long begin) const;
    int threads_for(const AttentionMemory &memory, int threads) const;
    void forward(const AttentionMemory &memory, int threads) const;
    void backward(const AttentionMemory &memory, int threads) const;

    bool is_backward_;
    const AttentionTiles *tiles_;
    AttentionProblem problem_ {};
};

Attention::Attention(const KernelArguments &arguments) : is_backward_(arguments.flag("backward")), tiles_(nullptr) {
    AttentionProblem &p = problem_;
    p.has_mask = arguments.flag("mask"), p.has_sink = arguments.flag("sink"), p.has_lengths = arguments.flag("lengths");
    p.is_causal = arguments.flag("causal");
    auto tensors = arguments.tensors;
    if (arguments.n_inputs < 3) throw std::invalid_argument("wrong number of tensors");
    p.key.type = tensors[1]->data_type, p.value.type = tensors[2]->data_type;
    const bool has_codes = is_code(p.key.type) || is_code(p.value.type);
    const std::size_t codes = 2u * is_code(p.key.type) + 2u * is_code(p.value.type);
    const std::size_t inputs = (is_backward_ ? 6u : 3u) + codes + p.has_mask + p.has_sink + p.has_lengths;
    const std::size_t outputs = arguments.count - arguments.n_inputs;
    if (arguments.n_inputs != inputs || (is_backward_ && has_codes) || (is_backward_ ? outputs != 3 : outputs != 1 && outputs != 2))
        throw std::invalid_argument("wrong number of tensors");
    const auto &query = *tensors[0], &key = *tensors[1], &value = *tensors[2];
    if (query.ndims != 4 || key.ndims != 4 || value.ndims != 4 || key.dims[1] < 1 || query.dims[1] % key.dims[1] != 0)
        throw std::invalid_argument("other axes than those of an attention");
    p.batches = query.dims[0], p.heads = key.dims[1], p.group = query.dims[1] / key.dims[1];
    p.queries = query.dims[2], p.keys = key.dims[2], p.size = query.dims[3], p.value_size = value.dims[3];
    constexpr float LOG2E = 0x1.715476p+0f;
    p.selects = static_cast<Selects>(arguments.number("selects"));
    p.softcap = arguments.real("softcap") * LOG2E;
    const float hidden = arguments.real("hidden");
    p.hidden = std::isinf(hidden) ? hidden : std::max(hidden, -std::numeric_limits<float>::max() / LOG2E) * LOG2E;
    p.scale = arguments.real("scale"), p.is_plain = arguments.flag("plain");
    p.past = p.is_causal ? arguments.number("past") : p.keys;
    p.window = arguments.flag("window") ? arguments.number("window") : p.queries + p.past + p.keys;
    p.has_logsumexp = is_backward_ || outputs == 2;
    using P = AttentionProblem;
    for_each_port(is_backward_, p, [&](AttentionTensor P::*tensor, char *AttentionMemory::*, std::size_t rank) {
        const dnnl_graph_logical_tensor_t &given = **tensors++;
        std::size_t first = rank - static_cast<std::size_t>(given.ndims);
        if (given.ndims == 1 && (tensor == &P::key_scale || tensor == &P::key_zero)) first = arguments.size("key_axis");
        if (given.ndims == 1 && (tensor == &P::value_scale || tensor == &P::value_zero)) first = arguments.size("value_axis");
        if (!has_type(tensor, given.data_type, query.data_type)) throw std::invalid_argument("no kernel for these data types");
        if (!fits(given, shape_of(tensor, p), first, rank)) throw std::invalid_argument("other sizes than those of an attention");
        p.*tensor = described(given, first);
    });
    if (p.selects != Selects::none && (is_backward_ || !p.has_mask || p.mask.type != dnnl_boolean))
        throw std::invalid_argument("a mask that cannot select");
    if (is_backward_ && (p.softcap != 0 || p.has_sink)) throw std::invalid_argument("a gradient of limited scores or of sinks");
    tiles_ = &tiles_for(has_codes ? dnnl_f32 : query.data_type, arguments.number("level"));
}

void Attention::run(void *const *addresses, int threads) const {
    AttentionMemory memory {};
    for_each_port(is_backward_, problem_, [&](AttentionTensor AttentionProblem::*, char *AttentionMemory::*address, std::size_t) {
        memory.*address = static_cast<char *>(*addresses++);
    });
    if (is_backward_)
        backward(memory, std::max(threads, 1));
    else
        forward(memory, std::max(threads, 1));
}

// The rows of a head from `begin` on.
AttentionBlock Attention::block(const AttentionMemory &memory, long head, long begin) const {
    const AttentionProblem &p = problem_;
    AttentionBlock made {head / p.heads, head % p.heads, begin, std::min(begin + tiles_->block, p.rows()), p.past, p.keys};
    if (!p.has_lengths) return made;
    made.keys = reinterpret_cast<const std::int64_t *>(memory.lengths)[made.batch];
    if (p.is_causal) made.past = std::max(made.keys - p.queries, 0l);
    return made;
}

// As many threads as the keys of all batches are worth. Throws if a batch has more keys than there are.
int Attention::threads_for(const AttentionMemory &memory, int threads) const {
    const AttentionProblem &p = problem_;
    std::int64_t keys = 0;
    for (long i = 0; i < p.batches; i++) {
        const std::int64_t length = reinterpret_cast<const std::int64_t *>(memory.lengths)[i];
        if (length < 0 || length > p.keys)
            throw WrongContents("Attention: lengths: " + std::to_string(length) + " of row " + std::to_string(i)
                    + "; expected numbers from 0 to " + std::to_string(p.keys) + ", the keys");
        keys += std::min<std::int64_t>(length, p.window + p.queries);
    }
    const std::int64_t products = keys * p.heads * p.rows() * (p.size + p.value_size);
    return static_cast<int>(std::clamp<std::int64_t>(products / static_cast<std::int64_t>(4 * SHARE), 1, threads));
}

void Attention::forward(const AttentionMemory &memory, int threads) const {
    const AttentionProblem &p = problem_;
    if (p.has_lengths) threads = threads_for(memory, threads);
    const long heads = p.batches * p.heads, blocks = (p.rows() + tiles_->block - 1) / tiles_->block;
    const std::size_t size = tiles_->forward_memory(p);
    const int used = static_cast<int>(std::min<long>(threads, heads * blocks));
    const Scratch scratch(size * static_cast<std::size_t>(used));
    std::atomic<long> taken {0};
    together(used, [&](std::size_t thread) {
        for (long i; (i = taken++) < heads * blocks;) {
            const long head = i / blocks, begin = (blocks - 1 - i % blocks) * tiles_->block; // causal: the longest first
            tiles_->forward(p, memory, block(memory, head, begin), scratch.at(size * thread));
        }
    });
}

// Into how many parts to divide the rows of each head, so that the threads have about equal work.
long parts_for(long heads, long blocks, int threads) {
    long parts = 1;
    const auto is_balanced = [&] {
        const long items = heads * parts, rounds = (items + threads - 1) / threads;
        return items * 10 >= rounds * threads * 9;
    };
    while (parts < blocks && !is_balanced())
        parts++;
    return parts;
}

void Attention::backward(const AttentionMemory &memory, int threads) const {
    const AttentionProblem &p = problem_;
    const long heads = p.batches * p.heads, blocks = (p.rows() + tiles_->block - 1) / tiles_->block;
    const long parts = parts_for(heads, blocks, threads);
    const auto used = static_cast<std::size_t>(std::min<long>(threads, heads * parts));
    const std::size_t size = tiles_->backward_memory(p), sums = tiles_->sums(p);
    // A head in one part is finished by its thread, which uses the memory of the sums again.
    const std::size_t kept = parts == 1 ? used : static_cast<std::size_t>(heads * parts);
    const Scratch scratch(size * used), all_sums(kept * sums * sizeof(float));
    std::atomic<long> taken {0}, finished {0};
    const auto sums_of = [&](std::size_t place) { return reinterpret_cast<float *>(all_sums.at(place * sums * sizeof(float))); };
    together(static_cast<int>(used), [&](std::size_t thread) {
        for (long i; (i = taken++) < heads * parts;) {
            const long head = i / parts;
            float *const found = sums_of(parts == 1 ? thread : static_cast<std::size_t>(i));
            std::fill_n(found, sums, 0.0f);
            for (long begin = i % parts * tiles_->block; begin < p.rows(); begin += parts * tiles_->block) {
                tiles_->backward(p, memory, block(memory, head, begin), found, scratch.at(size * thread));
            }
            if (parts == 1) tiles_->finish(p, memory, head / p.heads, head % p.heads, found, 1);
        }
    });
    if (parts == 1) return;
    together(static_cast<int>(used), [&](std::size_t) {
        for (long head; (head = finished++) < heads;)
            tiles_->finish(p, memory, head / p.heads, head % p.heads, sums_of(static_cast<std::size_t>(head * parts)), parts);
    });
}

const Registered<Attention> ATTENTION {
        "attention", "backward, mask, sink, lengths, causal, past, window, scale: f32, softcap: f32, hidden: f32, "
        "selects: none|where_false|where_true, plain, key_axis, value_axis, level"};

} // namespace
} // namespace onegraph
