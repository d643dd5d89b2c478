// Decision trees, and the choice of a class by scores. A walk waits for memory in each node, so that a thread walks eight
// of them at once: eight rows through one tree, or one row through eight trees.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "registry.h"
#include "shares.h"

#include "sizes.h"

namespace onegraph {
namespace {

constexpr std::size_t WALKS = 8, TILE = 128; // walks at once, and rows that pass a tree while it lies in the cache
constexpr std::size_t WORK = 16; // elements of other kernels that take as long as a walk
constexpr int MISSING = 8, BITS = 4; // of the first word of a node

// Words of the numbers of the kernels, and the comparisons of a node.
enum Comparison { LEAF, LESS_EQUAL, LESS, GREATER_EQUAL, GREATER, EQUAL };
enum Walks { ANY, ALL_LESS_EQUAL, ALL_LESS, LESS_EQUAL_OR_MISSING, LESS_OR_MISSING }; // what all nodes have in common
enum Aggregate { SUM, AVERAGE, MINIMUM, MAXIMUM };
enum Transform { NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO };
enum Opposite { COMPLEMENT, MIRROR, ZERO };
enum Type { F32, F64, S32, S64 };

template <typename T>
struct Node {
    int head, next[2]; // where the comparison holds, and where it fails
    T threshold; // of a leaf, its number
};

// Whether a comparison holds. `WALK` is one of Walks.
template <typename T, int WALK>
ONEGRAPH_INLINE bool holds(T x, const Node<T> &node) {
    const T limit = node.threshold;
    const bool is_missing = (x != x) & ((node.head & MISSING) != 0);
    if (WALK == ALL_LESS_EQUAL) return x <= limit;
    if (WALK == ALL_LESS) return x < limit;
    if (WALK == LESS_EQUAL_OR_MISSING) return (x <= limit) | is_missing;
    if (WALK == LESS_OR_MISSING) return (x < limit) | is_missing;
    if (is_missing) return true;
    switch (node.head & (MISSING - 1)) {
    case LESS_EQUAL: return x <= limit;
    case LESS: return x < limit;
    case GREATER_EQUAL: return x >= limit;
    case GREATER: return x > limit;
    case EQUAL: return x == limit;
    default: return x != limit;
    }
}

// Replaces each node by the number of the leaf at which its walk ends. A leaf leads to itself.
template <typename T, int WALK>
void walk(const Node<T> *nodes, const T *const *rows, int *places) {
    for (bool moves = true; moves;) {
        int moved = 0;
#pragma GCC unroll 8
        for (std::size_t i = 0; i < WALKS; i++) {
            const Node<T> &node = nodes[places[i]];
            const int next = node.next[!holds<T, WALK>(rows[i][node.head >> BITS], node)]; // without a branch
            moved |= next ^ places[i];
            places[i] = next;
        }
        moves = moved;
    }
    for (std::size_t i = 0; i < WALKS; i++)
        std::memcpy(&places[i], &nodes[places[i]].threshold, sizeof(int));
}

// A score to which no leaf has added: NaN of other bits than those of NaN that arithmetic makes. No weight has them, see add().
template <typename T>
ONEGRAPH_INLINE T no_score() {
    using Bits = std::conditional_t<sizeof(T) == sizeof(float), std::uint32_t, std::uint64_t>;
    const Bits bits = static_cast<Bits>(~Bits {0}) >> 1; // NaN with all bits but that of the sign
    T score;
    std::memcpy(&score, &bits, sizeof score);
    return score;
}

template <typename T>
ONEGRAPH_INLINE bool is_no_score(T score) {
    const T none = no_score<T>();
    return std::memcmp(&score, &none, sizeof score) == 0;
}

template <typename T>
using Walk = void (*)(const Node<T> *, const T *const *, int *);

template <typename T>
Walk<T> walk_for(int comparison) {
    switch (comparison) {
    case ALL_LESS_EQUAL: return walk<T, ALL_LESS_EQUAL>;
    case ALL_LESS: return walk<T, ALL_LESS>;
    case LESS_EQUAL_OR_MISSING: return walk<T, LESS_EQUAL_OR_MISSING>;
    case LESS_OR_MISSING: return walk<T, LESS_OR_MISSING>;
    default: return walk<T, ANY>;
    }
}

template <typename T>
void transform(int kind, T *scores, std::size_t count) {
    if (kind == LOGISTIC)
        for (std::size_t i = 0; i < count; i++) {
            const T tail = std::exp(-std::abs(scores[i]));
            scores[i] = scores[i] < 0 ? tail / (1 + tail) : 1 / (1 + tail);
        }
    if (kind != SOFTMAX && kind != SOFTMAX_ZERO) return;
    constexpr T TINY = static_cast<T>(1e-7);
    T most = std::numeric_limits<T>::lowest(), total = 0;
    for (std::size_t i = 0; i < count; i++)
        most = scores[i] > most || scores[i] != scores[i] ? scores[i] : most;
    const T least = std::exp(-most);
    for (std::size_t i = 0; i < count; i++) {
        const bool is_counted = kind == SOFTMAX || std::abs(scores[i]) > TINY;
        scores[i] = is_counted ? std::exp(scores[i] - most) : scores[i] * least;
        total += is_counted ? scores[i] : 0;
    }
    for (std::size_t i = 0; i < count; i++)
        scores[i] /= total;
}

// Decision trees on rows of features, as the host op TreeEnsemble says, whose tensors these are. All are dense, and the
// caller has checked that each walk through the nodes ends at a leaf that has weights.
class Trees : public Runnable {
public:
    explicit Trees(const KernelArguments &arguments)
        : n_targets_(arguments.size("targets")), aggregate_(arguments.number("aggregate")),
          comparison_(arguments.number("comparison")), is_absent_(arguments.flag("absent")),
          is_wide_(arguments.flag("wide")) {
        std::size_t next = 4;
        const auto place = [&](const char *name) { return arguments.flag(name) ? next++ : 0; };
        base_ = place("has_base"), targets_ = place("has_targets"), starts_ = place("has_starts");
        dst_ = next;
        const auto *src = arguments.tensors[0];
        if (arguments.count != next + 1 || src->ndims != 2) throw std::invalid_argument("other tensors than those of trees");
        rows_ = static_cast<std::size_t>(src->dims[0]);
        features_ = static_cast<std::size_t>(src->dims[1]);
        trees_ = elements_of(*arguments.tensors[2]);
        const auto *nodes = arguments.tensors[1], *dst = arguments.tensors[dst_];
        const std::size_t words = (is_wide_ ? sizeof(Node<double>) : sizeof(Node<float>)) / sizeof(int);
        const bool is_known = nodes->ndims == 2 && nodes->dims[1] == static_cast<dnnl_dim_t>(words)
                && bytes_of(src->data_type) == bytes_of(dst->data_type) && bytes_of(dst->data_type) == (is_wide_ ? 8 : 4)
                && elements_of(*dst) == rows_ * n_targets_ && (!base_ || elements_of(*arguments.tensors[base_]) == n_targets_);
        if (!is_known) throw std::invalid_argument("other sizes than those of trees");
    }

    // The results are the same for any number of threads and rows.
    void run(void *const *addresses, int threads) const override {
        const std::size_t unit = WORK * std::max<std::size_t>(trees_, 1);
        share(rows_ * unit, threads, unit * WALKS, [&](std::size_t begin, std::size_t end) {
            if (is_wide_)
                compute<double>(addresses, begin / unit, end / unit);
            else
                compute<float>(addresses, begin / unit, end / unit);
        });
    }

private:
    template <typename T>
    void add(void *const *addresses, int leaf, T *row) const {
        const auto *weights = static_cast<const T *>(addresses[3]);
        const auto *targets = static_cast<const int *>(targets_ ? addresses[targets_] : nullptr);
        const auto *starts = static_cast<const int *>(starts_ ? addresses[starts_] : nullptr);
        const int first = starts ? starts[leaf] : leaf, end = starts ? starts[leaf + 1] : leaf + 1;
        for (int i = first; i < end; i++) {
            T &score = row[targets ? targets[i] : 0];
            const T weight = is_no_score(weights[i]) ? std::numeric_limits<T>::quiet_NaN() : weights[i];
            if (is_no_score(score)) {
                score = weight;
                continue;
            }
            switch (aggregate_) { // NaN stays
            case MINIMUM: score = score < weight || score != score ? score : weight; break;
            case MAXIMUM: score = score > weight || score != score ? score : weight; break;
            default: score += weight;
            }
        }
    }

    template <typename T>
    void compute(void *const *addresses, std::size_t begin, std::size_t end) const {
        const auto *src = static_cast<const T *>(addresses[0]);
        const auto *nodes = static_cast<const Node<T> *>(addresses[1]);
        const auto *roots = static_cast<const int *>(addresses[2]);
        auto *dst = static_cast<T *>(addresses[dst_]);
        const Walk<T> walks = walk_for<T>(comparison_);
        const auto *weights = static_cast<const T *>(addresses[3]);
        const bool is_plain = !targets_ && !starts_ && aggregate_ <= AVERAGE; // leaf n adds weight n
        const T *rows[WALKS];
        int places[WALKS];
        std::fill(dst + begin * n_targets_, dst + end * n_targets_, no_score<T>());
        for (std::size_t tile = begin; tile < end; tile += TILE) {
            const std::size_t last = std::min(end, tile + TILE), whole = last - (last - tile) % WALKS;
            for (std::size_t tree = 0; tree < trees_; tree++)
                for (std::size_t row = tile; row < whole; row += WALKS) {
                    for (std::size_t i = 0; i < WALKS; i++) {
                        rows[i] = src + (row + i) * features_;
                        places[i] = roots[tree];
                    }
                    walks(nodes, rows, places);
                    if (is_plain && tree > 0)
                        for (std::size_t i = 0; i < WALKS; i++)
                            dst[row + i] += weights[places[i]];
                    else
                        for (std::size_t i = 0; i < WALKS; i++)
                            add(addresses, places[i], dst + (row + i) * n_targets_);
                }
            for (std::size_t row = whole; row < last; row++)
                for (std::size_t tree = 0; tree < trees_; tree += WALKS) {
                    for (std::size_t i = 0; i < WALKS; i++) {
                        rows[i] = src + row * features_;
                        places[i] = roots[std::min(tree + i, trees_ - 1)];
                    }
                    walks(nodes, rows, places);
                    for (std::size_t i = 0; i < std::min(WALKS, trees_ - tree); i++)
                        add(addresses, places[i], dst + row * n_targets_);
                }
        }
        if (!is_plain || !trees_) replace_no_scores(dst + begin * n_targets_, dst + end * n_targets_);
        finish(static_cast<const T *>(base_ ? addresses[base_] : nullptr), dst, begin, end);
    }

    template <typename T>
    void replace_no_scores(T *begin, T *end) const {
        for (T *score = begin; score < end; score++)
            if (is_no_score(*score)) *score = is_absent_ ? std::numeric_limits<T>::quiet_NaN() : T {0};
    }

    template <typename T>
    void finish(const T *base, T *dst, std::size_t begin, std::size_t end) const {
        for (std::size_t i = begin * n_targets_; i < end * n_targets_; i++) {
            if (aggregate_ == AVERAGE) dst[i] /= static_cast<T>(std::max<std::size_t>(trees_, 1));
            if (base) dst[i] += base[i % n_targets_];
        }
    }

    std::size_t n_targets_;
    int aggregate_, comparison_;
    bool is_absent_, is_wide_;
    std::size_t base_, targets_, starts_, dst_; // places of tensors; 0 if absent
    std::size_t rows_, features_, trees_;
};

// The class with the largest score of each row, and what a transform makes of the scores: see the host op Classify.
class Classify : public Runnable {
public:
    explicit Classify(const KernelArguments &arguments)
        : transform_(arguments.number("transform")), opposite_(arguments.number("opposite")),
          threshold_(arguments.real("threshold")), is_absent_(arguments.flag("absent")),
          is_wide_(arguments.flag("wide")) {
        const auto *src = arguments.tensors[0];
        if (arguments.count != 4 || src->ndims != 2) throw std::invalid_argument("other tensors than those of a classifier");
        rows_ = static_cast<std::size_t>(src->dims[0]);
        columns_ = static_cast<std::size_t>(src->dims[1]);
        classes_ = elements_of(*arguments.tensors[1]);
        if (columns_ != classes_ && (columns_ != 1 || classes_ != 2)) throw std::invalid_argument("no scores of classes");
        const auto *classes = arguments.tensors[1], *labels = arguments.tensors[2], *scores = arguments.tensors[3];
        const bool is_known = bytes_of(src->data_type) == (is_wide_ ? 8 : 4) && bytes_of(classes->data_type) == 8
                && bytes_of(labels->data_type) == 8 && scores->data_type == dnnl_f32 && elements_of(*labels) == rows_
                && elements_of(*scores) == rows_ * classes_;
        if (!is_known) throw std::invalid_argument("other sizes than those of a classifier");
    }

    void run(void *const *addresses, int threads) const override {
        const std::size_t unit = WORK * std::max<std::size_t>(classes_, 1);
        share(rows_ * unit, threads, unit * WALKS, [&](std::size_t begin, std::size_t end) {
            if (is_wide_)
                compute<double>(addresses, begin / unit, end / unit);
            else
                compute<float>(addresses, begin / unit, end / unit);
        });
    }

private:
    template <typename T>
    void compute(void *const *addresses, std::size_t begin, std::size_t end) const {
        const auto *src = static_cast<const T *>(addresses[0]) + begin * columns_;
        const auto *classes = static_cast<const std::int64_t *>(addresses[1]);
        auto *labels = static_cast<std::int64_t *>(addresses[2]) + begin;
        auto *scores = static_cast<float *>(addresses[3]) + begin * classes_;
        for (std::size_t row = begin; row < end; row++, src += columns_, scores += classes_) {
            std::size_t best = 0;
            if (columns_ != classes_) {
                const T x = src[0], other = opposite_ == COMPLEMENT ? 1 - x : opposite_ == MIRROR ? -x : 0;
                best = x > threshold_;
                scores[0] = static_cast<float>(other);
                scores[1] = static_cast<float>(x);
            } else {
                for (std::size_t i = 0; i < classes_; i++) {
                    if (src[i] > src[best] || (is_absent_ && src[best] != src[best] && src[i] == src[i])) best = i;
                    scores[i] = static_cast<float>(src[i]);
                }
            }
            *labels++ = classes[best];
            for (std::size_t i = 0; is_absent_ && i < classes_; i++)
                scores[i] = scores[i] == scores[i] ? scores[i] : 0.0f;
            transform(transform_, scores, classes_);
        }
    }

    int transform_, opposite_;
    float threshold_;
    bool is_absent_, is_wide_;
    std::size_t rows_, columns_, classes_;
};

// The value of the key that equals each element, or another one: see the host op LookUp. The keys are in ascending order.
class FindKeys : public Runnable {
public:
    explicit FindKeys(const KernelArguments &arguments)
        : keys_(arguments.number("keys")), values_(arguments.number("values")) {
        if (arguments.count != 5) throw std::invalid_argument("other tensors than elements, keys and values");
        total_ = elements_of(*arguments.tensors[0]);
        n_keys_ = elements_of(*arguments.tensors[1]);
        const auto bytes = [&](std::size_t i) { return bytes_of(arguments.tensors[i]->data_type); };
        const std::size_t of_key = keys_ == F64 || keys_ == S64 ? 8 : 4, of_value = values_ == F64 || values_ == S64 ? 8 : 4;
        if (n_keys_ == 0 || elements_of(*arguments.tensors[4]) != total_ || bytes(0) != of_key || bytes(1) != of_key
                || bytes(2) != of_value || bytes(3) != of_value || bytes(4) != of_value
                || elements_of(*arguments.tensors[2]) != n_keys_ || elements_of(*arguments.tensors[3]) != 1)
            throw std::invalid_argument("other sizes than those of elements, keys and values");
    }

    void run(void *const *addresses, int threads) const override {
        share(total_, threads, 64, [&](std::size_t begin, std::size_t end) {
            switch (keys_) {
            case F32: return find_values<float>(addresses, begin, end);
            case F64: return find_values<double>(addresses, begin, end);
            case S32: return find_values<std::int32_t>(addresses, begin, end);
            default: return find_values<std::int64_t>(addresses, begin, end);
            }
        });
    }

private:
    template <typename Key, typename Element>
    void find(void *const *addresses, std::size_t begin, std::size_t end) const {
        const auto *src = static_cast<const Key *>(addresses[0]), *keys = static_cast<const Key *>(addresses[1]);
        const auto *values = static_cast<const Element *>(addresses[2]), *other = static_cast<const Element *>(addresses[3]);
        auto *dst = static_cast<Element *>(addresses[4]);
        const bool has_nan = keys[n_keys_ - 1] != keys[n_keys_ - 1];
        const std::size_t numbers = n_keys_ - has_nan;
        for (std::size_t i = begin; i < end; i++) {
            const Key x = src[i];
            const Key *at = x != x ? keys + numbers : std::lower_bound(keys, keys + numbers, x);
            const bool is_found = x != x ? has_nan : at < keys + numbers && *at == x;
            dst[i] = is_found ? values[at - keys] : *other;
        }
    }

    template <typename Key>
    void find_values(void *const *addresses, std::size_t begin, std::size_t end) const {
        if (values_ == F64 || values_ == S64)
            find<Key, std::int64_t>(addresses, begin, end);
        else
            find<Key, std::int32_t>(addresses, begin, end);
    }

    int keys_, values_;
    std::size_t total_, n_keys_;
};

const Registered<Trees> TREES {"trees",
        "targets, aggregate: sum|average|minimum|maximum, absent, comparison: any|less_equal|less|less_equal_missing|less_missing, wide, has_base, "
        "has_targets, has_starts"};
const Registered<Classify> CLASSIFY {"classify",
        "transform: none|logistic|softmax|softmax_zero, threshold: f32, opposite: complement|mirror|zero, absent, wide"};
const Registered<FindKeys> FIND_KEYS {"find_keys", "keys: f32|f64|s32|s64, values: f32|f64|s32|s64"};

} // namespace
} // namespace onegraph
