// CountTuples: how often tuples of integers stand in rows, with a number of elements between their own.

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "registry.h"
#include "shares.h"

#include "sizes.h"

namespace onegraph {
namespace {

// Tuples that begin in the same way have the same node there.
class Tree {
public:
    Tree() : columns_(1) {}

    std::vector<std::size_t> &columns_of(const std::int64_t *tuple, std::size_t size) {
        std::size_t node = 0;
        for (std::size_t i = 0; i < size; i++) {
            const auto [next, is_new] = next_.try_emplace(Edge {node, tuple[i]}, columns_.size());
            if (is_new) columns_.emplace_back();
            node = next->second;
        }
        return columns_[node];
    }

    // The node behind another one; 0 if there is none.
    std::size_t next(std::size_t node, std::int64_t element) const {
        const auto found = next_.find(Edge {node, element});
        return found == next_.end() ? 0 : found->second;
    }

    const std::vector<std::size_t> &columns(std::size_t node) const { return columns_[node]; }

private:
    struct Edge {
        std::size_t node;
        std::int64_t element;

        bool operator==(const Edge &other) const { return node == other.node && element == other.element; }
    };

    struct Hash {
        std::size_t operator()(const Edge &edge) const {
            const std::uint64_t bits = (edge.node * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(edge.element)) * 0xD6E8FEB86659FD93u;
            return static_cast<std::size_t>(bits ^ (bits >> 32));
        }
    };

    std::unordered_map<Edge, std::size_t, Hash> next_;
    std::vector<std::vector<std::size_t>> columns_; // of each node, where the tuple that ends there is counted
};

// The list holds the number of tuples, their sizes and columns, and both halves of each element, the lower one first.
class CountTuples : public Runnable {
public:
    explicit CountTuples(const KernelArguments &arguments) : skips_(arguments.size("skips")) {
        const int *next = arguments.list(), *const end = next + arguments.n_list();
        const auto taken = [&](std::size_t count) {
            if (static_cast<std::size_t>(end - next) < count) throw std::invalid_argument("too few numbers");
            next += count;
            return next - count;
        };
        if (arguments.count != 2) throw std::invalid_argument("other tensors than rows with elements and counts");
        const auto *src = arguments.tensors[0], *dst = arguments.tensors[1];
        if (src->ndims < 1 || src->dims[src->ndims - 1] < 1 || dst->ndims != src->ndims || !is_index(src->data_type)
                || dst->data_type != dnnl_f32)
            throw std::invalid_argument("other tensors than rows with elements and counts");
        is_wide_ = src->data_type != dnnl_s32;
        length_ = static_cast<std::size_t>(src->dims[src->ndims - 1]);
        width_ = static_cast<std::size_t>(dst->dims[dst->ndims - 1]);
        rows_ = elements_of(*src) / length_;
        if (elements_of(*dst) != rows_ * width_) throw std::invalid_argument("counts of other rows");
        const auto count = static_cast<std::size_t>(*taken(1));
        const int *const sizes = taken(count), *const columns = taken(count);
        std::vector<std::int64_t> tuple;
        for (std::size_t i = 0; i < count; i++) {
            const auto size = static_cast<std::size_t>(sizes[i]), column = static_cast<std::size_t>(columns[i]);
            const int *const halves = taken(2 * size);
            if (column >= width_) throw std::invalid_argument("no such column");
            tuple.clear();
            for (std::size_t j = 0; j < size; j++)
                tuple.push_back(static_cast<std::int64_t>(halves[2 * j + 1]) * (std::int64_t(1) << 32) + static_cast<std::uint32_t>(halves[2 * j]));
            tree_.columns_of(tuple.data(), size).push_back(column);
            longest_ = std::max(longest_, size);
        }
    }

    void run(void *const *addresses, int threads) const override {
        share(rows_ * length_, threads, length_, [&](std::size_t begin, std::size_t end) {
            for (std::size_t row = begin / length_; row < end / length_; row++) {
                float *const counts = static_cast<float *>(addresses[1]) + row * width_;
                if (is_wide_)
                    count(static_cast<const std::int64_t *>(addresses[0]) + row * length_, counts);
                else
                    count(static_cast<const std::int32_t *>(addresses[0]) + row * length_, counts);
            }
        });
    }

private:
    template <typename T>
    void count(const T *row, float *counts) const {
        std::fill_n(counts, width_, 0.0f);
        for (std::size_t first = 0; first < length_; first++) {
            const std::size_t node = tree_.next(0, row[first]);
            if (!node) continue;
            add(node, counts);
            for (std::size_t step = 1; longest_ > 1 && step <= skips_ + 1 && first + step < length_; step++) {
                std::size_t reached = node;
                for (std::size_t place = first + step; place < length_; place += step) {
                    reached = tree_.next(reached, row[place]);
                    if (!reached) break;
                    add(reached, counts);
                }
            }
        }
    }

    void add(std::size_t node, float *counts) const {
        for (const std::size_t column : tree_.columns(node))
            counts[column]++;
    }

    Tree tree_;
    std::size_t skips_, length_, width_, rows_, longest_ = 0;
    bool is_wide_;
};

const Registered<CountTuples> COUNT_TUPLES {"count_tuples", "skips, contents..."};

} // namespace
} // namespace onegraph
