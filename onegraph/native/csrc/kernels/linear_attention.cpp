// Linear attention, whose state is a matrix for each head: a token adds the product of its key and its value.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "registry.h"
#include "shares.h"

#include "floats.h"

namespace onegraph {
namespace {

// The columns of a state do not depend on each other. A task has this many of one head, for all tokens, so that they stay in
// a cache near the core.
constexpr std::size_t COLUMNS = 64;
constexpr std::size_t TOGETHER = 4; // vectors of a row
constexpr std::size_t PARTS = 2; // sums that take rows in turn, so that an addition need not wait for the one before

template <std::size_t LANES>
struct Lanes {
    typedef float Vector __attribute__((vector_size(LANES * sizeof(float))));
};

// The numbers of one head and some columns. A stride leads from a token to the next one; that of a result and a state from
// a row to the next one too. `decay` may be one number for all rows, and `rate` may be null: the value is added then.
struct Head {
    const float *query, *key, *value, *decay, *rate, *first;
    float *dst, *last, *kept; // kept: the state between two tokens
    std::size_t query_stride, key_stride, value_stride, decay_stride, decay_step, rate_stride, dst_stride;
    std::size_t tokens, queries, size, depth;
};

// A state that is read, and the place of the one behind the token.
struct Move {
    const float *source;
    std::size_t source_stride;
    float *target;
    std::size_t target_stride;
};

// Adds rows of a matrix times their factors to the sums.
template <std::size_t LANES, std::size_t VECTORS>
ONEGRAPH_INLINE void add_rows(typename Lanes<LANES>::Vector *sums, const float *factors, const float *decay, std::size_t step,
        const float *matrix, std::size_t stride, std::size_t size) {
    using Vector = typename Lanes<LANES>::Vector;
    Vector parts[PARTS][VECTORS] = {};
    const auto add = [&](std::size_t row, std::size_t part) __attribute__((always_inline)) {
        Vector line;
#pragma GCC unroll 4
        for (std::size_t i = 0; i < VECTORS; i++) {
            std::memcpy(&line, matrix + row * stride + i * LANES, sizeof line);
            parts[part][i] += (decay ? line * decay[row * step] : line) * factors[row];
        }
    };
    std::size_t row = 0;
    for (; row + PARTS <= size; row += PARTS)
#pragma GCC unroll 2
        for (std::size_t part = 0; part < PARTS; part++)
            add(row + part, part);
    if (row < size) add(row, 0);
    for (std::size_t i = 0; i < VECTORS; i++)
        sums[i] = parts[0][i] + parts[1][i];
}

// One token: the state decays, takes the value, and gives the results of all queries.
template <std::size_t LANES, std::size_t VECTORS>
ONEGRAPH_INLINE void take(const Head &head, std::size_t token, std::size_t column, const Move &move) {
    using Vector = typename Lanes<LANES>::Vector;
    const float *const key = head.key + token * head.key_stride, *const query = head.query + token * head.query_stride;
    const float *const decay = head.decay ? head.decay + token * head.decay_stride : nullptr;
    float *const dst = head.dst + token * head.dst_stride + column;
    Vector value[VECTORS], sums[VECTORS], parts[PARTS][VECTORS] = {};
    std::memcpy(value, head.value + token * head.value_stride + column, sizeof value);
    if (head.rate) {
        add_rows<LANES, VECTORS>(sums, key, decay, head.decay_step, move.source, move.source_stride, head.size);
        for (std::size_t i = 0; i < VECTORS; i++)
            value[i] = (value[i] - sums[i]) * head.rate[token * head.rate_stride];
    }
    const auto add = [&](std::size_t row, std::size_t part) __attribute__((always_inline)) {
        Vector line;
#pragma GCC unroll 4
        for (std::size_t i = 0; i < VECTORS; i++) {
            std::memcpy(&line, move.source + row * move.source_stride + i * LANES, sizeof line);
            line = (decay ? line * decay[row * head.decay_step] : line) + value[i] * key[row];
            std::memcpy(move.target + row * move.target_stride + i * LANES, &line, sizeof line);
            parts[part][i] += line * query[row];
        }
    };
    std::size_t row = 0;
    for (; row + PARTS <= head.size; row += PARTS)
#pragma GCC unroll 2
        for (std::size_t part = 0; part < PARTS; part++)
            add(row + part, part);
    if (row < head.size) add(row, 0);
    for (std::size_t i = 0; i < VECTORS; i++)
        sums[i] = parts[0][i] + parts[1][i];
    std::memcpy(dst, sums, sizeof sums);
    for (std::size_t other = 1; other < head.queries; other++) {
        add_rows<LANES, VECTORS>(
                sums, query + other * head.size, nullptr, 0, move.target, move.target_stride, head.size);
        std::memcpy(dst + other * head.depth, sums, sizeof sums);
    }
}

// All tokens, for LANES * VECTORS columns.
template <std::size_t LANES, std::size_t VECTORS>
ONEGRAPH_INLINE void take_all(const Head &head, std::size_t column) {
    constexpr std::size_t width = LANES * VECTORS;
    Move move {head.first + column, head.depth, head.kept, width};
    for (std::size_t token = 0; token < head.tokens; token++) {
        if (token + 1 == head.tokens) move.target = head.last + column, move.target_stride = head.depth;
        take<LANES, VECTORS>(head, token, column, move);
        move.source = move.target, move.source_stride = move.target_stride;
    }
}

// The columns from `begin` to `end` of a head.
template <std::size_t LANES>
ONEGRAPH_INLINE void compute(const Head &head, std::size_t begin, std::size_t end) {
    for (; begin + TOGETHER * LANES <= end; begin += TOGETHER * LANES)
        take_all<LANES, TOGETHER>(head, begin);
    for (; begin + LANES <= end; begin += LANES)
        take_all<LANES, 1>(head, begin);
    for (; begin < end; begin++)
        take_all<1, 1>(head, begin);
}

// All tensors are dense f32: query (batch, tokens, heads, queries of a head, size), key (batch, tokens, heads, size), value
// (batch, tokens, heads, depth), state (batch, heads, size, depth), decay (batch, tokens, heads, size or 1) if it is given,
// rate (batch, tokens, heads or 1) if it is given; dst (batch, tokens, heads, queries of a head, depth), and the last state.
// The results are the same for any number of threads, and the sums have the same order on every CPU.
class LinearAttention : public Runnable {
public:
    explicit LinearAttention(const KernelArguments &arguments);
    void run(void *const *addresses, int threads) const override;

private:
    int level_;
    bool has_decay_, has_rate_;
    std::size_t batch_, tokens_, heads_, queries_, size_, depth_;
    std::size_t decays_ = 1, rates_ = 1; // of a head, and of a token
};

LinearAttention::LinearAttention(const KernelArguments &arguments)
    : level_(arguments.number("level")), has_decay_(arguments.flag("decay")), has_rate_(arguments.flag("rate")) {
    const auto dim = [&](std::size_t tensor, int axis) {
        return static_cast<std::size_t>(arguments.tensors[tensor]->dims[axis]);
    };
    constexpr std::size_t fixed = 4; // query, key, value, state
    if (arguments.n_inputs != fixed + has_decay_ + has_rate_ || arguments.count != arguments.n_inputs + 2)
        throw std::invalid_argument("wrong number of tensors");
    const int ranks[] {5, 4, 4, 4};
    for (std::size_t i = 0; i < fixed; i++)
        if (arguments.tensors[i]->ndims != ranks[i]) throw std::invalid_argument("other axes than those of heads");
    batch_ = dim(0, 0), tokens_ = dim(0, 1), heads_ = dim(0, 2), queries_ = dim(0, 3), size_ = dim(0, 4), depth_ = dim(2, 3);
    if (has_decay_) decays_ = dim(fixed, 3);
    if (has_rate_) rates_ = dim(fixed + has_decay_, 2);
    const std::size_t rows = batch_ * tokens_, counts[] {rows * heads_ * queries_ * size_, rows * heads_ * size_,
            rows * heads_ * depth_, batch_ * heads_ * size_ * depth_};
    bool fits = (decays_ == 1 || decays_ == size_) && (rates_ == 1 || rates_ == heads_);
    for (std::size_t i = 0; i < fixed; i++)
        fits = fits && counts[i] > 0 && elements_of(*arguments.tensors[i]) == counts[i];
    fits = fits && (!has_decay_ || elements_of(*arguments.tensors[fixed]) == rows * heads_ * decays_);
    fits = fits && (!has_rate_ || elements_of(*arguments.tensors[fixed + has_decay_]) == rows * rates_);
    fits = fits && elements_of(*arguments.tensors[arguments.n_inputs]) == rows * heads_ * queries_ * depth_
            && elements_of(*arguments.tensors[arguments.n_inputs + 1]) == counts[3];
    for (std::size_t i = 0; i < arguments.count; i++)
        fits = fits && arguments.tensors[i]->data_type == dnnl_f32;
    if (!fits) throw std::invalid_argument("other sizes than those of a linear attention");
}

void LinearAttention::run(void *const *addresses, int threads) const {
    const auto input = [&](std::size_t place) { return static_cast<const float *>(addresses[place]); };
    const std::size_t last = 4u + has_decay_ + has_rate_;
    const float *const query = input(0), *const key = input(1), *const value = input(2), *const state = input(3);
    const float *const decay = has_decay_ ? input(4) : nullptr, *const rate = has_rate_ ? input(last - 1) : nullptr;
    auto *const dst = static_cast<float *>(addresses[last]), *const behind = static_cast<float *>(addresses[last + 1]);
    const std::size_t blocks = (depth_ + COLUMNS - 1) / COLUMNS, tasks = batch_ * heads_ * blocks;
    const std::size_t work = tasks * tokens_ * size_ * COLUMNS * (2 + queries_) / 16;
    const std::size_t wanted = std::min(static_cast<std::size_t>(std::max(threads, 1)), tasks);
    const std::size_t team = work < 2 * SHARE || !openmp().parallel ? 1 : std::min(wanted, MOST_SHARES);
    const std::size_t room = tokens_ > 1 ? size_ * COLUMNS : 0;
    std::vector<float> kept(team * room);
    const auto function = ForCpu<compute<4>, compute<8>, compute<16>>::of(level_);
    std::atomic<std::size_t> taken {0};
    together(static_cast<int>(team), [&](std::size_t thread) {
        for (std::size_t task; (task = taken.fetch_add(1)) < tasks;) {
            const std::size_t block = task % blocks, head = task / blocks % heads_, batch = task / blocks / heads_;
            const std::size_t place = batch * tokens_ * heads_ + head, of_state = (batch * heads_ + head) * size_ * depth_;
            const std::size_t shared = rates_ == 1 ? 0 : head;
            const Head own {query + place * queries_ * size_, key + place * size_, value + place * depth_,
                    decay ? decay + place * decays_ : nullptr, rate ? rate + batch * tokens_ * rates_ + shared : nullptr,
                    state + of_state, dst + place * queries_ * depth_, behind + of_state, kept.data() + thread * room,
                    heads_ * queries_ * size_, heads_ * size_, heads_ * depth_, heads_ * decays_,
                    static_cast<std::size_t>(decays_ > 1), rates_, heads_ * queries_ * depth_, tokens_, queries_, size_,
                    depth_};
            function(own, block * COLUMNS, std::min((block + 1) * COLUMNS, depth_));
        }
    });
}

const Registered<LinearAttention> LINEAR_ATTENTION {"linear_attention", "decay, rate, level"};

} // namespace
} // namespace onegraph
