// A run of a product of rows and a matrix of packed weights, which is unpacked in registers, or in blocks for many rows.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "../registry.h"
#include "../shares.h"
#include "problem.h"

#include "../floats.h"

namespace onegraph {
namespace {

constexpr std::size_t UNIT_COLUMNS = 8; // columns of a thread are a multiple of these
constexpr long ROW_BLOCK = 256; // rows that are prepared together
constexpr long FEW = 8, FEW_CODED = 16, FEW_OF_TILES = 6; // rows for which no column is unpacked to memory
constexpr long LEAST_OF_PANELS = 7, MOST_OF_PANELS = 64; // rows that meet panels of codes; the most beside tiles of AMX
constexpr long CHUNK = 512; // elements along the depth of a panel of tiles
constexpr long PANEL_STRIDE = CHUNK + STEP; // so that rows of a panel lie in other sets of the cache
constexpr long TILED_COLUMNS = 8 * PANEL; // columns whose sums are kept at once
// The largest numbers of a row of src whose parts of bf16, and whose products with codes, are normal numbers.
constexpr float LEAST_PLAIN = 0x1p-80f, MOST_PLAIN = 0x1p100f;
constexpr float LEAST_STEP = 0x1p-120f; // of a block of codes; smaller ones add nothing to the sums of a row
constexpr long MOST_BLOCK = 128; // elements of src that share a scale in 8-bit products
constexpr long MOST_STEPS = 127; // the largest code of a number in 8-bit products

// Memory of one call, in elements.
template <typename Element>
class Buffer {
public:
    explicit Buffer(std::size_t count) {
        if (count > 0) memory_ = onegraph_host_allocate(count * sizeof(Element), 64);
    }
    ~Buffer() {
        if (memory_) onegraph_host_deallocate(memory_);
    }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    Element *get() const { return static_cast<Element *>(memory_); }

private:
    void *memory_ = nullptr;
};

struct Coding {
    long width;
    int flip; // of every word, to make signed codes
    float center; // the number that is taken from unsigned codes by that
};

enum { S4, U4, S8, U8, F16, BF16, F32 };

Coding coding_of(int number) {
    switch (number) {
        case S4: return {FOUR, 0, 0};
        case U4: return {FOUR, static_cast<int>(0x88888888), 8};
        case S8: return {EIGHT, 0, 0};
        case U8: return {EIGHT, static_cast<int>(0x80808080), 128};
        case BF16: return {HALF_BF16, 0, 0};
        case F16: return {HALF_F16, 0, 0};
        case F32: return {FULL, 0, 0};
        default: throw std::invalid_argument("no packed weights of this coding");
    }
}

const PackedTiles &tiles_of(int level) {
#if defined(__x86_64__)
    if (level > 2 && has_vnni()) return PACKED_VNNI;
    if (level > 1 && has_avx512()) return PACKED_AVX512;
    if (level > 0 && has_avx2()) return PACKED_AVX2;
#endif
    (void)level;
    return PACKED_PORTABLE;
}

std::size_t part_of(std::size_t count, std::size_t unit, std::size_t part, std::size_t parts) {
    return std::min(part * ((count + unit - 1) / unit) / parts * unit, count);
}

// Puts the elements of a row into the order of PackedTiles, and zeros behind them.
ONEGRAPH_INLINE void order(const float *source, long known, long depth, long lanes, long per, float *numbers) {
    const long unit = lanes * per;
    for (long at = 0; at < depth; at += unit)
        for (long place = 0; place < per; place++)
            for (long lane = 0; lane < lanes; lane++) {
                const long k = at + lane * per + place;
                numbers[at + place * lanes + lane] = k < known ? source[k] : 0;
            }
}

// The sum of the numbers of each word, of a row that `order` has written.
ONEGRAPH_INLINE void sum_words(const float *numbers, long depth, long lanes, long per, float *sums) {
    for (long at = 0; at < depth; at += lanes * per, sums += lanes)
        for (long lane = 0; lane < lanes; lane++) {
            float sum = 0;
            for (long place = 0; place < per; place++)
                sum += numbers[at + place * lanes + lane];
            sums[lane] = sum;
        }
}

// The largest absolute number; not less than infinity if one is not a number.
ONEGRAPH_INLINE float largest_of(const float *numbers, long count) {
    std::int32_t most = 0;
    for (long i = 0; i < count; i++) {
        std::int32_t bits;
        std::memcpy(&bits, numbers + i, sizeof bits);
        bits &= 0x7fffffff;
        most = most > bits ? most : bits;
    }
    float largest;
    std::memcpy(&largest, &most, sizeof largest);
    return largest;
}

// Codes of 8 bits for the elements of a row: each block has a scale of its own. Those of 4-bit weights lie with the even
// ones of a unit before the odd ones.
ONEGRAPH_INLINE void quantize(const float *source, long known, long depth, long lanes, long per, long block, std::int8_t *codes,
        float *sums, float *steps) {
    constexpr float ROUNDING = 0x1.8p23f; // numbers of this size are whole
    const long half = lanes * per / 2;
    std::int8_t ordered[MOST_BLOCK];
    int words[MOST_BLOCK];
    for (long begin = 0; begin < depth; begin += block) {
        const long rest = known - begin, count = rest < 0 ? 0 : rest < block ? rest : block;
        const float *const numbers = source + begin;
        const float step = largest_of(numbers, count) / MOST_STEPS, factor = step > LEAST_STEP ? 1 / step : 0;
        for (long k = 0; k < count; k++)
            words[k] = static_cast<int>(numbers[k] * factor + ROUNDING - ROUNDING);
        for (long k = count; k < block; k++)
            words[k] = 0;
        for (long k = 0; k < block; k++)
            ordered[k] = static_cast<std::int8_t>(words[k]);
        for (long word = 0; word < block / per; word++) {
            int sum = 0;
            for (long k = 0; k < per; k++)
                sum += words[word * per + k];
            sums[begin / per + word] = static_cast<float>(sum);
            steps[begin / per + word] = step;
        }
        if (per == 4) {
            std::memcpy(codes + begin, ordered, static_cast<std::size_t>(block));
            continue;
        }
        const long some = block < 2 * half ? block : 2 * half;
        for (long first = 0; first < block; first += some) {
            const long at = begin + first, unit = at / (2 * half) * (2 * half);
            std::int8_t *const even = codes + unit + (at - unit) / 2;
            for (long k = 0; k < some / 2; k++) {
                even[k] = ordered[first + 2 * k];
                even[half + k] = ordered[first + 2 * k + 1];
            }
        }
    }
}

// Whether sums of products of the numbers of a row and codes neither overflow nor lose digits.
bool is_plain(const float *numbers, long count) {
    const float largest = ForCpu<largest_of>::of()(numbers, count);
    return largest == 0 || (largest >= LEAST_PLAIN && largest <= MOST_PLAIN);
}

struct PackedProblem {
    Coding coding;
    PackedMatrix matrix; // without codes
    const PackedTiles &tiles;
    const TileProducts *tile_products; // NULL if there are none for these weights
    const CodeProducts *code_products; // likewise
    bool is_coded, unpacks, is_fast;
    float zero; // of all signed codes, if there are no zero points
    long rows, columns, groups, filled; // groups that have scales, and those of the padded depth
    int zeros_at, bias_at, dst_at; // places of tensors; -1 for none
    dnnl_data_type_t types[6];

    const char *at(void *const *addresses, int place, long index) const {
        return static_cast<const char *>(addresses[place]) + static_cast<std::size_t>(index) * size_of(types[place]);
    }

    void to_f32(void *const *addresses, int place, long index, long count, float *numbers) const {
        const char *const source = at(addresses, place, index);
        if (types[place] == dnnl_s8)
            std::copy_n(reinterpret_cast<const std::int8_t *>(source), count, numbers);
        else if (types[place] == dnnl_u8)
            std::copy_n(reinterpret_cast<const std::uint8_t *>(source), count, numbers);
        else
            cast(types[place], source, dnnl_f32, reinterpret_cast<char *>(numbers), static_cast<std::size_t>(count), is_fast);
    }

    // The zero point of unsigned codes, and whether each column has one of its own, or one that is no small whole number.
    float center() const { return zero + (coding.width == FOUR ? 8.0f : 128.0f); }
    bool has_zeros() const { return zeros_at >= 0 || center() != std::floor(center()) || std::fabs(center()) > 255; }

    // A row of src in f32, which may have to be written to `memory`.
    const float *row(void *const *addresses, long index, float *memory) const {
        if (types[0] == dnnl_f32) return reinterpret_cast<const float *>(at(addresses, 0, index * matrix.known));
        to_f32(addresses, 0, index * matrix.known, matrix.known, memory);
        return memory;
    }

    // A column, whose scales and zero points may have to be written to memory. Without zero points in a tensor those of
    // the memory stay as they are.
    PackedColumn column(void *const *addresses, long index, bool needs_zeros, float *own_scales, float *own_zeros) const {
        const char *const codes = static_cast<const char *>(addresses[1]) + index * matrix.bytes;
        if (coding.width > EIGHT) return {codes, nullptr, nullptr};
        const float *scales = own_scales;
        if (types[2] == dnnl_f32 && groups == filled) {
            scales = reinterpret_cast<const float *>(at(addresses, 2, index * groups));
        } else {
            to_f32(addresses, 2, index * groups, groups, own_scales);
            std::fill(own_scales + groups, own_scales + filled, 0.0f);
        }
        if (zeros_at >= 0) {
            to_f32(addresses, zeros_at, index * groups, groups, own_zeros);
            for (long i = 0; i < groups; i++)
                own_zeros[i] -= coding.center;
        }
        return {codes, scales, zeros_at >= 0 || zero != 0 || needs_zeros ? own_zeros : nullptr};
    }
};

// The threads of a run.
inline int threads_of(const PackedProblem &problem, int threads) {
    const long bytes = problem.columns * problem.matrix.bytes;
    const bool is_small = bytes * ((problem.rows + TOGETHER - 1) / TOGETHER) < 2 * static_cast<long>(SHARE);
    return is_small || threads < 2 || !openmp().parallel ? 1 : threads;
}

// The memory of a thread.
struct Own {
    float *scales, *zeros, *row, *panel;
    float *results, *segment_scales; // of tiles
    std::uint16_t *columns; // a panel of tiles

    static long size(const PackedProblem &problem, bool is_tiled, long rows) {
        const long depth = problem.matrix.depth, shared = 2 * TOGETHER * problem.filled + COLUMNS * BLOCK_DEPTH;
        if (!is_tiled) return shared + depth;
        return shared + TILE * depth + TILED_COLUMNS * (rows + TILE) + PANEL * (CHUNK / TILE + PANEL_STRIDE / 2);
    }

    Own(const PackedProblem &problem, bool is_tiled, long rows, float *memory) {
        const auto next = [&](long count) { return std::exchange(memory, memory + count); };
        panel = next(COLUMNS * BLOCK_DEPTH);
        columns = reinterpret_cast<std::uint16_t *>(is_tiled ? next(PANEL * PANEL_STRIDE / 2) : nullptr);
        results = is_tiled ? next(TILED_COLUMNS * (rows + TILE)) : nullptr;
        segment_scales = is_tiled ? next(PANEL * CHUNK / TILE) : nullptr;
        row = next((is_tiled ? TILE : 1) * problem.matrix.depth);
        scales = next(TOGETHER * problem.filled);
        zeros = next(TOGETHER * problem.filled);
    }
};

// A run: its operands, and what it has prepared of a block of rows.
class PackedRun {
public:
    PackedRun(const PackedProblem &problem, void *const *addresses, int threads)
        : problem_(problem),
          addresses_(addresses),
          threads_(threads_of(problem, threads)),
          per_(per_word(problem.coding.width)),
          block_(std::min(problem.rows, ROW_BLOCK)),
          is_tiled_(problem.tile_products && problem.rows > (problem.is_coded ? FEW_OF_TILES : FEW)),
          unpacks_(problem.unpacks || is_tiled_ || problem.rows > (problem.is_coded ? FEW_CODED : FEW)),
          is_coded_(problem.is_coded && !unpacks_),
          is_rounded_(problem.is_coded || problem.types[0] == dnnl_bf16),
          pieces_(is_rounded_ ? 1 : problem.types[0] == dnnl_f16 ? 2 : 3),
          step_(is_rounded_ ? STEP : std::min(problem.matrix.group, STEP)),
          own_size_((Own::size(problem, is_tiled_, block_) + TILE) / TILE * TILE),
          own_(size(own_size_) * static_cast<std::size_t>(threads_)),
          tiles_(is_tiled_ ? size((block_ + TILE) * problem.matrix.depth * pieces_) : 0),
          numbers_(size(block_ * problem.matrix.depth)),
          sums_(size(block_ * words())),
          steps_(is_coded_ ? size(block_ * words()) : 0),
          codes_(is_coded_ ? size(block_ * problem.matrix.depth) : 0),
          offsets_(is_coded_ && !problem.has_zeros() ? size(block_ * words()) : 0),
          bias_(problem.bias_at < 0 ? 0 : size(problem.columns)),
          results_(problem.types[problem.dst_at] == dnnl_f32 ? 0 : size(block_ * problem.columns)),
          plain_(size(block_)) {}

    void run() {
        if (problem_.bias_at >= 0) problem_.to_f32(addresses_, problem_.bias_at, 0, problem_.columns, bias_.get());
        for (long first = 0; first < problem_.rows; first += block_) {
            const long count = std::min(block_, problem_.rows - first);
            prepare(first, count);
            float *const results = results_of(first);
            divided(problem_.columns, is_tiled_ ? PANEL : static_cast<long>(UNIT_COLUMNS),
                    [&](const Own &own, long begin, long end) { multiply(own, count, begin, end, results); });
            if (results_.get())
                cast(dnnl_f32, reinterpret_cast<const char *>(results), problem_.types[problem_.dst_at],
                        static_cast<char *>(addresses_[problem_.dst_at])
                                + size(first * problem_.columns) * size_of(problem_.types[problem_.dst_at]),
                        size(count * problem_.columns), problem_.is_fast);
        }
    }

private:
    static std::size_t size(long count) { return static_cast<std::size_t>(count); }

    long words() const { return problem_.matrix.depth / per_; }

    float *results_of(long first) const {
        if (results_.get()) return results_.get();
        return static_cast<float *>(addresses_[problem_.dst_at]) + first * problem_.columns;
    }

    // Calls `body(own, begin, end)` for parts of `total` on the threads.
    template <typename Body>
    void divided(long total, long unit, const Body &body) const {
        const long wanted = std::min(static_cast<long>(threads_), (total + unit - 1) / unit);
        together(static_cast<int>(wanted), [&](std::size_t thread) {
            const Own own(problem_, is_tiled_, block_, own_.get() + thread * size(own_size_));
            const auto place = [&](std::size_t part) {
                return static_cast<long>(part_of(size(total), size(unit), part, size(wanted)));
            };
            body(own, place(thread), place(thread + 1));
        });
    }

    void prepare(long first, long count) const {
        if (is_tiled_)
            return divided((count + TILE - 1) / TILE, 1, [&](const Own &own, long begin, long end) {
                for (long tile = begin; tile < end; tile++)
                    prepare_tile(own, first, tile * TILE, std::min((tile + 1) * TILE, count));
            });
        const bool is_alone = count * problem_.matrix.depth < static_cast<long>(SHARE);
        divided(count, is_alone ? count : 1, [&](const Own &own, long begin, long end) {
            for (long row = begin; row < end; row++)
                prepare_row(own, first + row, row);
        });
    }

    // The rows from `begin` to `end` of a block, which make a tile. Those that are not plain are multiplied alone.
    void prepare_tile(const Own &own, long first, long begin, long end) const {
        const PackedMatrix &matrix = problem_.matrix;
        const float *rows[TILE] = {};
        for (long row = begin; row < end; row++) {
            const float *const source = problem_.row(addresses_, first + row, own.row + (row - begin) * matrix.depth);
            if ((plain_.get()[row] = is_plain(source, matrix.known)))
                rows[row - begin] = source;
            else
                ForCpu<order>::of()(source, matrix.known, matrix.depth, problem_.tiles.lanes, per_, numbers_.get() + row * matrix.depth);
        }
        problem_.tile_products->arrange(rows, matrix.known, matrix.depth, step_, pieces_,
                tiles_.get() + begin * matrix.depth * pieces_);
    }

    void prepare_row(const Own &own, long row, long place) const {
        const PackedMatrix &matrix = problem_.matrix;
        const long depth = matrix.depth, known = matrix.known, lanes = problem_.tiles.lanes;
        const float *const source = problem_.row(addresses_, row, own.row);
        const bool plain = plain_.get()[place] = is_plain(source, known);
        float *const numbers = numbers_.get() + place * depth, *const sums = sums_.get() + place * words();
        if (!is_coded_ || !plain) ForCpu<order>::of()(source, known, depth, lanes, per_, numbers);
        if (is_coded_)
            ForCpu<quantize>::of()(source, plain ? known : 0, depth, lanes, per_, std::min(matrix.group, 16 * per_),
                    codes_.get() + place * depth, sums, steps_.get() + place * words());
        else if (!unpacks_)
            ForCpu<sum_words>::of()(numbers, depth, lanes, per_, sums);
        if (offsets_.get())
            for (long word = 0; word < words(); word++)
                offsets_.get()[place * words() + word] = -static_cast<std::int32_t>(sums[word] * problem_.center());
    }

    // `place`: which of the columns that are read at once.
    PackedColumn column_of(const Own &own, long column, long place = 0) const {
        return problem_.column(addresses_, column, is_coded_, own.scales + place * problem_.filled,
                own.zeros + place * problem_.filled);
    }

    void multiply(const Own &own, long count, long begin, long end, float *results) const {
        std::fill_n(own.zeros, TOGETHER * problem_.filled, problem_.zero); // a padded one meets a scale of 0
        const bool *const plain = plain_.get();
        const auto alone = [&] {
            for (long row = 0; row < count; row++)
                if (!plain[row]) unpacked(own, row, 1, begin, end, results);
        };
        if (is_tiled_) {
            problem_.tile_products->configure(step_);
            for (long first = begin; first < end; first += TILED_COLUMNS)
                tiled(own, count, first, std::min(first + TILED_COLUMNS, end), results);
            problem_.tile_products->release();
            return alone();
        }
        const bool are_plain = std::all_of(plain, plain + count, [](bool one) { return one; });
        if (unpacks_ || (!is_coded_ && !are_plain)) return unpacked(own, 0, count, begin, end, results);
        // Columns that lie far apart are read at once: the CPU fetches each of a few long streams ahead.
        const long length = (end - begin) / TOGETHER, rest = begin + length * TOGETHER;
        for (long column = begin; column < begin + length; column++)
            few(own, column, length, TOGETHER, count, results);
        for (long column = rest; column < end; column++)
            few(own, column, 0, 1, count, results);
        alone();
    }

    // All rows of a block and some columns.
    void tiled(const Own &own, long count, long begin, long end, float *results) const {
        const TileProducts &products = *problem_.tile_products;
        const long depth = problem_.matrix.depth, tiles = (count + TILE - 1) / TILE, size = tiles * PANEL * TILE;
        std::fill_n(own.results, (end - begin + PANEL - 1) / PANEL * size, 0.0f);
        for (long k = 0; k < depth; k += CHUNK)
            for (long first = begin; first < end; first += PANEL)
                multiply_panel(own, tiles, first, std::min(first + PANEL, end), k, std::min(k + CHUNK, depth),
                        own.results + (first - begin) / PANEL * size);
        for (long tile = 0; tile < tiles; tile++)
            for (long first = begin; first < end; first += PANEL)
                products.write(own.results + (first - begin) / PANEL * size + tile * PANEL * TILE,
                        std::min(TILE, count - tile * TILE), std::min(PANEL, end - first),
                        bias_.get() ? bias_.get() + first : nullptr,
                        results + tile * TILE * problem_.columns + first, problem_.columns);
    }

    // The columns from `begin` to `end`, which make a panel, and elements from `k` to `stop` of tiles of rows.
    void multiply_panel(
            const Own &own, long tiles, long begin, long end, long k, long stop, float *results) const {
        const TileProducts &products = *problem_.tile_products;
        const PackedMatrix &matrix = problem_.matrix;
        const long length = std::gcd(matrix.group, per_ * TILE), segments = (stop - k) / length;
        for (long i = 0; i < PANEL; i++) {
            std::uint16_t *const numbers = own.columns + i * PANEL_STRIDE;
            float *const scales = own.segment_scales + i;
            const PackedColumn column = begin + i < end ? column_of(own, begin + i) : PackedColumn {};
            if (column.codes) products.unpack(matrix, column, problem_.coding.width, is_rounded_, k, stop, numbers);
            if (column.scales) {
                const float *scale = column.scales + k / matrix.group;
                for (long at = 0, place = k % matrix.group; at < segments; at++) {
                    scales[at * PANEL] = *scale;
                    place += length;
                    if (place == matrix.group) place = 0, scale++;
                }
            } else if (!column.codes) {
                std::fill_n(numbers, stop - k, std::uint16_t {0});
                for (long at = 0; at < segments; at++)
                    scales[at * PANEL] = 0;
            }
        }
        const std::uint16_t *source = tiles_.get() + k * TILE * pieces_;
        const long jump = matrix.depth * TILE * pieces_, at_once = is_rounded_ ? 2 : 1;
        for (long tile = 0; tile < tiles; tile += at_once, source += at_once * jump, results += at_once * PANEL * TILE)
            if (is_rounded_)
                products.multiply(own.columns, PANEL_STRIDE, source, jump, tiles - tile, (stop - k) / STEP, results);
            else
                products.multiply_scaled(own.columns, PANEL_STRIDE, source, pieces_, step_, length / step_, segments,
                        own.segment_scales, results);
    }

    // Some rows and `width` columns, which lie `step` apart.
    void few(const Own &own, long column, long step, long width, long count, float *results) const {
        const PackedMatrix &matrix = problem_.matrix;
        const float *const bias = bias_.get() ? bias_.get() + column : nullptr;
        PackedColumn packed[TOGETHER];
        for (long i = 0; i < width; i++)
            packed[i] = column_of(own, column + i * step, i);
        for (long row = 0; row < count;) {
            const long some = count - row > 3 ? 4 : count - row > 1 ? 2 : 1;
            const PackedRows rows {numbers_.get() + row * matrix.depth, sums_.get() + row * words(),
                    codes_.get() + (is_coded_ ? row * matrix.depth : 0),
                    steps_.get() + (is_coded_ ? row * words() : 0),
                    offsets_.get() ? offsets_.get() + row * words() : nullptr};
            float sums[4 * TOGETHER];
            (is_coded_ ? problem_.tiles.coded : problem_.tiles.exact)(
                    matrix, packed, width, rows, problem_.coding.width, some, sums);
            for (long j = 0; j < width; j++)
                for (long i = 0; i < some; i++)
                    results[(row + i) * problem_.columns + column + j * step]
                            = sums[j * some + i] + (bias ? bias[j * step] : 0);
            row += some;
        }
    }

    void unpacked(const Own &own, long row, long count, long begin, long end, float *results) const {
        const long depth = problem_.matrix.depth, columns = problem_.columns;
        const float *const rows = numbers_.get() + row * depth;
        for (long first = begin; first < end; first += COLUMNS) {
            const long width = std::min(COLUMNS, end - first);
            float *const target = results + row * columns + first;
            for (long i = 0; i < count; i++)
                for (long j = 0; j < width; j++)
                    target[i * columns + j] = bias_.get() ? bias_.get()[first + j] : 0;
            for (long k = 0; k < depth; k += BLOCK_DEPTH) {
                const long stop = std::min(k + BLOCK_DEPTH, depth);
                for (long j = 0; j < width; j++)
                    problem_.tiles.unpack(problem_.matrix, column_of(own, first + j), problem_.coding.width, k, stop,
                            own.panel + j * BLOCK_DEPTH);
                problem_.tiles.multiply(
                        rows + k, depth, count, own.panel, BLOCK_DEPTH, width, stop - k, target, columns);
            }
        }
    }

    const PackedProblem &problem_;
    void *const *addresses_;
    const int threads_;
    const long per_, block_;
    const bool is_tiled_, unpacks_, is_coded_, is_rounded_;
    const long pieces_, step_, own_size_; // of tiles; the memory of a thread
    const Buffer<float> own_;
    const Buffer<std::uint16_t> tiles_;
    const Buffer<float> numbers_, sums_, steps_;
    const Buffer<std::int8_t> codes_;
    const Buffer<std::int32_t> offsets_;
    const Buffer<float> bias_, results_;
    const Buffer<bool> plain_;
};

// `tensors`: src, weights, scales and zero points of codes, a bias if there is one, and the result. The matrices of several
// experts lie one behind another; then each row of the result meets one of them. Rows of the weights are columns, or
// elements along the depth if `is_turned` is false. `known`: elements along the depth.
std::unique_ptr<PackedProblem> problem_of(const KernelArguments &arguments, const dnnl_graph_logical_tensor_t *const *tensors,
        std::size_t count, bool has_bias, long known, long experts, bool is_turned) {
    const Coding coding = coding_of(arguments.number("coding"));
    const bool has_scales = coding.width <= EIGHT, has_zeros = arguments.flag("zeros"), is_coded = arguments.flag("coded");
    if (count != std::size_t {3} + has_scales + has_zeros + has_bias || (!has_scales && (has_zeros || is_coded)))
        throw std::invalid_argument("other tensors than those of a packed product");
    const int level = arguments.number("level"), last = static_cast<int>(count) - 1;
    const dnnl_graph_logical_tensor_t &src = *tensors[0], &weights = *tensors[1], &dst = *tensors[last];
    if (weights.ndims < 2 || src.ndims < 1 || dst.ndims < 1 || !is_float(src.data_type) || !is_float(dst.data_type) || experts < 1
            || (has_scales && !is_turned))
        throw std::invalid_argument("no kernel for these tensors");
    const long lines = static_cast<long>(elements_of(weights)) / std::max(weights.dims[weights.ndims - 1], dnnl_dim_t {1}) / experts;
    const long line = weights.dims[weights.ndims - 1];
    const long columns = is_turned ? lines : line, row = is_turned ? line : lines, per = per_word(coding.width), unit = 16 * per;
    const long bytes = row * static_cast<long>(size_of(weights.data_type)), given = bytes * per / WORD;
    const long depth = has_scales ? given : (given + unit - 1) / unit * unit;
    const long group = has_scales ? arguments.number("group") : depth;
    const bool fits = group > 0 && (!has_scales || (group % 16 == 0 && (unit % group == 0 || group % unit == 0)));
    if (known <= 0 || columns <= 0 || elements_of(weights) != static_cast<std::size_t>(lines * line * experts) || given < known
            || depth % unit != 0 || !fits)
        throw std::invalid_argument("other sizes than those of a packed product");
    const long rows = static_cast<long>(elements_of(dst)) / columns, groups = (known + group - 1) / group;
    const PackedMatrix matrix {
            nullptr, depth, bytes, known, has_scales ? depth : known / unit * unit, coding.flip, std::min(group, depth)};
    auto problem = std::unique_ptr<PackedProblem>(new PackedProblem {coding, matrix, tiles_of(level), nullptr, nullptr, is_coded, arguments.flag("unpacks"),
            level > 0 && has_avx2(), arguments.real("zero") - coding.center, rows, columns, groups,
            (depth + group - 1) / group, has_zeros ? 3 : -1, has_bias ? last - 1 : -1, last, {}});
    const auto has = [&](int place, long elements) {
        return elements_of(*tensors[place]) == static_cast<std::size_t>(elements);
    };
    bool is_whole = rows > 0 && has(last, rows * columns);
    for (int i = 0; i <= last; i++)
        problem->types[i] = tensors[i]->data_type;
    if (has_scales) is_whole = is_whole && has(2, experts * columns * groups) && is_float(tensors[2]->data_type);
    if (has_zeros) is_whole = is_whole && has(3, experts * columns * groups) && tensors[3]->data_type != dnnl_s32;
    if (has_bias) is_whole = is_whole && has(last - 1, columns) && is_float(tensors[last - 1]->data_type);
    if (!is_whole) throw std::invalid_argument("other sizes than those of a packed product");
    // Codes minus zero points of more than 8 bits, or of fractions, are no numbers of bf16.
    const bool has_small_zeros = has_zeros ? size_of(tensors[3]->data_type) == 1 : std::fabs(problem->zero) <= 128;
    const bool is_rounded = is_coded || src.data_type == dnnl_bf16;
    const bool is_exact = has_scales ? is_rounded || has_small_zeros : is_rounded && coding.width == HALF_BF16;
    if (level > 2 && !problem->unpacks && is_coded) problem->code_products = code_products();
    // Products of codes take less time than vectors of bf16.
    if (level > 3 && !problem->unpacks && is_exact) problem->tile_products = tile_products(is_rounded && !problem->code_products);
    return problem;
}

} // namespace
} // namespace onegraph
