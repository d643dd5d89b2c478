// Rows of tokens that are written behind those of a cache.

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "registry.h"
#include "shares.h"

#include "sizes.h"

namespace onegraph {
namespace {

// A tensor (batch, heads, tokens, size), whose strides are in bytes.
struct Cache {
    explicit Cache(const dnnl_graph_logical_tensor_t &tensor) : tokens(tensor.dims[2]) {
        if (tensor.ndims != 4) throw std::invalid_argument("other axes than those of a cache");
        for (int axis = 0; axis < 4; axis++)
            strides[axis] = tensor.layout.strides[axis] * static_cast<std::ptrdiff_t>(size_of(tensor.data_type));
    }

    template <typename Char>
    Char *at(Char *address, std::int64_t batch, std::int64_t head, std::int64_t token) const {
        return address + batch * strides[0] + head * strides[1] + token * strides[2];
    }

    std::int64_t tokens;
    std::ptrdiff_t strides[4];
};

// past and rows, each (batch, heads, tokens, size), lengths (batch); dst. See the host op ExtendCache. With
// `takes_back`, it may keep the rows of past that it writes over.
class ExtendCache : public Runnable {
public:
    explicit ExtendCache(const KernelArguments &arguments)
        : may_take_back_(arguments.flag("takes_back")), past_(*arguments.tensors[0]), rows_(*arguments.tensors[1]),
          dst_(*arguments.tensors[arguments.count - 1]) {
        if (arguments.count != 4) throw std::invalid_argument("other tensors than those of ExtendCache");
        const auto &lengths = *arguments.tensors[2], &dst = *arguments.tensors[3];
        batch_ = dst.dims[0], heads_ = dst.dims[1], size_ = dst.dims[3], element_ = size_of(dst.data_type);
        bool fits = elements_of(dst) > 0 && past_.tokens <= dst_.tokens && is_long(lengths.data_type)
                && elements_of(lengths) == static_cast<std::size_t>(batch_);
        for (int i : {0, 1})
            for (int axis : {0, 1, 3})
                fits = fits && arguments.tensors[i]->dims[axis] == dst.dims[axis] && arguments.tensors[i]->data_type == dst.data_type;
        if (!fits) throw std::invalid_argument("other sizes than those of ExtendCache");
    }

    void run(void *const *addresses, int threads) const override {
        const auto *past = static_cast<const char *>(addresses[0]), *rows = static_cast<const char *>(addresses[1]);
        const auto *lengths = static_cast<const std::int64_t *>(addresses[2]);
        auto *dst = static_cast<char *>(addresses[3]);
        check(lengths);
        if (keeps_old_ && past == dst) keep(lengths, dst);
        const std::int64_t unit = dst_.tokens * size_;
        share(static_cast<std::size_t>(batch_ * heads_ * unit), threads, static_cast<std::size_t>(unit),
                [&](std::size_t begin, std::size_t end) {
                    for (std::size_t i = begin / static_cast<std::size_t>(unit); i < end / static_cast<std::size_t>(unit); i++) {
                        const auto place = static_cast<std::int64_t>(i);
                        extend(past, rows, lengths[place / heads_], dst, place / heads_, place % heads_);
                    }
                });
    }

    bool may_take_back() const override { return may_take_back_; }

    void take_back() const override {
        const std::size_t rows = bytes_of_rows();
        for (std::size_t i = 0; i < places_.size(); i++)
            std::memcpy(places_[i], old_.data() + i * rows, rows);
        places_.clear();
    }

    void keep_old(bool keeps) const override {
        keeps_old_ = keeps;
        places_.clear();
    }

private:
    std::size_t bytes_of_rows() const { return static_cast<std::size_t>(rows_.tokens * size_) * element_; }

    std::int64_t start_of(std::int64_t length) const { return std::max<std::int64_t>(length - rows_.tokens, 0); }

    // The places are known only when all rows are kept, so that a run without memory takes nothing back.
    void keep(const std::int64_t *lengths, char *dst) const {
        const std::size_t rows = bytes_of_rows();
        old_.resize(static_cast<std::size_t>(batch_ * heads_) * rows);
        std::vector<char *> places;
        for (std::int64_t i = 0; i < batch_ * heads_; i++) {
            places.push_back(dst_.at(dst, i / heads_, i % heads_, start_of(lengths[i / heads_])));
            std::memcpy(old_.data() + static_cast<std::size_t>(i) * rows, places.back(), rows);
        }
        places_ = std::move(places);
    }

    void check(const std::int64_t *lengths) const {
        for (std::int64_t i = 0; i < batch_; i++) {
            if (lengths[i] >= 0 && std::max(lengths[i], rows_.tokens) <= dst_.tokens) continue;
            throw WrongContents("ExtendCache: lengths: " + std::to_string(lengths[i]) + " of row " + std::to_string(i)
                    + "; expected numbers up to " + std::to_string(dst_.tokens)
                    + ", the tokens that the cache has room for, for at most so many rows");
        }
    }

    void extend(const char *past, const char *rows, std::int64_t length, char *dst, std::int64_t batch, std::int64_t head) const {
        const std::int64_t start = start_of(length), end = start + rows_.tokens;
        const std::int64_t before = std::min(start, past_.tokens);
        char *const target = dst_.at(dst, batch, head, 0);
        copy(past_, past_.at(past, batch, head, 0), target, before);
        fill(dst_.at(target, 0, 0, before), start - before);
        copy(rows_, rows_.at(rows, batch, head, 0), dst_.at(target, 0, 0, start), rows_.tokens);
        const std::int64_t behind = std::max<std::int64_t>(past_.tokens - end, 0);
        copy(past_, past_.at(past, batch, head, std::min(end, past_.tokens)), dst_.at(target, 0, 0, end), behind);
        fill(dst_.at(target, 0, 0, end + behind), dst_.tokens - end - behind);
    }

    // The rows of the result lie side by side. It may lie where past does, whose tokens are then at their places.
    void copy(const Cache &from, const char *source, char *target, std::int64_t tokens) const {
        if (source == target) return;
        const auto row = size_ * static_cast<std::ptrdiff_t>(element_);
        if (from.strides[3] == static_cast<std::ptrdiff_t>(element_) && from.strides[2] == row) {
            if (tokens > 0) std::memcpy(target, source, static_cast<std::size_t>(tokens * row));
            return;
        }
        for (std::int64_t token = 0; token < tokens; token++)
            for (std::int64_t i = 0; i < size_; i++)
                std::memcpy(target + token * row + i * static_cast<std::ptrdiff_t>(element_),
                        source + token * from.strides[2] + i * from.strides[3], element_);
    }

    void fill(char *target, std::int64_t tokens) const {
        if (tokens > 0) std::memset(target, 0, static_cast<std::size_t>(tokens * size_) * element_);
    }

    const bool may_take_back_;
    std::int64_t batch_, heads_, size_;
    std::size_t element_;
    Cache past_, rows_, dst_;
    mutable bool keeps_old_ = false;
    mutable std::vector<char> old_; // rows that the last run has written over
    mutable std::vector<char *> places_; // of these rows; none if there is nothing to take back
};

const Registered<ExtendCache> EXTEND_CACHE {"extend_cache", "takes_back"};

} // namespace
} // namespace onegraph
