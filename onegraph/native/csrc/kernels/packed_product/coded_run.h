// A run of a product of several rows, which become 8-bit codes, and panels of packed weights.

#pragma once

#include "run.h"

namespace onegraph {
namespace {

class CodedRun {
public:
    // Whether a run takes panels. Tiles of AMX take less time for many rows.
    static bool fits(const PackedProblem &problem) {
        return problem.code_products && problem.rows >= LEAST_OF_PANELS
                && (!problem.tile_products || problem.rows <= MOST_OF_PANELS);
    }

    CodedRun(const PackedProblem &problem, void *const *addresses, int threads)
        : problem_(problem),
          products_(*problem.code_products),
          addresses_(addresses),
          threads_(threads_of(problem, threads)),
          per_(per_word(problem.coding.width)),
          block_(std::min(problem.matrix.group, 16 * per_)),
          blocks_(problem.matrix.depth / block_),
          at_once_(std::min((problem.rows + CODED_ROWS - 1) / CODED_ROWS, ROW_BLOCK / CODED_ROWS)),
          center_(problem.center()),
          has_zeros_(problem.has_zeros()),
          own_size_((own_size(problem) + LINE - 1) / LINE * LINE),
          own_(size(own_size_) * static_cast<std::size_t>(threads_)),
          codes_(size(at_once_ * CODED_ROWS * problem.matrix.depth)),
          steps_(size(at_once_ * CODED_ROWS * blocks_)),
          sums_(size(at_once_ * CODED_ROWS * blocks_)),
          offsets_(size(at_once_ * CODED_ROWS * blocks_)),
          bias_(problem.bias_at < 0 ? 0 : size(problem.columns)),
          results_(problem.types[problem.dst_at] == dnnl_f32 ? 0 : size(at_once_ * CODED_ROWS * problem.columns)),
          plain_(size(problem.rows)) {}

    void run() const {
        const dnnl_data_type_t type = problem_.types[problem_.dst_at];
        if (bias_.get()) problem_.to_f32(addresses_, problem_.bias_at, 0, problem_.columns, bias_.get());
        for (long first = 0; first < problem_.rows; first += at_once_ * CODED_ROWS) {
            const long count = std::min(at_once_ * CODED_ROWS, problem_.rows - first);
            char *const target = static_cast<char *>(addresses_[problem_.dst_at]) + size(first * problem_.columns) * size_of(type);
            float *const results = results_.get() ? results_.get() : reinterpret_cast<float *>(target);
            divided((count + CODED_ROWS - 1) / CODED_ROWS, count * problem_.matrix.depth < static_cast<long>(SHARE),
                    [&](float *own, long begin, long end) {
                        for (long unit = begin; unit < end; unit++)
                            prepare(own, first, unit, std::min(CODED_ROWS, count - unit * CODED_ROWS));
                    });
            divided((problem_.columns + CODED_COLUMNS - 1) / CODED_COLUMNS, false, [&](float *own, long begin, long end) {
                for (long panel = begin; panel < end; panel++)
                    multiply(own, panel * CODED_COLUMNS, count, results);
            });
            if (results_.get())
                cast(dnnl_f32, reinterpret_cast<const char *>(results), type, target, size(count * problem_.columns), problem_.is_fast);
        }
        special();
    }

private:
    static constexpr long LINE = 16; // numbers of a cache line

    static std::size_t size(long count) { return static_cast<std::size_t>(count); }

    // Numbers that a thread needs: a panel, or a row with its codes; and scales and zero points as they are, and turned.
    static long own_size(const PackedProblem &problem) {
        const long depth = problem.matrix.depth, filled = (problem.filled + LINE - 1) / LINE * LINE;
        return CODED_COLUMNS * depth / WORD + 4 * CODED_COLUMNS * filled;
    }

    // Calls `body(own, begin, end)` for parts of `total` on the threads.
    template <typename Body>
    void divided(long total, bool is_alone, const Body &body) const {
        const long wanted = is_alone ? 1 : std::min(static_cast<long>(threads_), total);
        together(static_cast<int>(wanted), [&](std::size_t thread) {
            const auto place = [&](std::size_t part) {
                return static_cast<long>(part_of(size(total), 1, part, size(wanted)));
            };
            body(own_.get() + thread * size(own_size_), place(thread), place(thread + 1));
        });
    }

    // CODED_ROWS rows, from `first` of a run on. Rows that are missing, or not plain, are zeros.
    void prepare(float *own, long first, long unit, long count) const {
        const long depth = problem_.matrix.depth, known = problem_.matrix.known, words = depth / per_;
        const long place = unit * CODED_ROWS * blocks_;
        // A row takes no more memory than a panel: depth numbers, codes, two numbers for each word.
        float *const memory = own, *const word_sums = own + depth, *const word_steps = word_sums + words;
        auto *const codes = reinterpret_cast<std::int8_t *>(word_steps + words);
        std::int8_t *const target = codes_.get() + unit * CODED_ROWS * depth;
        std::fill_n(target, CODED_ROWS * depth, std::int8_t {0});
        for (long i = place; i < place + CODED_ROWS * blocks_; i++)
            steps_.get()[i] = sums_.get()[i] = 0, offsets_.get()[i] = 0;
        for (long row = 0; row < count; row++) {
            const long index = first + unit * CODED_ROWS + row;
            const float *const source = problem_.row(addresses_, index, memory);
            if (!(plain_.get()[index] = is_plain(source, known))) continue;
            // Codes in the order of a panel: the even ones of a word of 4 bits before the odd ones.
            ForCpu<quantize>::of()(source, known, depth, 1, per_, block_, codes, word_sums, word_steps);
            for (long four = 0; four < depth / 4; four++)
                std::memcpy(target + (four * CODED_ROWS + row) * 4, codes + four * 4, 4);
            for (long block = 0, word = 0; block < blocks_; block++) {
                const long at = place + block * CODED_ROWS + row;
                steps_.get()[at] = word_steps[word];
                float sum = 0;
                for (const long stop = word + block_ / per_; word < stop; word++)
                    sum += word_sums[word];
                sums_.get()[at] = sum;
                offsets_.get()[at] = has_zeros_ ? 0 : -static_cast<std::int32_t>(sum * center_);
            }
        }
    }

    // The columns of a panel, from `first` on, and `count` rows.
    void multiply(float *own, long first, long count, float *results) const {
        const PackedMatrix &matrix = problem_.matrix;
        const long filled = (problem_.filled + LINE - 1) / LINE * LINE, width = std::min(CODED_COLUMNS, problem_.columns - first);
        const auto next = [&](long some) { return std::exchange(own, own + some); };
        char *const codes = reinterpret_cast<char *>(next(CODED_COLUMNS * matrix.depth / WORD));
        float *const scale_lines = next(CODED_COLUMNS * filled), *const zero_lines = next(CODED_COLUMNS * filled);
        float *const scales = next(CODED_COLUMNS * filled), *const zeros = next(CODED_COLUMNS * filled);
        PackedColumn columns[CODED_COLUMNS];
        const char *starts[CODED_COLUMNS];
        const float *own_scales[CODED_COLUMNS], *own_zeros[CODED_COLUMNS];
        for (long i = 0; i < CODED_COLUMNS; i++) {
            if (has_zeros_ && i < width) std::fill_n(zeros + i * filled, problem_.filled, problem_.zero);
            columns[i] = i < width ? problem_.column(addresses_, first + i, has_zeros_, scales + i * filled, zeros + i * filled)
                                   : columns[width - 1];
            starts[i] = columns[i].codes, own_scales[i] = columns[i].scales, own_zeros[i] = columns[i].zeros;
            if (has_zeros_ && i < width)
                for (long group = 0; group < problem_.filled; group++)
                    zeros[i * filled + group] += center_ - problem_.zero;
        }
        const long units = (count + CODED_ROWS - 1) / CODED_ROWS;
        const bool is_once = units * CODED_ROWS * CODED_COLUMNS <= MOST_SUMS;
        if (!is_once) products_.turn_codes(matrix, starts, problem_.coding.width, codes);
        products_.turn_scales(own_scales, problem_.filled, scale_lines);
        if (has_zeros_) products_.turn_scales(own_zeros, problem_.filled, zero_lines);
        const CodePanel panel {&matrix, starts, is_once ? nullptr : codes, scale_lines, has_zeros_ ? zero_lines : nullptr, matrix.group / block_};
        float sums[MOST_SUMS];
        for (long unit = 0; unit < units;) {
            const long place = unit * CODED_ROWS * blocks_;
            const CodedRows rows {codes_.get() + unit * CODED_ROWS * matrix.depth, steps_.get() + place, sums_.get() + place,
                    offsets_.get() + place, blocks_, block_ / 4, CODED_ROWS * blocks_};
            const long row = unit * CODED_ROWS;
            unit += products_.multiply(panel, rows, problem_.coding.width, units - unit, sums);
            for (long i = row; i < std::min(unit * CODED_ROWS, count); i++)
                for (long j = 0; j < width; j++)
                    results[i * problem_.columns + first + j]
                            = sums[(i - row) * CODED_COLUMNS + j] + (bias_.get() ? bias_.get()[first + j] : 0);
        }
    }

    // Multiplies each row that has no codes alone.
    void special() const {
        for (long row = 0; row < problem_.rows; row++) {
            if (plain_.get()[row]) continue;
            PackedProblem alone = problem_;
            alone.rows = 1;
            alone.unpacks = true;
            void *own[6];
            std::copy_n(addresses_, problem_.dst_at + 1, own);
            const auto moved = [&](int place, long numbers) {
                own[place] = const_cast<char *>(problem_.at(addresses_, place, row * numbers));
            };
            moved(0, problem_.matrix.known);
            moved(problem_.dst_at, problem_.columns);
            PackedRun(alone, own, threads_).run();
        }
    }

    const PackedProblem &problem_;
    const CodeProducts &products_;
    void *const *addresses_;
    const int threads_;
    const long per_, block_, blocks_, at_once_; // codes of a word and of a block; blocks of a row; fours of rows
    const float center_; // the zero point of unsigned codes
    const bool has_zeros_; // for each column
    const long own_size_; // of the memory of a thread
    const Buffer<float> own_;
    const Buffer<std::int8_t> codes_;
    const Buffer<float> steps_, sums_;
    const Buffer<std::int32_t> offsets_;
    const Buffer<float> bias_, results_;
    const Buffer<bool> plain_;
};

void multiply_packed(const PackedProblem &problem, void *const *addresses, int threads) {
    if (CodedRun::fits(problem)) return CodedRun(problem, addresses, threads).run();
    PackedRun(problem, addresses, threads).run();
}

} // namespace
} // namespace onegraph
