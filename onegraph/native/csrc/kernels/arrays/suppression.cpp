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

// The five numbers of a box.
void fill_corners(const float *box, bool is_center, float *corners) {
    for (int side = 0; side < 2; side++) {
        const float first = is_center ? box[side] - box[2 + side] / 2 : box[side];
        const float second = is_center ? box[side] + box[2 + side] / 2 : box[2 + side];
        corners[side] = std::min(first, second), corners[2 + side] = std::max(first, second);
    }
    corners[4] = (corners[2] - corners[0]) * (corners[3] - corners[1]);
}

// Whether a kept box overlaps a box by a larger share than `most`.
bool covers(const Boxes &kept, std::int64_t i, const float *box, float most) {
    const float width = std::min(kept.row(2)[i], box[2]) - std::max(kept.row(0)[i], box[0]);
    const float height = std::min(kept.row(3)[i], box[3]) - std::max(kept.row(1)[i], box[1]);
    const float common = std::max(width, 0.0f) * std::max(height, 0.0f), area = kept.row(4)[i];
    const float whole = area + box[4] - common;
    return common > 0 && area > 0 && box[4] > 0 && whole > 0 && common / whole > most;
}

using Find = std::int64_t (*)(const Boxes &kept, std::int64_t begin, std::int64_t end, const float *box, float least);

// The first block of kept boxes from `begin` on with one that may overlap a box by the share `least`; the rows have whole
// blocks, and behind the last box empty ones.
std::int64_t find_portable(const Boxes &, std::int64_t begin, std::int64_t, const float *, float) {
    return begin;
}

#if defined(__x86_64__)
ONEGRAPH_AVX512 std::int64_t find_avx512(
        const Boxes &kept, std::int64_t begin, std::int64_t end, const float *box, float least) {
    const auto row = [&](int number) { return kept.row(number); };
    const float *left = row(0), *top = row(1), *right = row(2), *bottom = row(3), *area = row(4);
    const __m512 first = _mm512_set1_ps(box[0]), second = _mm512_set1_ps(box[1]), third = _mm512_set1_ps(box[2]);
    const __m512 fourth = _mm512_set1_ps(box[3]), own = _mm512_set1_ps(box[4]), zero = _mm512_setzero_ps();
    for (std::int64_t i = begin; i < end; i += Boxes::BLOCK) {
        const __m512 width = _mm512_sub_ps(
                _mm512_min_ps(_mm512_loadu_ps(right + i), third), _mm512_max_ps(_mm512_loadu_ps(left + i), first));
        const __m512 height = _mm512_sub_ps(
                _mm512_min_ps(_mm512_loadu_ps(bottom + i), fourth), _mm512_max_ps(_mm512_loadu_ps(top + i), second));
        const __m512 common = _mm512_mul_ps(_mm512_max_ps(width, zero), _mm512_max_ps(height, zero));
        const __m512 whole = _mm512_sub_ps(_mm512_add_ps(_mm512_loadu_ps(area + i), own), common);
        if (_mm512_cmp_ps_mask(common, _mm512_mul_ps(whole, _mm512_set1_ps(least)), _CMP_GE_OQ)) return i;
    }
    return end;
}

ONEGRAPH_AVX2 std::int64_t find_avx2(
        const Boxes &kept, std::int64_t begin, std::int64_t end, const float *box, float least) {
    const auto row = [&](int number) { return kept.row(number); };
    const float *left = row(0), *top = row(1), *right = row(2), *bottom = row(3), *area = row(4);
    const __m256 first = _mm256_set1_ps(box[0]), second = _mm256_set1_ps(box[1]), third = _mm256_set1_ps(box[2]);
    const __m256 fourth = _mm256_set1_ps(box[3]), own = _mm256_set1_ps(box[4]), zero = _mm256_setzero_ps();
    for (std::int64_t i = begin; i < end; i += Boxes::BLOCK)
        for (std::int64_t half = i; half < i + Boxes::BLOCK; half += 8) {
            const __m256 width = _mm256_sub_ps(_mm256_min_ps(_mm256_loadu_ps(right + half), third),
                    _mm256_max_ps(_mm256_loadu_ps(left + half), first));
            const __m256 height = _mm256_sub_ps(_mm256_min_ps(_mm256_loadu_ps(bottom + half), fourth),
                    _mm256_max_ps(_mm256_loadu_ps(top + half), second));
            const __m256 common = _mm256_mul_ps(_mm256_max_ps(width, zero), _mm256_max_ps(height, zero));
            const __m256 whole = _mm256_sub_ps(_mm256_add_ps(_mm256_loadu_ps(area + half), own), common);
            const __m256 limit = _mm256_mul_ps(whole, _mm256_set1_ps(least));
            if (_mm256_movemask_ps(_mm256_cmp_ps(common, limit, _CMP_GE_OQ))) return i;
        }
    return end;
}
#endif

// Whether one of the first boxes overlaps a box by a larger share than `most`.
bool is_covered(const Boxes &kept, std::int64_t count, const float *box, float most, Find find) {
    const float least = most - std::abs(most) * 1e-5f; // rounding of a quotient is smaller
    for (std::int64_t begin = 0; begin < count; begin += Boxes::BLOCK) {
        begin = find(kept, begin, count, box, least);
        for (std::int64_t i = begin; i < std::min(begin + Boxes::BLOCK, count); i++)
            if (covers(kept, i, box, most)) return true;
    }
    return false;
}

// boxes (batches, boxes, 4) and scores (batches, classes, boxes) of f32; the kept boxes (batches * classes, most) of s32
// and their numbers (batches * classes) of s64. Numbers: the overlap, the least score, whether boxes are centers and sizes.
void suppress(const ArrayCall &call) {
    const std::int64_t count = call.dim(0, 1), classes = call.dim(1, 1), tasks = call.dim(0, 0) * classes;
    const std::int64_t most = call.dim(2, 1);
    const float overlap = static_cast<float>(call.number(0)), least = static_cast<float>(call.number(1));
    const std::int64_t whole = (most + Boxes::BLOCK - 1) / Boxes::BLOCK * Boxes::BLOCK;
    const bool is_large = tasks * count > static_cast<std::int64_t>(SHARE);
    const auto threads = is_large ? static_cast<int>(std::min<std::int64_t>(call.threads, tasks)) : 1;
    const auto lanes = static_cast<std::size_t>(std::max(threads, 1));
    std::vector<Candidate> candidates(lanes * static_cast<std::size_t>(count));
    std::vector<float> kept(lanes * static_cast<std::size_t>(whole * Boxes::ROWS));
    Find find = find_portable;
#if defined(__x86_64__)
    if (has_avx2()) find = has_avx512() ? find_avx512 : find_avx2;
#endif
    std::atomic<std::int64_t> taken {0};
    together(threads, [&](std::size_t thread) {
        Candidate *const first = candidates.data() + thread * static_cast<std::size_t>(count);
        const Boxes best {kept.data() + thread * static_cast<std::size_t>(whole * Boxes::ROWS), whole};
        for (std::int64_t task; (task = taken.fetch_add(1)) < tasks;) {
            const float *scores = call.data<const float>(1) + task * count;
            const float *const boxes = call.data<const float>(0) + task / classes * count * 4;
            auto *result = call.data<std::int32_t>(2) + task * most;
            Candidate *last = first;
            for (std::int64_t box = 0; box < count; box++)
                if (scores[box] > least) *last++ = {scores[box], static_cast<std::int32_t>(box)};
            std::make_heap(first, last); // mostly a few candidates are asked for
            std::fill_n(best.numbers, whole * Boxes::ROWS, 0.0f);
            std::int64_t found = 0;
            while (first < last && found < most) {
                std::pop_heap(first, last--);
                float box[Boxes::ROWS];
                fill_corners(boxes + std::int64_t(last->box) * 4, call.flag(2), box);
                if (is_covered(best, found, box, overlap, find)) continue;
                for (std::int64_t number = 0; number < Boxes::ROWS; number++)
                    best.row(number)[found] = box[number];
                result[found++] = last->box;
            }
            call.data<std::int64_t>(3)[task] = found;
        }
    });
}

const NamedKernel entry("NonMaxSuppression", suppress);

} // namespace
} // namespace onegraph
