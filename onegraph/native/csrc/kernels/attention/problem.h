// Scaled dot product attention: what is computed, and the tiles that compute it, compiled once for each instruction set.

#pragma once

#include <cstddef>

#include "guard.h"

namespace onegraph {

// The layout of a tensor (batch, heads, tokens, size). Strides are in bytes, and 0 along a broadcast axis.
struct AttentionTensor {
    dnnl_data_type_t type = dnnl_data_type_undef;
    std::ptrdiff_t batch = 0, head = 0, token = 0, element = 0;
};

// How booleans of a mask act: as minus infinity that is added where they are false, or as a score in the place of others.
enum class Selects { none, where_false, where_true };

// softmax(scale * query @ key.T + mask) @ value. Each head of key and value serves `group` heads of the query. Key and value
// may be codes of 8 bits, which stand for (code - zero) * scale.
//
// The rows of a group, its heads one after another, are computed together in blocks. Query t sees the keys from
// t + past - window + 1 to t + past; `window` and `past` are so large that they hide nothing where nothing is hidden. The
// scores before the mask are softcap * tanh(scores / softcap), if there is a softcap. A mask of booleans may put `hidden` in
// the place of scores, where it is false or where it is true. With
// lengths, each batch has its own number of keys, and if `is_causal`, its last query is at its last key. With sinks, each
// row has the score of a further key, whose value is 0, beside those of all masks and limits.
struct AttentionProblem {
    long batches, heads, group, queries, keys, size, value_size; // `heads`: of key and value
    float scale, softcap, hidden; // the last two times log2(e)
    Selects selects;
    long past, window;
    bool has_mask, has_lengths, is_causal, has_sink, has_logsumexp, is_plain; // `is_plain`: whether a row that sees no key is NaN
    AttentionTensor query, key, value, mask, sink, lengths, dst, logsumexp, grad_dst, grad_query, grad_key, grad_value;
    AttentionTensor key_scale, key_zero, value_scale, value_zero; // of codes, to which they are broadcast

    long rows() const { return group * queries; }
};

// The addresses of the tensors.
struct AttentionMemory {
    char *query, *key, *value, *mask, *sink, *lengths;
    char *key_scale, *key_zero, *value_scale, *value_zero;
    char *dst, *logsumexp; // results of the forward, inputs of the backward
    char *grad_dst, *grad_query, *grad_key, *grad_value;
};

// A block of rows of one group.
struct AttentionBlock {
    long batch, head, begin, end; // of key and value; from row `begin` to row `end`
    long past, keys; // of the batch
};

// The functions for one instruction set.
struct AttentionTiles {
    long block; // the largest number of rows of a block

    // Bytes of memory, aligned to 64, that a thread needs for a block.
    std::size_t (*forward_memory)(const AttentionProblem &);
    std::size_t (*backward_memory)(const AttentionProblem &);
    // Number of f32 in which the gradients of one head of key and value are summed.
    std::size_t (*sums)(const AttentionProblem &);

    void (*forward)(const AttentionProblem &, const AttentionMemory &, const AttentionBlock &, char *memory);
    // Writes the gradient of the query, and adds to the sums of the head.
    void (*backward)(const AttentionProblem &, const AttentionMemory &, const AttentionBlock &, float *sums, char *memory);
    // Writes the gradients of key and value: the sum of `count` sums, which lie one behind another.
    void (*finish)(const AttentionProblem &, const AttentionMemory &, long batch, long head, float *sums, long count);
};

extern const AttentionTiles PORTABLE_TILES;
#if defined(__x86_64__)
extern const AttentionTiles AVX2_TILES, AVX512_TILES, BF16_TILES, AMX_TILES;
#endif

} // namespace onegraph
