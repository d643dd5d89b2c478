// Runs a kernel for single elements on tensors of any strides.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "rows.h"
#include "shares.h"

#include "floats.h"

namespace onegraph {
namespace {

constexpr std::size_t SHORT = 16; // elements of a row, bytes of a copied one; a longer axis with strides takes less time
constexpr std::size_t LONG = 8192; // bytes of a row that are worth a call
constexpr std::size_t PIECE = 4096; // elements of a piece of rows; its cache lines stay in the first cache

// Copies rows of `size` bytes whose beginnings lie `to` and `from` bytes apart. A call for each row takes as long as
// copying 100 bytes.
void copy_rows(char *target, Bytes to, const char *source, Bytes from, std::size_t size, std::size_t rows) {
    constexpr std::size_t CHUNK = 16;
    for (; rows > 0; rows--, target += to, source += from) {
        std::size_t done = 0;
        for (; done + CHUNK <= size; done += CHUNK)
            std::memcpy(target + done, source + done, CHUNK);
        if (done == size) continue;
        if (size >= CHUNK)
            std::memcpy(target + size - CHUNK, source + size - CHUNK, CHUNK); // some bytes a second time
        else
            for (; done < size; done++)
                target[done] = source[done];
    }
}

} // namespace

Rows::Rows(const KernelArguments &arguments, FindRow find, bool copies) : copies_(copies), count_(arguments.count) {
    const std::size_t count = arguments.count;
    const auto tensors = arguments.tensors;
    if (count > MOST) throw std::invalid_argument("too many tensors");
    for (std::size_t i = 0; i < count; i++)
        types_[i] = tensors[i]->data_type;
    row_ = find(count, types_);
    if (!row_) throw std::invalid_argument("no kernel for these data types");
    const dnnl_graph_logical_tensor_t &result = *tensors[count - 1];
    for (int axis = 0; axis < result.ndims; axis++) {
        Axis made {static_cast<std::size_t>(result.dims[axis]), {}};
        total_ *= made.size;
        for (std::size_t i = 0; i < count; i++) {
            const int own = axis - result.ndims + tensors[i]->ndims;
            if (own < 0 || tensors[i]->dims[own] == 1) continue;
            if (tensors[i]->dims[own] != result.dims[axis]) throw std::invalid_argument("other sizes than those of the result");
            made.strides[i] = static_cast<Bytes>(size_of(types_[i])) * tensors[i]->layout.strides[own];
        }
        if (made.size != 1) axes_.push_back(made);
    }
    if (total_ == 0) axes_.clear();
    merge_axes();
    const std::size_t row = axes_.back().size * size_of(types_[0]);
    copied_ = copies_rows() && axes_.size() > 1 && row <= LONG ? row : 0;
}

// Whether the elements along the last axis are copied from one place to another, where they lie side by side too.
bool Rows::copies_rows() const {
    const auto size = static_cast<Bytes>(size_of(types_[0]));
    const Axis &last = axes_.back();
    return copies_ && types_[0] == types_[1] && last.strides[0] == size && last.strides[1] == size;
}

// Orders the axes as the result lies in memory, and merges neighbours that are one axis for every tensor.
void Rows::merge_axes() {
    const std::size_t last = count_ - 1;
    const auto is_outside = [&](const Axis &a, const Axis &b) { return a.strides[last] > b.strides[last]; };
    std::stable_sort(axes_.begin(), axes_.end(), is_outside);
    std::vector<Axis> merged;
    for (const Axis &axis : axes_) {
        bool is_one = !merged.empty();
        for (std::size_t i = 0; i < count_ && is_one; i++)
            is_one = merged.back().strides[i] == axis.strides[i] * static_cast<Bytes>(axis.size);
        if (is_one) {
            const std::size_t size = merged.back().size * axis.size;
            merged.back() = axis;
            merged.back().size = size;
        } else {
            merged.push_back(axis);
        }
    }
    if (merged.empty()) merged.push_back({1, {}});
    axes_ = std::move(merged);
    const auto is_shorter = [](const Axis &a, const Axis &b) { return a.size < b.size; };
    const auto longest = std::max_element(axes_.begin(), axes_.end(), is_shorter);
    const bool is_short = axes_.back().size * (copies_rows() ? size_of(types_[0]) : 1) < SHORT;
    if (is_short) std::rotate(longest, longest + 1, axes_.end());
    divide_last_axis();
}

// Takes an axis along which an input lies the other way round next to the last axis, and divides the last axis into
// pieces: the cache lines of a piece are then read once.
void Rows::divide_last_axis() {
    if (axes_.size() < 2) return;
    const auto is_turned = [&](const Axis &axis) {
        for (std::size_t i = 0; i < count_; i++)
            if (axis.strides[i] != 0 && std::abs(axis.strides[i]) < std::abs(axes_.back().strides[i])) return true;
        return false;
    };
    const auto turned = std::find_if(axes_.rbegin() + 1, axes_.rend(), is_turned);
    if (turned == axes_.rend()) return;
    std::rotate(turned.base() - 1, turned.base(), axes_.end() - 1);
    const Axis &row = axes_.back(), &outer = axes_[axes_.size() - 2];
    std::size_t piece = std::min(row.size, std::max(SHORT, PIECE / outer.size));
    while (row.size % piece)
        piece--;
    if (piece < SHORT || piece == row.size) return;
    Axis pieces = row;
    pieces.size = row.size / piece;
    for (std::size_t i = 0; i < count_; i++)
        pieces.strides[i] *= static_cast<Bytes>(piece);
    axes_.back().size = piece;
    axes_.insert(axes_.end() - 2, pieces);
}

void Rows::compute(char *const *addresses, std::size_t begin, std::size_t end) const {
    std::size_t places[DNNL_MAX_NDIMS] = {};
    char *pointers[MOST];
    std::copy_n(addresses, count_, pointers);
    const std::size_t last = axes_.size() - 1;
    for (std::size_t axis = last + 1, rest = begin; axis-- > 0; rest /= axes_[axis].size) {
        places[axis] = rest % axes_[axis].size;
        for (std::size_t i = 0; i < count_; i++)
            pointers[i] += static_cast<Bytes>(places[axis]) * axes_[axis].strides[i];
    }
    const auto advance = [&](std::size_t axis, Bytes steps) {
        for (std::size_t i = 0; i < count_; i++)
            pointers[i] += steps * axes_[axis].strides[i];
    };
    while (begin < end) {
        const Axis &row = axes_[last];
        std::size_t rows = copied_ && places[last] == 0 ? (end - begin) / row.size : 0;
        if (rows > 0) {
            const Axis &next = axes_[last - 1];
            rows = std::min(rows, next.size - places[last - 1]);
            copy_rows(pointers[1], next.strides[1], pointers[0], next.strides[0], copied_, rows);
            begin += rows * row.size;
            advance(last - 1, static_cast<Bytes>(rows - 1));
            places[last - 1] += rows - 1;
        } else {
            const std::size_t some = std::min(end - begin, row.size - places[last]);
            row_(pointers, row.strides, some, types_);
            begin += some;
        }
        if (begin == end) break;
        advance(last, -static_cast<Bytes>(places[last]));
        places[last] = 0;
        for (std::size_t axis = last; axis-- > 0;) {
            advance(axis, 1);
            if (++places[axis] < axes_[axis].size) break;
            advance(axis, -static_cast<Bytes>(places[axis]));
            places[axis] = 0;
        }
    }
}

// Whether each element is already at its place.
bool Rows::is_done(void *const *addresses) const {
    if (!copies_ || types_[0] != types_[1] || addresses[0] != addresses[1]) return false;
    return std::all_of(axes_.begin(), axes_.end(), [](const Axis &axis) { return axis.strides[0] == axis.strides[1]; });
}

void Rows::run(void *const *addresses, int threads) const {
    if (total_ == 0) return;
    if (is_done(addresses)) return; // a cache that grows where it lies
    char *pointers[MOST];
    for (std::size_t i = 0; i < count_; i++)
        pointers[i] = static_cast<char *>(addresses[i]);
    share(total_, threads, 64, [&](std::size_t begin, std::size_t end) { compute(pointers, begin, end); });
}

} // namespace onegraph
