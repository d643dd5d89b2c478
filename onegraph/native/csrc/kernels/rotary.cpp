// Rotary embeddings: pairs of numbers of a head are turned by the angle of its token.

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "registry.h"
#include "shares.h"

#include "sizes.h"

namespace onegraph {
namespace {

// How the numbers of a row are turned.
struct Turn {
    std::size_t pairs, apart; // the second number of pair i is at `apart` + i * `step`, the first one at i * `step`
    std::size_t step, angle, second; // the angles of the two numbers are at i * `angle` and `second` + i * `angle`
};

ONEGRAPH_INLINE void turn_pairs(const float *src, const float *cos, const float *sin, float *dst, std::size_t count,
        std::size_t apart, std::size_t step, std::size_t angle, std::size_t second) {
#pragma GCC ivdep
    for (std::size_t i = 0; i < count; i++) {
        const float a = src[i * step], b = src[apart + i * step];
        dst[i * step] = a * cos[i * angle] - b * sin[i * angle];
        dst[apart + i * step] = b * cos[second + i * angle] + a * sin[second + i * angle];
    }
}

ONEGRAPH_INLINE void turn(const float *src, const float *cos, const float *sin, float *dst, const Turn &t) {
    if (t.step == 1 && t.angle == 1)
        turn_pairs(src, cos, sin, dst, t.pairs, t.apart, 1, 1, t.second);
    else
        turn_pairs(src, cos, sin, dst, t.pairs, t.apart, t.step, t.angle, t.second);
}

// The layout of a tensor, with strides in bytes, and 0 along an axis of size 1.
struct Layout {
    explicit Layout(const dnnl_graph_logical_tensor_t &tensor) : type(tensor.data_type) {
        const int rank = tensor.ndims;
        if (rank < 1 || rank > 4 || !is_float(type)) throw std::invalid_argument("other tensors than those of Rotary");
        for (int axis = 0; axis < rank; axis++)
            if (tensor.dims[axis] > 1)
                strides[4 - rank + axis] = tensor.layout.strides[axis] * static_cast<std::ptrdiff_t>(size_of(type));
    }

    // Reads a row as f32, into `copy` unless it is one in memory.
    const float *read(const char *row, float *copy, std::size_t count, bool is_fast) const {
        const auto size = static_cast<std::ptrdiff_t>(size_of(type));
        if (strides[3] == size && type == dnnl_f32) return reinterpret_cast<const float *>(row);
        if (strides[3] == size)
            cast(type, row, dnnl_f32, reinterpret_cast<char *>(copy), count, is_fast);
        else
            for (std::size_t i = 0; i < count; i++)
                cast(type, row + static_cast<std::ptrdiff_t>(i) * strides[3], dnnl_f32, reinterpret_cast<char *>(copy + i), 1, is_fast);
        return copy;
    }

    void write(char *row, const float *from, std::size_t count, bool is_fast) const {
        for (std::size_t i = 0; i < count; i++)
            cast(dnnl_f32, reinterpret_cast<const char *>(from + i), type, row + static_cast<std::ptrdiff_t>(i) * strides[3], 1, is_fast);
    }

    dnnl_data_type_t type;
    std::ptrdiff_t strides[4] = {};
};

// src (batch, heads, tokens, size), cos and sin (batch or 1, heads or 1, tokens or 1, angles), or tables (rows, angles)
// beside lengths (batch); dst. See the host op Rotary.
class Rotary : public Runnable {
public:
    explicit Rotary(const KernelArguments &arguments);
    void run(void *const *addresses, int threads) const override;

private:
    void check(const std::int64_t *lengths) const;

    bool has_lengths_, is_whole_;
    int level_;
    std::int64_t batch_, heads_, tokens_, rows_;
    std::size_t size_, angles_;
    Turn turn_;
    Layout src_, cos_, sin_, dst_;
    std::ptrdiff_t row_cos_ = 0, row_sin_ = 0; // from one row of a table to the next
};

Rotary::Rotary(const KernelArguments &arguments)
    : has_lengths_(arguments.flag("lengths")), is_whole_(arguments.flag("whole")), level_(arguments.number("level")),
      src_(*arguments.tensors[0]), cos_(*arguments.tensors[1]), sin_(*arguments.tensors[2]),
      dst_(*arguments.tensors[arguments.count - 1]) {
    if (arguments.count != (has_lengths_ ? 5u : 4u)) throw std::invalid_argument("other tensors than those of Rotary");
    const auto &src = *arguments.tensors[0], &cos = *arguments.tensors[1], &sin = *arguments.tensors[2];
    const auto &dst = *arguments.tensors[arguments.count - 1];
    bool fits = src.ndims == 4 && dst.ndims == 4 && elements_of(src) > 0;
    for (int axis = 0; fits && axis < 4; axis++)
        fits = dst.dims[axis] == src.dims[axis];
    if (has_lengths_)
        fits = fits && cos.ndims == 2 && sin.ndims == 2 && cos.dims[0] == sin.dims[0] && is_long(arguments.tensors[3]->data_type)
                && elements_of(*arguments.tensors[3]) == static_cast<std::size_t>(src.dims[0]);
    for (const auto *angles : {&cos, &sin})
        for (int axis = 0; !has_lengths_ && axis < angles->ndims - 1; axis++)
            fits = fits && (angles->dims[axis] == 1 || angles->dims[axis] == src.dims[4 - angles->ndims + axis]);
    if (!fits) throw std::invalid_argument("other sizes than those of Rotary");
    batch_ = src.dims[0], heads_ = src.dims[1], tokens_ = src.dims[2], size_ = static_cast<std::size_t>(src.dims[3]);
    angles_ = static_cast<std::size_t>(cos.dims[cos.ndims - 1]);
    const std::size_t pairs = is_whole_ ? angles_ / 2 : angles_;
    if (2 * pairs > size_ || sin.dims[sin.ndims - 1] != cos.dims[cos.ndims - 1] || (is_whole_ && angles_ % 2))
        throw std::invalid_argument("other angles than those of a head");
    const bool neighbours = arguments.flag("interleaved");
    const std::size_t apart = neighbours ? 1 : pairs, step = neighbours ? 2 : 1;
    turn_ = {pairs, apart, step, is_whole_ ? step : 1, is_whole_ ? apart : 0};
    rows_ = cos.dims[0];
    if (has_lengths_ && rows_ > 1) {
        row_cos_ = cos.layout.strides[0] * static_cast<std::ptrdiff_t>(size_of(cos_.type));
        row_sin_ = sin.layout.strides[0] * static_cast<std::ptrdiff_t>(size_of(sin_.type));
    }
}

void Rotary::check(const std::int64_t *lengths) const {
    for (std::int64_t i = 0; i < batch_; i++) {
        const std::int64_t last = std::max(lengths[i], tokens_);
        if (lengths[i] >= 0 && last <= rows_) continue;
        throw WrongContents("Rotary: lengths: " + std::to_string(lengths[i]) + " of row " + std::to_string(i)
                + "; expected numbers up to " + std::to_string(rows_) + ", the rows of cos, for at most so many tokens");
    }
}

void Rotary::run(void *const *addresses, int threads) const {
    const auto *source = static_cast<const char *>(addresses[0]), *cos = static_cast<const char *>(addresses[1]);
    const auto *sin = static_cast<const char *>(addresses[2]);
    const auto *lengths = has_lengths_ ? static_cast<const std::int64_t *>(addresses[3]) : nullptr;
    char *target = static_cast<char *>(addresses[has_lengths_ ? 4 : 3]);
    if (has_lengths_) check(lengths);
    const bool is_fast = level_ > 0 && has_avx2();
    const auto function = ForCpu<turn>::of(level_);
    const auto at = [](const Layout &tensor, std::int64_t batch, std::int64_t head, std::int64_t token) {
        return batch * tensor.strides[0] + head * tensor.strides[1] + token * tensor.strides[2];
    };
    const std::size_t total = static_cast<std::size_t>(batch_ * heads_ * tokens_);
    const bool is_plain = dst_.type == dnnl_f32 && dst_.strides[3] == 4;
    share(total * size_, threads, size_, [&](std::size_t begin, std::size_t end) {
        std::vector<float> copies(2 * size_ + 2 * angles_);
        float *const wide = copies.data(), *const made = wide + size_, *const cosines = made + size_, *const sines = cosines + angles_;
        for (std::size_t i = begin / size_; i < end / size_; i++) {
            const auto row = static_cast<std::int64_t>(i);
            const std::int64_t token = row % tokens_, head = row / tokens_ % heads_, batch = row / tokens_ / heads_;
            const std::int64_t place = has_lengths_ ? std::max<std::int64_t>(lengths[batch] - tokens_, 0) + token : 0;
            const char *const c = cos + (has_lengths_ ? place * row_cos_ : at(cos_, batch, head, token));
            const char *const s = sin + (has_lengths_ ? place * row_sin_ : at(sin_, batch, head, token));
            const float *const given = src_.read(source + at(src_, batch, head, token), wide, size_, is_fast);
            char *const written = target + at(dst_, batch, head, token);
            float *const result = is_plain ? reinterpret_cast<float *>(written) : made;
            function(given, cos_.read(c, cosines, angles_, is_fast), sin_.read(s, sines, angles_, is_fast), result, turn_);
            std::copy(given + 2 * turn_.pairs, given + size_, result + 2 * turn_.pairs);
            if (!is_plain) dst_.write(written, made, size_, is_fast);
        }
    });
}

const Registered<Rotary> ROTARY {"rotary", "interleaved, whole, lengths, level"};

} // namespace
} // namespace onegraph
