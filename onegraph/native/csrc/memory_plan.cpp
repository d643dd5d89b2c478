// Plans the memory of the values inside a program: one block, shared by values with disjoint lifetimes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "guard.h"

namespace {

using Place = std::pair<std::size_t, std::size_t>;

// The free gaps of a growing block.
class Gaps {
public:
    std::size_t end() const { return end_; }

    std::size_t take(std::size_t size) {
        const auto found = by_size_.lower_bound({size, 0});
        if (found != by_size_.end()) {
            const auto [gap, start] = *found;
            remove(size_at_.find(start));
            if (gap > size) add(start + size, gap - size);
            return start;
        }
        std::size_t start = end_;
        if (!size_at_.empty()) { // extend the gap at the end of the block
            const auto last = std::prev(size_at_.end());
            if (last->first + last->second == end_) {
                start = last->first;
                remove(last);
            }
        }
        end_ = start + size;
        return start;
    }

    void free(std::size_t start, std::size_t size) {
        auto next = size_at_.lower_bound(start);
        if (next != size_at_.end() && next->first == start + size) {
            size += next->second;
            next = remove(next);
        }
        if (next != size_at_.begin()) {
            const auto before = std::prev(next);
            if (before->first + before->second == start) {
                start = before->first;
                size += before->second;
                remove(before);
            }
        }
        add(start, size);
    }

private:
    using Starts = std::map<std::size_t, std::size_t>;

    void add(std::size_t start, std::size_t size) {
        size_at_.emplace(start, size);
        by_size_.emplace(size, start);
    }
    Starts::iterator remove(Starts::iterator gap) {
        by_size_.erase({gap->second, gap->first});
        return size_at_.erase(gap);
    }

    std::size_t end_ = 0;
    std::set<Place> by_size_; // size and start
    Starts size_at_;
};

struct Pieces {
    std::size_t n;
    const std::int64_t *sizes, *starts, *ends, *sources;
};

// For each step, the numbers of the pieces that begin there, or that end there.
std::vector<std::vector<std::size_t>> by_step(std::size_t n_steps, std::size_t n, const std::int64_t *steps) {
    std::vector<std::vector<std::size_t>> numbers(n_steps + 1); // results that are copied at last end behind all steps
    for (std::size_t i = 0; i < n; i++)
        numbers[static_cast<std::size_t>(steps[i])].push_back(i);
    return numbers;
}

std::size_t place(const Pieces &pieces, std::size_t n_steps, std::int64_t *offsets) {
    const auto ending = by_step(n_steps, pieces.n, pieces.ends);
    std::vector<bool> reused(pieces.n, false);
    Gaps gaps;
    std::size_t freed = 0;
    for (std::size_t i = 0; i < pieces.n; i++) {
        for (; freed < static_cast<std::size_t>(pieces.starts[i]); freed++)
            for (const std::size_t dead : ending[freed])
                if (!reused[dead])
                    gaps.free(static_cast<std::size_t>(offsets[dead]), static_cast<std::size_t>(pieces.sizes[dead]));
        const std::int64_t source = pieces.sources[i];
        const auto k = static_cast<std::size_t>(source);
        if (source >= 0 && pieces.sizes[k] == pieces.sizes[i] && pieces.starts[k] < pieces.ends[k]
                && pieces.ends[k] == pieces.starts[i] && !reused[k]) {
            reused[k] = true;
            offsets[i] = offsets[k];
        } else {
            offsets[i] = static_cast<std::int64_t>(gaps.take(static_cast<std::size_t>(pieces.sizes[i])));
        }
    }
    return gaps.end();
}

void find_rooms(const Pieces &pieces, std::size_t n_steps, const std::int64_t *offsets, std::size_t size, std::int64_t *rooms) {
    const auto starting = by_step(n_steps, pieces.n, pieces.starts), ending = by_step(n_steps, pieces.n, pieces.ends);
    const auto place_of = [&](std::size_t i) {
        const auto begin = static_cast<std::size_t>(offsets[i]);
        return Place {begin, begin + static_cast<std::size_t>(pieces.sizes[i])};
    };
    std::multiset<Place> used;
    for (std::size_t step = 0; step < n_steps; step++) {
        for (const std::size_t i : starting[step])
            used.insert(place_of(i));
        std::size_t largest = 0, at = 0, start = 0;
        for (const auto &[begin, end] : used) {
            if (begin > start && begin - start > largest) largest = begin - start, at = start;
            start = std::max(start, end);
        }
        if (size - start > largest) largest = size - start, at = start;
        rooms[2 * step] = static_cast<std::int64_t>(at);
        rooms[2 * step + 1] = static_cast<std::int64_t>(largest);
        for (const std::size_t i : ending[step])
            used.erase(used.find(place_of(i)));
    }
}

} // namespace

extern "C" int onegraph_plan_memory(size_t n, const int64_t *sizes, const int64_t *starts, const int64_t *ends, const int64_t *sources,
        size_t n_steps, int64_t *offsets, int64_t *rooms, int64_t *size) {
    return onegraph::guarded([&]() -> dnnl_status_t {
        for (std::size_t i = 0; i < n; i++) {
            const bool is_ordered = !i || starts[i - 1] <= starts[i];
            const bool is_known = sources[i] < static_cast<std::int64_t>(n) && sizes[i] > 0;
            if (!is_ordered || !is_known || sources[i] < -1 || starts[i] < 0 || ends[i] < starts[i] || ends[i] > static_cast<std::int64_t>(n_steps))
                return dnnl_invalid_arguments;
        }
        const Pieces pieces {n, sizes, starts, ends, sources};
        const std::size_t end = place(pieces, n_steps, offsets);
        find_rooms(pieces, n_steps, offsets, end, rooms);
        *size = static_cast<std::int64_t>(end);
        return dnnl_success;
    });
}
