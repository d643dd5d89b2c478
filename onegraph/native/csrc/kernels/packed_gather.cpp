// Rows of a table of packed codes that indices name, as numbers.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

#include "registry.h"
#include "shares.h"

#include "sizes.h"

namespace onegraph {
namespace {

constexpr long PART = 512; // numbers of a row that are unpacked together

enum Coding : int { S4, U4, S8, U8, F16, BF16 };

// The codes of some bytes, of which those of 4 bits begin with the lower half. A code of 4 or 8 bits is signed by `flip`.
ONEGRAPH_INLINE void unpack_four(const std::uint8_t *bytes, long count, int flip, float *numbers) {
    for (long i = 0; i < count / 2; i++) {
        numbers[2 * i] = static_cast<float>(((bytes[i] & 15) ^ flip) - flip);
        numbers[2 * i + 1] = static_cast<float>(((bytes[i] >> 4) ^ flip) - flip);
    }
    if (count % 2) numbers[count - 1] = static_cast<float>(((bytes[count / 2] & 15) ^ flip) - flip);
}

ONEGRAPH_INLINE void unpack_eight(const std::uint8_t *bytes, long count, int flip, float *numbers) {
    for (long i = 0; i < count; i++)
        numbers[i] = static_cast<float>((bytes[i] ^ flip) - flip);
}

ONEGRAPH_INLINE void scale(float *numbers, long count, float zero, float factor) {
    for (long i = 0; i < count; i++)
        numbers[i] = (numbers[i] - zero) * factor;
}

// table (rows, bytes of a row) of codes, or (rows, numbers) of f16 or bf16; indices of s32 or s64; scales (rows, groups) of
// codes; zero points likewise, if there are any; the result (indices, depth). All tensors are dense.
//
// group: codes of a row that share a scale; 0 for all. zero: the zero point of all codes, if there are no tensors for it.
class PackedGather : public Runnable {
public:
    explicit PackedGather(const KernelArguments &arguments)
        : coding_(static_cast<Coding>(arguments.number("coding"))), zero_(arguments.real("zero"))
        , has_scales_(coding_ < F16), has_zeros_(arguments.flag("zeros")), level_(arguments.number("level")) {
        const auto tensors = arguments.tensors;
        last_ = static_cast<int>(arguments.count) - 1;
        if (last_ != 2 + has_scales_ + has_zeros_ || (has_zeros_ && !has_scales_) || tensors[0]->ndims != 2
                || tensors[last_]->ndims < 1 || !is_index(tensors[1]->data_type) || !is_float(tensors[last_]->data_type))
            throw std::invalid_argument("other tensors than those of a packed table");
        for (int i = 0; i <= last_; i++)
            types_[i] = tensors[i]->data_type;
        const auto &dst = *tensors[last_];
        depth_ = dst.dims[dst.ndims - 1], rows_ = tensors[0]->dims[0];
        bytes_ = tensors[0]->dims[1] * static_cast<long>(size_of(types_[0]));
        count_ = static_cast<long>(elements_of(*tensors[1]));
        group_ = arguments.number("group") > 0 ? arguments.number("group") : std::max(depth_, 1L);
        groups_ = (depth_ + group_ - 1) / group_;
        const auto fits = [&](int place) {
            return elements_of(*tensors[place]) == static_cast<std::size_t>(rows_ * groups_);
        };
        const long bits = coding_ < S8 ? 4 : coding_ < F16 ? 8 : 16;
        if (depth_ < 1 || bytes_ * 8 < depth_ * bits || elements_of(dst) != static_cast<std::size_t>(count_ * depth_)
                || (has_scales_ && !fits(2)) || (has_zeros_ && !fits(3)))
            throw std::invalid_argument("other sizes than those of a packed table");
    }

    void run(void *const *addresses, int threads) const override {
        check(addresses[1]);
        const auto unpack = coding_ < S8 ? ForCpu<unpack_four>::of(level_) : ForCpu<unpack_eight>::of(level_);
        const auto depth = static_cast<std::size_t>(depth_), total = static_cast<std::size_t>(count_) * depth;
        share(total, threads, depth, [&](std::size_t begin, std::size_t end) {
            for (std::size_t i = begin / depth; i < end / depth; i++) {
                const std::int64_t index = index_of(addresses[1], static_cast<long>(i));
                write_row(addresses, unpack, index < 0 ? index + rows_ : index, static_cast<long>(i));
            }
        });
    }

private:
    std::int64_t index_of(const void *indices, long place) const {
        if (types_[1] == dnnl_s32) return static_cast<const std::int32_t *>(indices)[place];
        return static_cast<const std::int64_t *>(indices)[place];
    }

    void check(const void *indices) const {
        for (long i = 0; i < count_; i++) {
            const std::int64_t index = index_of(indices, i);
            if (index >= -rows_ && index < rows_) continue;
            throw WrongContents("PackedGather: indices: " + std::to_string(index) + " at place " + std::to_string(i)
                    + "; expected numbers from " + std::to_string(-rows_) + " to " + std::to_string(rows_ - 1)
                    + ", the rows of the table");
        }
    }

    using Unpack = void (*)(const std::uint8_t *, long, int, float *);

    void write_row(void *const *addresses, Unpack unpack, long row, long place) const {
        const bool is_fast = level_ > 0 && has_avx2();
        const auto *const bytes = static_cast<const std::uint8_t *>(addresses[0]) + row * bytes_;
        const dnnl_data_type_t type = types_[last_];
        char *target = static_cast<char *>(addresses[last_]) + place * depth_ * static_cast<long>(size_of(type));
        if (!has_scales_)
            return cast(coding_ == F16 ? dnnl_f16 : dnnl_bf16, reinterpret_cast<const char *>(bytes), type, target,
                    static_cast<std::size_t>(depth_), is_fast);
        const int flip = coding_ == S4 ? 8 : coding_ == S8 ? 128 : 0;
        const auto multiply = ForCpu<scale>::of(level_);
        float numbers[PART];
        for (long begin = 0; begin < depth_; begin += PART) {
            const long end = std::min(begin + PART, depth_);
            unpack(bytes + (coding_ < S8 ? begin / 2 : begin), end - begin, flip, numbers);
            for (long at = begin; at < end;) {
                const long group = at / group_, stop = std::min((group + 1) * group_, end), part = row * groups_ + group;
                const float zero = has_zeros_ ? number_of(addresses, 3, part) : zero_;
                multiply(numbers + (at - begin), stop - at, zero, number_of(addresses, 2, part));
                at = stop;
            }
            cast(dnnl_f32, reinterpret_cast<const char *>(numbers), type,
                    target + begin * static_cast<long>(size_of(type)), static_cast<std::size_t>(end - begin), is_fast);
        }
    }

    // A scale or a zero point.
    float number_of(void *const *addresses, int port, long place) const {
        const auto *const bytes = static_cast<const char *>(addresses[port]);
        switch (types_[port]) {
            case dnnl_s8: return reinterpret_cast<const std::int8_t *>(bytes)[place];
            case dnnl_u8: return reinterpret_cast<const std::uint8_t *>(bytes)[place];
            case dnnl_f32: return reinterpret_cast<const float *>(bytes)[place];
            default: break;
        }
        float number;
        cast(types_[port], bytes + place * 2, dnnl_f32, reinterpret_cast<char *>(&number), 1, false);
        return number;
    }

    const Coding coding_;
    const float zero_;
    const bool has_scales_, has_zeros_;
    const int level_;
    int last_ = 0; // the place of the result
    dnnl_data_type_t types_[5] = {};
    long depth_ = 0, rows_ = 0, bytes_ = 0, count_ = 0, group_ = 0, groups_ = 0;
};

const Registered<PackedGather> PACKED_GATHER {
        "packed_gather", "coding: s4|u4|s8|u8|f16|bf16, group, zero: f32, zeros, level"};

} // namespace
} // namespace onegraph
