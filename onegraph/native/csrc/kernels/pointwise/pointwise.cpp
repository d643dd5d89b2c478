// Several elementwise ops at once.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "../registry.h"
#include "../shares.h"
#include "problem.h"

#include "../floats.h"

namespace onegraph {
namespace {

// Elements of the least and the largest block; each block takes the time of 60 elements more.
constexpr std::size_t UNIT = 256, LARGEST = 1024;
constexpr std::size_t REGISTERS = 48;
constexpr std::size_t TOGETHER = 8192; // elements of all registers in use, which fit into the first cache
// Bytes of all tensors; results of more are not read again from a cache. Those of a gate are: the next step reads them.
constexpr std::size_t LARGE = 1u << 22;

constexpr int NONE = -1;
constexpr std::size_t LANES = 16; // a single number lies so often in its register

#if !defined(__x86_64__)
constexpr const PointwiseCompute &pointwise_avx2 = pointwise_portable, &pointwise_avx512 = pointwise_portable,
                                 &pointwise_bf16 = pointwise_portable;
#endif

bool is_unary(int kind) {
    return kind == POINTWISE_SQUARE || kind == POINTWISE_SQRT || kind == POINTWISE_COPY
            || kind == POINTWISE_SIGMOID || kind == POINTWISE_GELU_SLOPE || kind == POINTWISE_SILU;
}

// The op with its second operand held; NONE if there is none.
int turned(int kind) {
    switch (kind) {
        case POINTWISE_ADD:
        case POINTWISE_MULTIPLY:
        case POINTWISE_SQUARED_DIFFERENCE: return kind;
        case POINTWISE_SUBTRACT: return POINTWISE_SUBTRACT_FROM;
        case POINTWISE_DIVIDE: return POINTWISE_DIVIDE_INTO;
        case POINTWISE_GATE: return POINTWISE_GATE_BY;
        case POINTWISE_SIGMOID_BACKWARD: return POINTWISE_SIGMOID_BACKWARD_BY;
        case POINTWISE_TANH_BACKWARD: return POINTWISE_TANH_BACKWARD_BY;
        default: return NONE;
    }
}

// The ops in an order in which most of them compute with the result of the one before.
std::vector<PointwiseStage> in_chains(const std::vector<PointwiseStage> &ops, std::size_t n_tensors) {
    std::map<std::size_t, std::size_t> maker;
    for (std::size_t i = 0; i < ops.size(); i++)
        maker.emplace(ops[i].result, i);
    std::vector<PointwiseStage> ordered;
    const std::function<void(std::size_t)> add = [&](std::size_t number) {
        const auto found = maker.find(number);
        if (found == maker.end()) return;
        const PointwiseStage one = ops[found->second];
        maker.erase(found);
        add(one.second);
        add(one.first);
        ordered.push_back(one);
    };
    for (const PointwiseStage &one : ops)
        if (one.result < n_tensors) add(one.result);
    std::vector<bool> read(REGISTERS);
    for (std::size_t i = ordered.size(); i-- > 0;) {
        PointwiseStage &one = ordered[i];
        one.stores = one.result < n_tensors || read[one.result];
        const std::size_t held = i > 0 ? ordered[i - 1].result : REGISTERS;
        if (held == one.second && held != one.first && turned(one.kind) != NONE) {
            std::swap(one.first, one.second);
            one.kind = turned(one.kind);
        }
        one.loads = held != one.first;
        if (one.loads) read[one.first] = true;
        if (!is_unary(one.kind)) read[one.second] = true;
    }
    return ordered;
}

#if defined(__x86_64__)
// Writes past the caches, which saves reading what is overwritten.
ONEGRAPH_AVX2 void stream(const float *source, float *target, std::size_t count) {
    if (reinterpret_cast<std::uintptr_t>(target) % 32) {
        std::memcpy(target, source, count * sizeof(float));
        return;
    }
    for (; count >= 8; count -= 8, source += 8, target += 8)
        _mm256_stream_ps(target, _mm256_loadu_ps(source));
    std::memcpy(target, source, count * sizeof(float));
}

void finish_streams() {
    _mm_sfence();
}
#else
void stream(const float *source, float *target, std::size_t count) {
    std::memcpy(target, source, count * sizeof(float));
}

void finish_streams() {}
#endif

// Several elementwise ops on dense tensors of one size, on single numbers, on rows along the last axis, and on other tensors
// that are broadcast to this size, which reads and writes memory once.
//
// The ops are computed in f32 on blocks that stay in the first cache, and chains of ops in vectors. An op is four numbers:
// its kind, the register of its result, and those of its operands; an op with one operand repeats it. The first registers
// are the tensors, inputs first.
// A result may share memory with an input at the same elements.
class Pointwise : public Runnable {
public:
    explicit Pointwise(const KernelArguments &arguments);
    void run(void *const *addresses, int threads) const override;

private:
    struct Axis {
        std::size_t size, stride; // of the results, and in elements of the input: 0 where it is repeated
    };

    struct Tensor {
        dnnl_data_type_t type;
        bool is_single, is_row;
        bool is_direct; // whether the ops can read or write it where it lies
        std::size_t last_use; // of an input, the last op that reads it; of a result, the op that makes it
        std::vector<Axis> axes; // of an input that is broadcast and no row, the last one first
    };

    static std::vector<Axis> axes_of(const dnnl_graph_logical_tensor_t &input, const dnnl_graph_logical_tensor_t &result);
    static void spread(const Tensor &input, const char *source, std::size_t place, float *target, std::size_t count, bool is_fast);
    void compute(void *const *addresses, std::size_t begin, std::size_t end) const;

    std::size_t n_inputs_, n_registers_, total_ = 1;
    std::size_t row_ = 0, unit_, piece_; // elements of the inputs that are rows, that threads share, and of a block
    std::vector<Tensor> tensors_;
    std::vector<PointwiseStage> stages_;
    int level_;
    bool is_large_; // whether the results are written past the caches
};

// The axes of a dense input along those of a result, side by side where they can be one.
std::vector<Pointwise::Axis> Pointwise::axes_of(const dnnl_graph_logical_tensor_t &input, const dnnl_graph_logical_tensor_t &result) {
    std::vector<Axis> axes;
    std::size_t elements = 1; // of the axes behind
    for (int axis = result.ndims, own = input.ndims; axis-- > 0;) {
        const auto size = static_cast<std::size_t>(result.dims[axis]);
        const std::int64_t dim = own-- > 0 ? input.dims[own] : 1;
        if (dim != 1 && dim != result.dims[axis]) throw std::invalid_argument("an input that is not broadcast");
        const Axis one {size, dim == 1 ? 0 : elements};
        elements *= static_cast<std::size_t>(dim);
        if (size == 1) continue;
        if (!axes.empty() && one.stride == axes.back().stride * axes.back().size)
            axes.back().size *= size;
        else
            axes.push_back(one);
    }
    return axes;
}

// Writes the elements that `count` elements of the result from `place` on meet.
void Pointwise::spread(
        const Tensor &input, const char *source, std::size_t place, float *target, std::size_t count, bool is_fast) {
    const std::size_t size = size_of(input.type), n_axes = input.axes.size();
    std::size_t at[DNNL_MAX_NDIMS], from = 0;
    for (std::size_t axis = 0; axis < n_axes; axis++) {
        at[axis] = place % input.axes[axis].size, place /= input.axes[axis].size;
        from += at[axis] * input.axes[axis].stride;
    }
    const Axis &last = input.axes[0];
    while (count) {
        const std::size_t some = std::min(last.size - at[0], count);
        const char *const element = source + from * size;
        cast(input.type, element, dnnl_f32, reinterpret_cast<char *>(target), last.stride ? some : 1, is_fast);
        if (!last.stride) std::fill_n(target, some, target[0]);
        target += some, count -= some, at[0] += some, from += some * last.stride;
        for (std::size_t axis = 0; at[axis] == input.axes[axis].size && axis + 1 < n_axes; axis++) {
            from += input.axes[axis + 1].stride - at[axis] * input.axes[axis].stride;
            at[axis] = 0, at[axis + 1]++;
        }
    }
}

Pointwise::Pointwise(const KernelArguments &arguments)
    : n_inputs_(arguments.n_inputs), n_registers_(arguments.count), unit_(UNIT), level_(arguments.number("level")) {
    const std::size_t count = arguments.count, n_inputs = n_inputs_, n_code = arguments.n_list();
    const auto tensors = arguments.tensors;
    const int *const code = arguments.list();
    std::size_t bytes = 0;
    std::vector<std::size_t> sizes;
    std::vector<PointwiseStage> ops;
    for (std::size_t i = 0; i < count; i++) {
        std::size_t size = 1;
        for (int axis = 0; axis < tensors[i]->ndims; axis++)
            size *= static_cast<std::size_t>(tensors[i]->dims[axis]);
        total_ = std::max(total_, size);
        sizes.push_back(size);
        if (!is_float(tensors[i]->data_type)) throw std::invalid_argument("no kernel for this data type");
        const dnnl_data_type_t type = tensors[i]->data_type;
        tensors_.push_back({type, size == 1, false, type != dnnl_f16, 0, {}});
        bytes += size * size_of(tensors[i]->data_type);
    }
    for (std::size_t i = 0; i < count; i++) { // two inputs that are broadcast may make a result larger than both
        if (i >= n_inputs && sizes[i] != total_) throw std::invalid_argument("results of other sizes");
        if (sizes[i] == 1 || sizes[i] == total_) continue;
        std::vector<Axis> axes = axes_of(*tensors[i], *tensors[count - 1]);
        const bool is_row = axes.size() == 2 && axes[0].stride == 1 && axes[1].stride == 0;
        if (is_row && (!row_ || row_ == sizes[i]))
            row_ = sizes[i], tensors_[i].is_row = true;
        else
            tensors_[i].axes = std::move(axes);
    }
    if (n_code % 4) throw std::invalid_argument("no ops");
    for (std::size_t i = 0; i < n_code; i += 4) {
        PointwiseStage made {code[i], static_cast<std::size_t>(code[i + 1]), static_cast<std::size_t>(code[i + 2]),
                static_cast<std::size_t>(code[i + 3]), true, true};
        n_registers_ = std::max(n_registers_, made.result + 1);
        if (made.kind < 0 || made.kind > POINTWISE_TANH_BACKWARD) throw std::invalid_argument("unknown op");
        const auto is_known = [&](std::size_t number) {
            const auto makes = [&](const PointwiseStage &op) { return op.result == number; };
            return number < n_inputs || std::any_of(ops.begin(), ops.end(), makes);
        };
        if (!is_known(made.first) || (!is_unary(made.kind) && !is_known(made.second)) || made.result < n_inputs)
            throw std::invalid_argument("an op of numbers that no op has made");
        const bool is_gate = made.kind == POINTWISE_SIGMOID || made.kind == POINTWISE_GATE;
        if (is_gate && made.second < count && tensors_[made.second].is_single)
            throw std::invalid_argument("sigmoid of a single number");
        if (made.kind == POINTWISE_GATE && made.first == made.second) made.kind = POINTWISE_SILU;
        ops.push_back(made);
    }
    if (n_registers_ > REGISTERS) throw std::invalid_argument("too many registers");
    const auto gates = [](const PointwiseStage &one) { return one.kind >= POINTWISE_SIGMOID; };
    is_large_ = bytes > LARGE && !row_ && std::none_of(ops.begin(), ops.end(), gates);
    // Memory reads the next block while this one is computed, if that is a small one.
    piece_ = is_large_ ? UNIT : std::clamp(TOGETHER / n_registers_ / LANES * LANES, UNIT, LARGEST);
    if (row_ > UNIT) { // a block begins anywhere in a row, and ends before the same place of the next one
        piece_ = std::min(piece_, row_ / LANES * LANES);
    } else if (row_) { // a block is some rows, if possible whole vectors of them
        const std::size_t whole = std::lcm(row_, LANES);
        unit_ = whole <= piece_ ? whole : UNIT / row_ * row_;
        piece_ = piece_ / unit_ * unit_;
    }
    stages_ = in_chains(ops, count);
    for (std::size_t i = 0; i < stages_.size(); i++) {
        const PointwiseStage &one = stages_[i];
        if (one.result < count) tensors_[one.result].last_use = i;
        for (const std::size_t number : {one.first, one.second})
            if (number < n_inputs) tensors_[number].last_use = i;
        const bool reads_result = one.loads && one.first >= n_inputs;
        for (const std::size_t number : {reads_result ? one.first : count, is_unary(one.kind) ? count : one.second})
            if (number < count && tensors_[number].type == dnnl_bf16) tensors_[number].is_direct = false;
    }
}

void Pointwise::compute(void *const *addresses, std::size_t begin, std::size_t end) const {
    alignas(64) float elements[REGISTERS * (UNIT + LANES)];
    float *memory[REGISTERS];
    for (std::size_t i = 0; i < n_registers_; i++) // a distance of a power of two makes cache lines collide
        memory[i] = elements + i * (piece_ + LANES);
    PointwiseRegister registers[REGISTERS];
    PointwiseTarget targets[REGISTERS];
    const bool is_fast = level_ > 0 && has_avx2();
    const PointwiseCompute wide = has_bf16() ? pointwise_bf16 : pointwise_avx512;
    const PointwiseCompute function = level_ > 1 && has_avx512() ? wide : is_fast ? pointwise_avx2 : pointwise_portable;
    for (std::size_t i = 0; i < n_registers_; i++) {
        registers[i] = {memory[i], 1, false};
        targets[i] = {memory[i], false};
    }
    const auto at = [&](std::size_t i, std::size_t place) {
        return static_cast<char *>(addresses[i]) + place * size_of(tensors_[i].type);
    };
    for (std::size_t i = 0; i < n_inputs_; i++) {
        if (!tensors_[i].is_single) continue;
        cast(tensors_[i].type, at(i, 0), dnnl_f32, reinterpret_cast<char *>(memory[i]), 1, is_fast);
        std::fill_n(memory[i], LANES, memory[i][0]);
        registers[i].step = 0;
    }
    // What is written in the place of an input lies in a cache already.
    const auto streams = [&](std::size_t i) {
        return is_large_ && is_fast && tensors_[i].type == dnnl_f32
                && std::find(addresses, addresses + n_inputs_, addresses[i]) == addresses + n_inputs_;
    };
    // Whether a result is written to where it belongs at once: no later op reads what lies there.
    bool writes[REGISTERS];
    for (std::size_t i = n_inputs_; i < tensors_.size(); i++) {
        writes[i] = tensors_[i].is_direct && !streams(i);
        for (std::size_t j = 0; j < n_inputs_; j++)
            writes[i] = writes[i] && (addresses[j] != addresses[i] || tensors_[j].last_use <= tensors_[i].last_use);
    }
    const auto read = [&](std::size_t i, std::size_t place, std::size_t target, std::size_t count) {
        cast(tensors_[i].type, at(i, place), dnnl_f32, reinterpret_cast<char *>(memory[i] + target), count, is_fast);
    };
    for (std::size_t i = 0; i < n_inputs_; i++)
        if (tensors_[i].is_row && row_ <= UNIT)
            for (std::size_t place = 0; place < piece_; place += row_)
                read(i, 0, place, row_);
    for (; begin < end; begin += piece_) {
        const std::size_t count = std::min(piece_, end - begin), ahead = std::min(piece_, end - begin - count);
        for (std::size_t i = 0; i < n_inputs_; i++) {
            if (tensors_[i].is_single || (tensors_[i].is_row && row_ <= UNIT)) continue;
            if (!tensors_[i].axes.empty()) {
                spread(tensors_[i], at(i, 0), begin, memory[i], count, is_fast);
                registers[i] = {memory[i], 1, false};
                continue;
            }
            const std::size_t place = tensors_[i].is_row ? begin % row_ : begin;
            const std::size_t some = tensors_[i].is_row ? std::min(row_ - place, count) : count;
            const char *const next = at(i, begin + count);
            for (std::size_t byte = 0; is_large_ && byte < ahead * size_of(tensors_[i].type); byte += 64)
                ONEGRAPH_FETCH(next + byte);
            // Whole vectors are read, also of the last elements.
            if (tensors_[i].is_direct && count % LANES == 0 && some == count) {
                registers[i] = {at(i, place), 1, tensors_[i].type == dnnl_bf16};
                continue;
            }
            read(i, place, 0, some);
            read(i, 0, some, count - some);
            registers[i] = {memory[i], 1, false};
        }
        for (std::size_t i = n_inputs_; i < tensors_.size(); i++) {
            const bool is_direct = writes[i] && count % LANES == 0;
            targets[i] = {memory[i], false};
            if (is_direct) targets[i] = {at(i, begin), tensors_[i].type == dnnl_bf16};
            registers[i].elements = targets[i].elements;
        }
        function(stages_.data(), stages_.data() + stages_.size(), registers, targets, count);
        for (std::size_t i = n_inputs_; i < tensors_.size(); i++) {
            if (targets[i].elements != memory[i]) continue;
            if (streams(i))
                stream(memory[i], reinterpret_cast<float *>(at(i, begin)), count);
            else
                cast(dnnl_f32, reinterpret_cast<const char *>(memory[i]), tensors_[i].type, at(i, begin), count, is_fast);
        }
    }
    finish_streams();
}

void Pointwise::run(void *const *addresses, int threads) const {
    share(total_, threads, unit_, [&](std::size_t begin, std::size_t end) { compute(addresses, begin, end); });
}

const Registered<Pointwise> POINTWISE {"pointwise",
        "level, ops...: add|subtract|multiply|divide|squared_difference|square|sqrt|copy|sigmoid|gate|gelu_slope"
        "|sigmoid_backward|tanh_backward"};

} // namespace
} // namespace onegraph
