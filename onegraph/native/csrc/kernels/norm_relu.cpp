// What a ReLU behind a BatchNormForwardTraining loses when the library computes both in one kernel.

#include <atomic>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "registry.h"
#include "shares.h"

#include "floats.h"

namespace onegraph {
namespace {

// A ReLU behind a BatchNormForwardTraining, which the library has computed in one kernel: a ReLU of NaN is then 0. A channel
// has NaN only if its statistics, gamma or beta are not finite. Reads those, and computes such channels again.
//
// src, batch mean, batch variance, gamma and beta if there are any; dst, which the library has written.
class NormRelu : public Runnable {
public:
    explicit NormRelu(const KernelArguments &arguments);
    void run(void *const *addresses, int threads) const override;

private:
    struct Axis {
        std::size_t size;
        std::ptrdiff_t from, to; // strides in elements
    };

    bool has_gamma_, has_beta_;
    float epsilon_;
    dnnl_data_type_t type_;
    Axis channels_ {};
    std::vector<Axis> outer_;
    std::size_t places_ = 1; // elements of a channel
};

NormRelu::NormRelu(const KernelArguments &arguments)
    : has_gamma_(arguments.flag("gamma")), has_beta_(arguments.flag("beta")), epsilon_(arguments.real("epsilon")) {
    const std::size_t channels = arguments.size("channels"), count = arguments.count;
    const auto tensors = arguments.tensors;
    const dnnl_graph_logical_tensor_t &source = *tensors[0], &target = *tensors[count - 1];
    const std::size_t wanted = 4u + has_gamma_ + has_beta_;
    if (count != wanted || channels >= static_cast<std::size_t>(source.ndims) || target.ndims != source.ndims
            || !is_float(source.data_type) || source.data_type != target.data_type)
        throw std::invalid_argument("other tensors than those of a normalization and a ReLU");
    type_ = source.data_type;
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(source.ndims); axis++) {
        const Axis made {static_cast<std::size_t>(source.dims[axis]), source.layout.strides[axis], target.layout.strides[axis]};
        if (axis == channels)
            channels_ = made;
        else
            outer_.push_back(made), places_ *= made.size;
    }
    for (std::size_t i = 1; i < count - 1; i++)
        if (tensors[i]->data_type != dnnl_f32 || elements_of(*tensors[i]) != channels_.size)
            throw std::invalid_argument("other statistics than those of a normalization");
}

void NormRelu::run(void *const *addresses, int threads) const {
    const auto row = [&](std::size_t at) { return static_cast<const float *>(addresses[at]); };
    const float *mean = row(1), *variance = row(2), *gamma = has_gamma_ ? row(3) : nullptr;
    const float *beta = has_beta_ ? row(3u + has_gamma_) : nullptr;
    struct Channel {
        std::size_t at;
        float mean, factor, shift;
    };
    std::vector<Channel> found;
    for (std::size_t c = 0; c < channels_.size; c++) {
        const float scale = gamma ? gamma[c] : 1.0f, shift = beta ? beta[c] : 0.0f;
        // A difference with itself is 0 for a number, and NaN otherwise.
        const float rest = (mean[c] - mean[c]) + (variance[c] - variance[c]) + (scale - scale) + (shift - shift);
        if (rest != rest) found.push_back({c, mean[c], scale / std::sqrt(variance[c] + epsilon_), shift});
    }
    if (found.empty()) return;
    const auto size = static_cast<std::ptrdiff_t>(size_of(type_));
    const auto *source = static_cast<const char *>(addresses[0]);
    auto *target = static_cast<char *>(addresses[3u + has_gamma_ + has_beta_]);
    share(places_ * found.size(), threads, found.size(), [&](std::size_t begin, std::size_t end) {
        for (std::size_t place = begin / found.size(); place < end / found.size(); place++) {
            std::ptrdiff_t from = 0, to = 0;
            for (std::size_t axis = outer_.size(), rest = place; axis-- > 0; rest /= outer_[axis].size) {
                from += static_cast<std::ptrdiff_t>(rest % outer_[axis].size) * outer_[axis].from;
                to += static_cast<std::ptrdiff_t>(rest % outer_[axis].size) * outer_[axis].to;
            }
            for (const Channel &channel : found) {
                const auto at = static_cast<std::ptrdiff_t>(channel.at);
                float x;
                cast(type_, source + (from + at * channels_.from) * size, dnnl_f32, reinterpret_cast<char *>(&x), 1, has_avx2());
                const float y = (x - channel.mean) * channel.factor + channel.shift, result = y <= 0 ? 0 : y;
                cast(dnnl_f32, reinterpret_cast<const char *>(&result), type_, target + (to + at * channels_.to) * size, 1,
                        has_avx2());
            }
        }
    });
}

const Registered<NormRelu> NORM_RELU {"norm_relu", "channels, gamma, beta, epsilon: f32"};

} // namespace
} // namespace onegraph
