// Ops that the library computes right as long as no element is NaN or infinite: where one is, they are computed again.

#include <cmath>
#include <stdexcept>
#include <vector>

#include "registry.h"
#include "shares.h"
#include "special_numbers.h"

#include "floats.h"

namespace onegraph {
namespace {

float load(dnnl_data_type_t type, const char *address) {
    float number;
    cast(type, address, dnnl_f32, reinterpret_cast<char *>(&number), 1, has_avx2());
    return number;
}

void save(dnnl_data_type_t type, char *address, double number) {
    const auto rounded = static_cast<float>(number);
    cast(dnnl_f32, reinterpret_cast<const char *>(&rounded), type, address, 1, has_avx2());
}

// Whether `x` replaces the largest number so far: NaN is larger than every number.
bool is_larger(float x, float most) {
    return x > most || (x != x && most == most);
}

enum { SOFTMAX, MAX_POOL_BACKWARD };

// An op that the library has computed, and computes wrong where an element of src is NaN or infinite. Reads src, and only
// if it finds such an element computes the op again, element by element: dst is then what IEEE 754 says.
//
// src, other inputs; dst, which the library has written, and further results. All have any strides. `axis`: of a softmax; of
// the channels of a pool. `zero`: of a softmax, whether rows of minus infinity give 0. The list has four numbers for each
// spatial axis of a pool: kernel, stride, dilation and padding before.
class Guarded : public Runnable {
public:
    explicit Guarded(const KernelArguments &arguments);
    void run(void *const *addresses, int threads) const override;

private:
    using Bytes = std::ptrdiff_t;

    struct Axis {
        std::size_t size;
        Bytes stride;
    };

    struct Tensor {
        dnnl_data_type_t type;
        std::vector<Axis> axes;
    };

    static std::size_t count(const std::vector<Axis> &axes);
    static Bytes offset(const std::vector<Axis> &axes, std::size_t index); // of an element, counted in order

    void softmax(void *const *addresses, int threads, bool only_masked) const;
    void pool(void *const *addresses, int threads) const;
    std::ptrdiff_t largest(const char *source, const std::vector<Axis> &axes, const std::vector<Axis> &windows,
            std::size_t place) const;

    int of_, axis_;
    bool is_zero_;
    std::vector<int> numbers_;
    std::vector<Tensor> tensors_;
    SpecialNumbers source_;
};

Guarded::Guarded(const KernelArguments &arguments)
    : of_(arguments.number("of")), axis_(arguments.number("axis")), is_zero_(arguments.flag("zero")),
      numbers_(arguments.list(), arguments.list() + arguments.n_list()), source_(*arguments.tensors[0]) {
    for (std::size_t i = 0; i < arguments.count; i++) {
        const dnnl_graph_logical_tensor_t &tensor = *arguments.tensors[i];
        if (!is_float(tensor.data_type)) throw std::invalid_argument("no kernel for this data type");
        Tensor made {tensor.data_type, {}};
        for (int axis = 0; axis < tensor.ndims; axis++)
            made.axes.push_back({static_cast<std::size_t>(tensor.dims[axis]),
                    static_cast<Bytes>(size_of(tensor.data_type)) * tensor.layout.strides[axis]});
        tensors_.push_back(made);
    }
    const std::size_t rank = tensors_[0].axes.size();
    const std::size_t wanted = of_ == MAX_POOL_BACKWARD ? 4 * (rank - 2) : 0;
    if (arguments.count < arguments.n_inputs + 1 || numbers_.size() != wanted)
        throw std::invalid_argument("no such guarded op");
}

std::size_t Guarded::count(const std::vector<Axis> &axes) {
    std::size_t total = 1;
    for (const Axis &axis : axes)
        total *= axis.size;
    return total;
}

Guarded::Bytes Guarded::offset(const std::vector<Axis> &axes, std::size_t index) {
    Bytes found = 0;
    for (std::size_t axis = axes.size(); axis-- > 0; index /= axes[axis].size)
        found += static_cast<Bytes>(index % axes[axis].size) * axes[axis].stride;
    return found;
}

void Guarded::run(void *const *addresses, int threads) const {
    const unsigned found = source_.find(static_cast<const char *>(addresses[0]), threads);
    if (!found) return;
    // The library is right for masks, whose elements are -inf among numbers: only rows of nothing else are wrong.
    if (of_ == SOFTMAX) return softmax(addresses, threads, found == NEGATIVE);
    pool(addresses, threads);
}

// Rows whose elements are all numbers are left as they are; with `only_masked`, so are rows with any number.
void Guarded::softmax(void *const *addresses, int threads, bool only_masked) const {
    const std::size_t along = static_cast<std::size_t>(axis_), n = tensors_.size();
    std::vector<std::vector<Axis>> rows;
    for (const Tensor &tensor : tensors_) {
        rows.push_back(tensor.axes);
        rows.back()[along].size = 1;
    }
    const std::size_t width = tensors_[0].axes[along].size;
    const Bytes from = tensors_[0].axes[along].stride, to = tensors_[1].axes[along].stride;
    share(count(rows[0]) * width, threads, width, [&](std::size_t begin, std::size_t end) {
        for (std::size_t row = begin / width; row < end / width; row++) {
            const char *source = static_cast<const char *>(addresses[0]) + offset(rows[0], row);
            const auto at = [&](std::size_t i) { return load(tensors_[0].type, source + static_cast<Bytes>(i) * from); };
            std::size_t masked = 0;
            while (only_masked && masked < width && at(masked) == -INFINITY)
                masked++;
            if (only_masked && masked < width) continue;
            float top = -INFINITY;
            bool is_finite = true;
            for (std::size_t i = 0; i < width; i++) {
                const float x = at(i);
                is_finite = is_finite && std::isfinite(x);
                if (is_larger(x, top)) top = x;
            }
            if (is_finite) continue;
            double total = 0;
            for (std::size_t i = 0; i < width; i++)
                total += std::exp(static_cast<double>(at(i)) - top);
            const bool gives_zero = is_zero_ && top == -INFINITY;
            char *target = static_cast<char *>(addresses[1]) + offset(rows[1], row);
            for (std::size_t i = 0; i < width; i++, target += to) {
                const double share = std::exp(static_cast<double>(at(i)) - top) / total;
                save(tensors_[1].type, target, gives_zero ? 0 : share);
            }
            if (n < 3) continue;
            char *stats = static_cast<char *>(addresses[2]) + offset(rows[2], row);
            save(tensors_[2].type, stats, gives_zero ? 0 : top + std::log(total));
        }
    });
}

// The first largest element of the window at `place` of `windows`, or its last NaN, counted in order; -1 if all of it is
// padding.
std::ptrdiff_t Guarded::largest(const char *source, const std::vector<Axis> &axes, const std::vector<Axis> &windows,
        std::size_t place) const {
    const std::size_t n = axes.size();
    std::size_t taps = 1;
    std::vector<std::ptrdiff_t> starts(n);
    const auto number = [&](std::size_t axis, std::size_t what) {
        return static_cast<std::ptrdiff_t>(numbers_[4 * axis + what]);
    };
    for (std::size_t axis = n; axis-- > 0; place /= windows[axis].size) {
        taps *= static_cast<std::size_t>(number(axis, 0));
        starts[axis] = static_cast<std::ptrdiff_t>(place % windows[axis].size) * number(axis, 1) - number(axis, 3);
    }
    std::ptrdiff_t found = -1;
    float most = -INFINITY;
    for (std::size_t tap = 0; tap < taps; tap++) {
        Bytes at = 0, index = 0, unit = 1;
        bool is_inside = true;
        std::size_t rest = tap;
        for (std::size_t axis = n; axis-- > 0;) {
            const auto kernel = static_cast<std::size_t>(number(axis, 0));
            const std::ptrdiff_t x = starts[axis] + static_cast<std::ptrdiff_t>(rest % kernel) * number(axis, 2);
            is_inside = is_inside && x >= 0 && x < static_cast<std::ptrdiff_t>(axes[axis].size);
            at += x * axes[axis].stride;
            index += x * unit;
            unit *= static_cast<std::ptrdiff_t>(axes[axis].size);
            rest /= kernel;
        }
        if (!is_inside) continue;
        const float x = load(tensors_[0].type, source + at);
        if (found < 0 || x > most || x != x) most = x, found = index;
    }
    return found;
}

void Guarded::pool(void *const *addresses, int threads) const {
    const std::size_t channels = static_cast<std::size_t>(axis_), last = tensors_.size() - 1;
    std::vector<std::vector<Axis>> planes, places;
    for (const Tensor &tensor : tensors_) {
        planes.push_back({tensor.axes[0], tensor.axes[channels]});
        places.push_back(tensor.axes);
        places.back().erase(places.back().begin() + static_cast<std::ptrdiff_t>(channels));
        places.back().erase(places.back().begin());
    }
    const std::size_t windows = count(places[1]), size = count(places[0]);
    share(count(planes[0]) * size, threads, size, [&](std::size_t begin, std::size_t end) {
        for (std::size_t plane = begin / size; plane < end / size; plane++) {
            const char *source = static_cast<const char *>(addresses[0]) + offset(planes[0], plane);
            const char *diffs = static_cast<const char *>(addresses[1]) + offset(planes[1], plane);
            char *target = static_cast<char *>(addresses[last]) + offset(planes[last], plane);
            std::vector<double> sums(size);
            for (std::size_t place = 0; place < windows; place++) {
                const std::ptrdiff_t winner = largest(source, places[0], places[1], place);
                const float diff = load(tensors_[1].type, diffs + offset(places[1], place));
                if (winner >= 0) sums[static_cast<std::size_t>(winner)] += diff;
            }
            for (std::size_t i = 0; i < size; i++)
                save(tensors_[last].type, target + offset(places[last], i), sums[i]);
        }
    });
}

const Registered<Guarded> GUARDED {
        "guarded", "of: softmax|max_pool_backward, axis, zero, windows..."};

} // namespace
} // namespace onegraph
