// Kernels of the package itself: casts between float types, copies between layouts, Select, ReplaceNaN, arithmetic on
// 8-bit codes, several elementwise ops at once, and attention. Each family has a file or a folder in kernels/.

#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "guard.h"

namespace onegraph {

// What a step of a plan runs instead of a compiled partition.
class Runnable {
public:
    virtual ~Runnable() = default;

    // Runs on tensors at these addresses, on at most `threads` threads.
    virtual void run(void *const *addresses, int threads) const = 0;
};

// A kernel for tensors of fixed shapes, strides and data types. The last tensor is the result. It shares memory with no
// other one, but that of an elementwise op may share all of it with an input of its layout. The others are broadcast to its
// shape by numpy's rules.
class Kernel : public Runnable {
public:
    static constexpr std::size_t MOST = 5; // tensors
    using Bytes = std::ptrdiff_t;

    // Computes `count` elements in a row of the tensors. `pointers`: to the first elements. `types`: the data types.
    using Row = void (*)(char *const *pointers, const Bytes *strides, std::size_t count, const dnnl_data_type_t *types);

    // `kind`: a kernel of include/onegraph.h. Throws invalid_argument for data types that it lacks.
    Kernel(int kind, std::size_t count, dnnl_graph_logical_tensor_t *const *tensors);

    void run(void *const *addresses, int threads) const override;

private:
    struct Axis {
        std::size_t size;
        Bytes strides[MOST];
    };

    void merge_axes();
    bool copies_rows() const;
    void divide_last_axis();
    void compute(char *const *addresses, std::size_t begin, std::size_t end) const;

    int kind_;
    std::size_t count_, total_ = 1; // numbers of tensors and of elements of the result
    std::vector<Axis> axes_; // at least one; a row goes along the last one
    dnnl_data_type_t types_[MOST];
    Row row_;
    std::size_t copied_; // bytes of a row if rows are only copied, otherwise 0
};

// An elementwise op in f32 on registers. The first operand, or the second one of an op whose kind says so, may be the
// result of the op before, which lies in vectors still.
struct PointwiseStage {
    int kind;
    std::size_t result, first, second;
    bool loads, stores; // whether the first operand is read from its register, and the result written
};

// Several elementwise ops on dense tensors of one size, on single numbers and on rows along the last axis, which reads and
// writes memory once.
//
// The ops are computed in f32 on blocks that stay in the first cache, and chains of ops in vectors. The code begins with the highest instruction set, as
// that of attention. An op is four numbers: its kind, the register of its result, and those of its operands; an op with one
// operand repeats it. The first registers are the tensors, inputs first.
// A result may share memory with an input at the same elements.
class Pointwise : public Runnable {
public:
    // Throws invalid_argument for unknown ops, data types other than f32, f16 and bf16, and tensors of other sizes.
    Pointwise(std::size_t n_inputs, std::size_t count, dnnl_graph_logical_tensor_t *const *tensors, const int *code,
            std::size_t n_code);

    void run(void *const *addresses, int threads) const override;

private:
    struct Tensor {
        dnnl_data_type_t type;
        bool is_single, is_row;
        bool is_direct; // whether the ops can read or write it where it lies
        std::size_t last_use; // of an input, the last op that reads it; of a result, the op that makes it
    };

    void compute(void *const *addresses, std::size_t begin, std::size_t end) const;

    std::size_t n_inputs_, n_registers_, total_ = 1;
    std::size_t row_ = 0, unit_, piece_; // elements of the inputs that are rows, that threads share, and of a block
    std::vector<Tensor> tensors_;
    std::vector<PointwiseStage> stages_;
    int level_;
    bool is_large_; // whether the results are written past the caches
};

struct AttentionMemory;
struct AttentionProblem;
struct AttentionTiles;

// Scaled dot product attention, or its gradient, with memory that is linear in the numbers of queries and keys.
//
// Tensors, each (batch, heads, tokens, size) with any strides: query, key, value, and a mask that is broadcast to the
// scores; dst, and its logsumexp without the last axis. The gradient takes query, key, value, dst, logsumexp, grad_dst and
// the mask, and gives the gradients of query, key and value. A row that sees no key is 0, and its logsumexp minus infinity.
class Attention : public Runnable {
public:
    // `code`: the numbers of onegraph_attention_number.
    Attention(std::size_t n_inputs, std::size_t count, dnnl_graph_logical_tensor_t *const *tensors, const int *code);
    ~Attention() override;

    // The gradients are bit-equal for equal numbers of threads, dst for any number.
    void run(void *const *addresses, int threads) const override;

private:
    void forward(const AttentionMemory &memory, int threads) const;
    void backward(const AttentionMemory &memory, int threads) const;

    bool is_backward_;
    const AttentionTiles *tiles_;
    std::unique_ptr<AttentionProblem> problem_;
};

// The product of at most four rows and a matrix, and a tensor that is added, which is one row or has one for each. All
// are dense f32.
//
// rows (rows, depth), matrix (depth, columns) or (columns, depth), what is added; the result (rows, columns).
class VectorProduct : public Runnable {
public:
    static constexpr std::size_t MOST_ROWS = 4;

    // `code`: the numbers of onegraph_vector_product_number. Throws invalid_argument for other tensors.
    VectorProduct(std::size_t count, dnnl_graph_logical_tensor_t *const *tensors, const int *code);

    void run(void *const *addresses, int threads) const override;

private:
    bool is_turned_, has_addend_, is_row_;
    int level_;
    std::size_t rows_, depth_, columns_;
};

struct PackedProblem;

// The product of rows and a constant matrix of packed weights, which is read as it is and unpacked in registers. Many rows
// meet columns that are unpacked to blocks of memory. All tensors are dense.
//
// src (rows, depth); weights (columns, bytes of a row): two codes of 4 bits in a byte, the first one in the lower half,
// codes of 8 bits, f16 or bf16, filled up to a multiple of 16 words of 32 bits; scales (columns, groups) of codes; zero
// points likewise, if there are any; a bias (columns), if there is one; the result (rows, columns). src, scales, bias and
// the result are f32, f16 or bf16, and zero points those, s8 or u8.
//
// A number is (code - zero point) * scale. Sums are in f32, or the elements of src become 8-bit codes with a scale for
// each block of a group or of 16 words, and sums of products of codes are exact.
class PackedProduct : public Runnable {
public:
    // `code`: the numbers of onegraph_packed_number. Throws invalid_argument for other tensors.
    PackedProduct(std::size_t count, dnnl_graph_logical_tensor_t *const *tensors, const int *code);
    ~PackedProduct() override;

    // The results are the same for any number of threads; for any number of rows too if each column is unpacked.
    void run(void *const *addresses, int threads) const override;

private:
    std::unique_ptr<PackedProblem> problem_;
};

// RMSNorm over the last axes of dense tensors of f32, f16 or bf16, computed in f32.
//
// src (rows, width), gamma (width) if there is one; dst. The results are the same for any number of threads.
class RmsNorm : public Runnable {
public:
    // `code`: the numbers of onegraph_rms_norm_number. Throws invalid_argument for other tensors.
    RmsNorm(std::size_t count, dnnl_graph_logical_tensor_t *const *tensors, const int *code);

    void run(void *const *addresses, int threads) const override;

private:
    bool has_gamma_;
    int level_;
    float epsilon_;
    std::size_t width_, total_;
    dnnl_data_type_t types_[3];
};

// -exp(src) * sums, for the gradient of LogSoftmax: src (rows, width), sums (rows, 1), dst, which may be src. All are dense
// f32.
class LogSoftmaxGradient : public Runnable {
public:
    // `code`: the highest instruction set. Throws invalid_argument for other tensors.
    LogSoftmaxGradient(std::size_t count, dnnl_graph_logical_tensor_t *const *tensors, const int *code);

    void run(void *const *addresses, int threads) const override;

private:
    int level_;
    std::size_t width_, total_;
};

enum Special : unsigned { NAN_ = 1, POSITIVE = 2, NEGATIVE = 4 };

// Looks for NaN and infinities in a tensor of f32, f16 or bf16 of any strides.
class SpecialNumbers {
public:
    SpecialNumbers() = default;
    // Throws invalid_argument for other data types.
    explicit SpecialNumbers(const dnnl_graph_logical_tensor_t &tensor);

    // Which of NaN, infinity and negative infinity some elements are, by Special.
    unsigned find(const char *elements, int threads) const;

    // Whether some elements are NaN or infinite; faster.
    bool are_in(const char *elements, int threads) const;

private:
    template <typename Look>
    unsigned over_rows(const char *elements, int threads, const Look &look) const;

    struct Axis {
        std::size_t size;
        std::ptrdiff_t stride; // in bytes
    };

    dnnl_data_type_t type_ = dnnl_f32;
    std::size_t row_ = 0, total_ = 0; // elements that lie one behind another, and all
    std::vector<Axis> outer_; // the axes outside of those rows
};

// An op that the library has computed, and computes wrong where an element of src is NaN or infinite. Reads src, and only
// if it finds such an element computes the op again, element by element: dst is then what IEEE 754 says.
//
// src, other inputs; dst, which the library has written, and further results. All have any strides.
class Guarded : public Runnable {
public:
    // `code`: the numbers of onegraph_guarded_number. Throws invalid_argument for other tensors.
    Guarded(std::size_t n_inputs, std::size_t count, dnnl_graph_logical_tensor_t *const *tensors, const int *code,
            std::size_t n_code);

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
    void reduce(void *const *addresses, int threads, bool only_masked) const;
    void pool(void *const *addresses, int threads) const;
    std::ptrdiff_t largest(const char *source, const std::vector<Axis> &axes, const std::vector<Axis> &windows,
            std::size_t place) const;

    std::size_t n_inputs_;
    std::vector<int> code_;
    std::vector<Tensor> tensors_;
    SpecialNumbers source_;
};

// The beginning of steps that a run executes only where an element of an input is NaN or infinite: those up to the next
// WhenSpecialEnd.
class WhenSpecial : public Runnable {
public:
    // Throws invalid_argument for data types other than f32, f16 and bf16.
    WhenSpecial(std::size_t count, dnnl_graph_logical_tensor_t *const *tensors);

    void run(void *const *addresses, int threads) const override;

    // Whether the last run found such an element.
    bool holds() const { return holds_; }

private:
    std::vector<SpecialNumbers> inputs_;
    mutable bool holds_ = true; // one run uses a plan at a time
};

// The end of such steps, which does nothing.
class WhenSpecialEnd : public Runnable {
public:
    void run(void *const *, int) const override {}
};

// MaxPool: NaN is larger than every number, and a window of padding alone is minus infinity.
//
// src; dst. Both have any strides of 0 and more. It is fast if the channels of src or its last spatial axis lie one behind
// another.
class MaxPool : public Runnable {
public:
    // `code`: the numbers of onegraph_max_pool_number. Throws invalid_argument for other tensors.
    MaxPool(std::size_t count, dnnl_graph_logical_tensor_t *const *tensors, const int *code, std::size_t n_code);

    void run(void *const *addresses, int threads) const override;

private:
    struct Axis {
        std::ptrdiff_t size = 1, results = 1, from = 0, to = 0; // elements of src and dst, and strides in elements
    };

    struct Spatial {
        Axis axis;
        std::ptrdiff_t kernel = 1, stride = 1, dilation = 1, begin = 0;

        // The place in src of element `tap` of a window.
        std::ptrdiff_t at(std::ptrdiff_t window, std::ptrdiff_t tap) const {
            return window * stride + tap * dilation - begin;
        }
    };

    // A row of dst: its place, the offsets of its image and channels in src and of itself in dst, and its channels.
    struct Row {
        std::ptrdiff_t depth, height, from, to;
        std::size_t inner;
    };

    Row row(std::size_t index) const;
    template <typename Function>
    void for_each_line(const Row &row, const Function &function) const;
    template <typename T, T EXPONENT>
    void compute_by_taps(const T *source, T *target, std::size_t begin, std::size_t end) const;
    template <typename T, T EXPONENT>
    void compute_by_columns(const T *source, T *target, std::size_t begin, std::size_t end) const;
    template <typename T, T EXPONENT>
    void compute(void *const *addresses, std::size_t begin, std::size_t end) const;

    bool is_by_taps_;
    dnnl_data_type_t type_;
    Axis images_, channels_;
    std::array<Spatial, 3> spatial_;
    std::size_t inner_ = 1, parts_, rows_; // channels that are computed together, such parts, and rows of dst in all
};

// A ReLU behind a BatchNormForwardTraining, which the library has computed in one kernel: a ReLU of NaN is then 0. A channel
// has NaN only if its statistics, gamma or beta are not finite. Reads those, and computes such channels again.
//
// src, batch mean, batch variance, gamma and beta if there are any; dst, which the library has written.
class NormRelu : public Runnable {
public:
    // `code`: the numbers of onegraph_norm_relu_number. Throws invalid_argument for other tensors.
    NormRelu(std::size_t count, dnnl_graph_logical_tensor_t *const *tensors, const int *code);

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

struct RecurrenceMemory;
struct RecurrenceProblem;

// A layer of a recurrent network, LSTM, GRU or plain, over all steps. All tensors are dense f32: see RecurrenceProblem.
//
// inputs, weights, hidden if it is not 0, cell of an LSTM if it is not 0; states, the last hidden state, the last cell
// state of an LSTM.
class Recurrence : public Runnable {
public:
    // `code`: the numbers of onegraph_recurrence_number.
    Recurrence(std::size_t n_inputs, std::size_t count, dnnl_graph_logical_tensor_t *const *tensors, const int *code);
    ~Recurrence() override;

    void run(void *const *addresses, int threads) const override;

private:
    bool has_hidden_, has_cell_, gives_cell_;
    std::unique_ptr<RecurrenceProblem> problem_;
    void (*step_)(const RecurrenceProblem &, const RecurrenceMemory &, long, long, long, long, long, long);
};

// A transform of Winograd's convolution F(2x2, 3x3): of its weights, or of some of the tiles of a batch of images.
//
// A tile is 2x2 places of dst and the 4x4 places of src that they depend on. The first transform takes src
// (N, height, width, channels) and gives 16 planes (16, tiles, channels), which the caller multiplies by the transformed
// weights (16, channels of src, channels of dst). The second one takes these products, a bias, src and the weights, and
// writes the places of its tiles in dst; it computes NaN and infinities again from src and the weights. The transform of weights takes (O, I, 3, 3) or (3, 3, I, O). Channels are a multiple of 16, and all
// tensors are dense.
class Winograd : public Runnable {
public:
    // `code`: the numbers of onegraph_winograd_number.
    Winograd(std::size_t count, dnnl_graph_logical_tensor_t *const *tensors, const int *code);

    void run(void *const *addresses, int threads) const override;

private:
    struct Tile {
        std::ptrdiff_t image, row, column;
    };

    Tile tile(std::size_t index) const;
    void src(void *const *addresses, std::size_t begin, std::size_t end) const;
    void dst(void *const *addresses, std::size_t begin, std::size_t end) const;
    void repair(void *const *addresses, const Tile &at, std::ptrdiff_t row, std::ptrdiff_t column, float *results) const;

    int operand_, layout_;
    bool turned_;
    float slope_; // the factor of negative results
    std::ptrdiff_t height_, width_, rows_, columns_, first_, top_, left_;
    std::size_t channels_, tiles_; // of the image; the columns and rows of a plane of weights
    std::array<std::ptrdiff_t, 3> source_ {}; // height, width and channels of src, for the second transform
};

} // namespace onegraph
