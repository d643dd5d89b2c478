// NonMaxSuppression: the best boxes of each class without those that overlap a better one.

#include "arrays.h"

namespace onegraph {
namespace {

struct Candidate {
    float score;
    std::int32_t box;

    // Of equal scores the first box is better.
    bool operator<(const Candidate &better) const {
        return score != better.score ? score < better.score : box > better.box;
    }
};

// Boxes as five rows of numbers: left, top, right, bottom and area.
struct Boxes {
    static constexpr std::int64_t ROWS = 5, BLOCK = 16;

    float *numbers;
    std::int64_t stride;

    float *row(std::int64_t number) const { return numbers + number * stride; }
};

void fill_corners(const float *box, bool is_center, const Boxes &boxes, std::int64_t at) {
    float corners[4];
    for (int side = 0; side < 2; side++) {
        const float first = is_center ? box[side] - box[2 + side] / 2 : box[side];
        const float second = is_center ? box[side] + box[2 + side] / 2 : box[2 + side];
        corners[side] = std::min(first, second), corners[2 + side] = std::max(first, second);
    }
    for (int number = 0; number < 4; number++)
        boxes.row(number)[at] = corners[number];
    boxes.row(4)[at] = (corners[2] - corners[0]) * (corners[3] - corners[1]);
}

// Whether one of the first boxes overlaps a box by a larger share than `most`.
ONEGRAPH_INLINE bool is_covered(const Boxes &kept, std::int64_t count, const float *box, float most) {
    const float *left = kept.row(0), *top = kept.row(1), *right = kept.row(2), *bottom = kept.row(3), *area = kept.row(4);
    const float first = box[0], second = box[1], third = box[2], fourth = box[3], own = box[4];
    const float least = most - std::abs(most) * 1e-5f; // rounding of a quotient is smaller
    const auto common = [&](std::int64_t i) ONEGRAPH_VECTORS {
        const float width = std::min(right[i], third) - std::max(left[i], first);
        const float height = std::min(bottom[i], fourth) - std::max(top[i], second);
        return std::max(width, 0.0f) * std::max(height, 0.0f);
    };
    for (std::int64_t begin = 0; begin < count; begin += Boxes::BLOCK) {
        int may_be = 0;
        for (std::int64_t i = begin; i < begin + Boxes::BLOCK; i++) { // a row has whole blocks, filled with empty boxes
            const float both = common(i);
            may_be |= both >= least * (area[i] + own - both);
        }
        if (!may_be) continue;
        for (std::int64_t i = begin; i < std::min(begin + Boxes::BLOCK, count); i++) {
            const float both = common(i), whole = area[i] + own - both;
            if (both > 0 && area[i] > 0 && own > 0 && whole > 0 && both / whole > most) return true;
        }
    }
    return false;
}

// boxes (batches, boxes, 4) and scores (batches, classes, boxes) of f32; the kept boxes (batches * classes, most) of s32
// and their numbers (batches * classes) of s64. Numbers: the overlap, the least score, whether boxes are centers and sizes.
void suppress(const ArrayCall &call) {
    const std::int64_t count = call.dim(0, 1), classes = call.dim(1, 1), tasks = call.dim(0, 0) * classes;
    const std::int64_t most = call.dim(2, 1), batches = call.dim(0, 0);
    const float overlap = static_cast<float>(call.number(0)), least = static_cast<float>(call.number(1));
    const std::int64_t whole = (most + Boxes::BLOCK - 1) / Boxes::BLOCK * Boxes::BLOCK;
    std::vector<float> all(static_cast<std::size_t>(batches * count * Boxes::ROWS));
    const auto boxes_of = [&](std::int64_t batch) { return Boxes {all.data() + batch * count * Boxes::ROWS, count}; };
    for (std::int64_t i = 0; i < batches * count; i++)
        fill_corners(call.data<const float>(0) + 4 * i, call.flag(2), boxes_of(i / count), i % count);
    const bool is_large = tasks * count > static_cast<std::int64_t>(SHARE);
    const auto threads = is_large ? static_cast<int>(std::min<std::int64_t>(call.threads, tasks)) : 1;
    const auto lanes = static_cast<std::size_t>(std::max(threads, 1));
    std::vector<Candidate> candidates(lanes * static_cast<std::size_t>(count));
    std::vector<float> kept(lanes * static_cast<std::size_t>(whole * Boxes::ROWS));
    std::atomic<std::int64_t> taken {0};
    together(threads, [&](std::size_t thread) {
        Candidate *const first = candidates.data() + thread * static_cast<std::size_t>(count);
        const Boxes best {kept.data() + thread * static_cast<std::size_t>(whole * Boxes::ROWS), whole};
        for (std::int64_t task; (task = taken.fetch_add(1)) < tasks;) {
            const float *scores = call.data<const float>(1) + task * count;
            const Boxes boxes = boxes_of(task / classes);
            auto *result = call.data<std::int32_t>(2) + task * most;
            Candidate *last = first;
            for (std::int64_t box = 0; box < count; box++)
                if (scores[box] > least) *last++ = {scores[box], static_cast<std::int32_t>(box)};
            std::make_heap(first, last); // mostly a few candidates are asked for
            std::fill_n(best.numbers, whole * Boxes::ROWS, 0.0f);
            std::int64_t found = 0;
            with_vectors([&]() ONEGRAPH_VECTORS {
                while (first < last && found < most) {
                    std::pop_heap(first, last--);
                    const Candidate *next = last;
                    float box[Boxes::ROWS];
                    for (std::int64_t number = 0; number < Boxes::ROWS; number++)
                        box[number] = boxes.row(number)[next->box];
                    if (is_covered(best, found, box, overlap)) continue;
                    for (std::int64_t number = 0; number < Boxes::ROWS; number++)
                        best.row(number)[found] = box[number];
                    result[found++] = next->box;
                }
            });
            call.data<std::int64_t>(3)[task] = found;
        }
    });
}

const NamedKernel entry("NonMaxSuppression", suppress);

} // namespace
} // namespace onegraph
