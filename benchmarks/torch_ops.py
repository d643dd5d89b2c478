"""Ops of a graph in eager PyTorch: the peer of random blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812

import onegraph as og
from onegraph.opset.schema import Call

aten = torch.ops.aten
Tensor = Any
Function = Callable[..., Any]  # of the op and its inputs; None for an absent one
UPSAMPLES = ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
# Data types that numpy lends to torch by another name.
LENT = {og.bf16: (np.int16, torch.bfloat16)}
DTYPES = {
    og.f32: torch.float32, og.bf16: torch.bfloat16, og.f16: torch.float16, og.s8: torch.int8, og.u8: torch.uint8,
    og.s32: torch.int32, og.boolean: torch.bool,
}  # fmt: skip
WIDE = (og.f32, og.bf16, og.f16)
# How far results of two libraries may be apart, as a share of the largest number: ours keeps f32 between fused ops.
SHARES = {og.f32: 1e-3, og.bf16: 0.2, og.f16: 0.02}
FEW = 0.1  # the share of the elements that may be further apart


class UntranslatableError(Exception):
    """PyTorch has no such op, or no such form of it."""


def torch_run(graph: og.Graph, given: Mapping[str, np.ndarray]) -> Callable[[], list[Tensor]]:
    """A function that computes the outputs of a graph in PyTorch; ops of constants run beforehand.

    Raises:
        UntranslatableError: with the reason.
    """
    torch.set_num_threads(og.capi.get_num_threads() or torch.get_num_threads())
    tensors = {tensor.id: to_torch(given[name], tensor.dtype) for name, tensor in graph.inputs.items()}
    steps = []
    for op in graph.ops:
        steps.append((op, translated(op)))
        tensors.update({
            one.id: to_torch(one.value, one.dtype) for one in op.inputs if one is not None and one.value is not None
        })  # fmt: skip

    def computed(op: og.Op, function: Function, known: dict[int, Tensor]) -> None:
        results = function(*(None if tensor is None else known[tensor.id] for tensor in op.inputs))
        results = results if isinstance(results, tuple) else (results,)
        known.update((tensor.id, result) for tensor, result in zip(op.outputs, results, strict=False))

    folded = [
        (op, function) for op, function in steps if all(one is None or one.value is not None for one in op.inputs)
    ]
    for op, function in folded:
        computed(op, function, tensors)
    constant = {op.id for op, _ in folded}
    rest = [(op, function) for op, function in steps if op.id not in constant]
    results = [tensor.id for tensor in graph.outputs.values()]

    def run() -> list[Tensor]:
        known = dict(tensors)
        with torch.no_grad():
            for op, function in rest:
                computed(op, function, known)
            return [known[number].contiguous() for number in results]

    try:
        run()
    except KeyError:
        raise UntranslatableError("an output of an op that only this graph has") from None
    except (RuntimeError, TypeError) as error:  # a data type without a kernel
        raise UntranslatableError(str(error).splitlines()[0]) from None
    return run


def translated(op: og.Op) -> Function:
    if op.kind not in OPS or op.signature is None:
        raise UntranslatableError(f"{op.kind} has no entry")
    found = op.signature
    return partial(OPS[op.kind], Call(found.schema, dict(found.attrs), found.inputs, len(found.shapes), found.dtypes))


def to_torch(array: np.ndarray, dtype: og.DataType) -> Tensor:
    """A tensor that shares the memory of an array where torch knows its data type."""
    if dtype in LENT:
        lent, name = LENT[dtype]
        return torch.from_numpy(array.view(lent).copy()).view(name)
    if dtype not in DTYPES:
        raise UntranslatableError(f"torch has no tensors of {dtype}")
    return torch.from_numpy(array.copy())


def difference(ours: np.ndarray, theirs: Tensor) -> str:
    """How a result of torch differs from ours; empty if it agrees.

    Rounding may move few elements far: those next to a division by a small number, and those that overflow.
    """
    dtype = og.DataType.of(ours.dtype)
    other = theirs.float().numpy() if dtype in WIDE else theirs.numpy()
    if ours.shape != other.shape:
        return f"shapes {ours.shape} and {other.shape}"
    one, other = ours.astype(np.float64), other.astype(np.float64)
    finite = np.isfinite(one) & np.isfinite(other)
    one, other = one[finite], other[finite]
    typical = float(np.sqrt(np.mean(np.square(one)))) if one.size else 0.0
    limit = SHARES.get(dtype, 0) * typical or 1
    share = np.mean(np.abs(one - other) > limit) if one.size else 0.0
    return "" if share <= FEW else f"{share:.0%} of the elements differ by more than {limit:.3g}"


# Layouts -------------------------------------------------------------------------------------------------------------


def first(call: Call, x: Tensor) -> Tensor:
    """An image with its channels first, as torch wants them, on the same memory."""
    return x.movedim(-1, 1) if call.string("data_format") == "NXC" else x


def last(call: Call, y: Tensor) -> Tensor:
    """A result with its channels where the op has them."""
    return y.movedim(1, -1) if call.string("data_format") == "NXC" else y


def kernel(call: Call, w: Tensor) -> Tensor:
    """Weights with the two axes of channels first."""
    return w.movedim((-1, -2), (0, 1)) if call.string("weights_format") in ("XIO", "XOI") else w


def as_given(call: Call, w: Tensor) -> Tensor:
    """The inverse of ``kernel``."""
    return w.movedim((0, 1), (-1, -2)) if call.string("weights_format") in ("XIO", "XOI") else w


def pads(call: Call, rank: int) -> list[int]:
    begin = call.s64s("pads_begin", rank)
    if begin != call.s64s("pads_end", rank) or call.string("auto_pad").lower() not in ("none",):
        raise UntranslatableError("pads that differ at both ends")
    return list(begin)


def of_rank(name: str, rank: int) -> Function:
    return getattr(F, f"{name}{rank}d")


# Ops -----------------------------------------------------------------------------------------------------------------


def spread(call: Call, x: Tensor) -> tuple[list[int], list[int], list[int]]:
    """Strides, pads and dilations."""
    rank = x.ndim - 2
    return list(call.s64s("strides", rank)), pads(call, rank), list(call.s64s("dilations", rank))


def convolution(call: Call, x: Tensor, w: Tensor, bias: Tensor = None) -> Tensor:
    op = of_rank("conv", x.ndim - 2)
    return last(call, op(first(call, x), kernel(call, w), bias, *spread(call, x), call.s64("groups")))


def conv_transpose(call: Call, x: Tensor, w: Tensor, bias: Tensor = None) -> Tensor:
    strides, pad, dilations = spread(call, x)
    more = list(call.s64s("output_padding", x.ndim - 2))
    op = of_rank("conv_transpose", x.ndim - 2)
    return last(call, op(first(call, x), kernel(call, w), bias, strides, pad, more, call.s64("groups"), dilations))


def convolution_backward(call: Call, dy: Tensor, x: Tensor, w: Tensor, wanted: int) -> Tensor:
    """The gradient of the source, 0, or of the weights, 1."""
    strides, pad, dilations = spread(call, x)
    ends, mask = (first(call, dy), first(call, x), kernel(call, w)), [index == wanted for index in range(3)]
    more = [0] * len(strides)
    return aten.convolution_backward(*ends, None, strides, pad, dilations, False, more, call.s64("groups"), mask)[
        wanted
    ]


def convolution_backward_data(call: Call, dy: Tensor, w: Tensor, shape: Tensor = None) -> Tensor:
    x = torch.empty(call.schema.shape(call)[0], dtype=dy.dtype)
    return last(call, convolution_backward(call, dy, x, w, 0))


def convolution_backward_weights(call: Call, x: Tensor, dy: Tensor, shape: Tensor = None) -> Tensor:
    w = torch.empty(call.schema.shape(call)[0], dtype=dy.dtype)
    return as_given(call, convolution_backward(call, dy, x, w, 1))


def conv_transpose_backward_weights(call: Call, x: Tensor, dy: Tensor, shape: Tensor = None) -> Tensor:
    """As of the Convolution that makes ``x`` from ``dy``."""
    w = torch.empty(call.schema.shape(call)[0], dtype=dy.dtype)
    return as_given(call, convolution_backward(call, x, dy, w, 1))


def matmul(call: Call, a: Tensor, b: Tensor, bias: Tensor = None) -> Tensor:
    a = a.mT if call.flag("transpose_a") and a.ndim > 1 else a
    b = b.mT if call.flag("transpose_b") and b.ndim > 1 else b
    if bias is not None and bias.ndim == 1 and b.ndim == 2 and bias.shape[0] == b.shape[1]:
        return F.linear(a, b.mT, bias)
    product = torch.matmul(a, b)
    return product if bias is None else product + bias


def bias_add(call: Call, x: Tensor, bias: Tensor) -> Tensor:
    return x + (bias if call.string("data_format") == "NXC" else bias.reshape(-1, *[1] * (x.ndim - 2)))


def bias_add_backward(call: Call, dy: Tensor) -> Tensor:
    channels = dy.ndim - 1 if call.string("data_format") == "NXC" else 1
    return dy.sum([axis for axis in range(dy.ndim) if axis != channels])


def batch_norm(call: Call, x: Tensor, gamma: Tensor, beta: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    return last(call, F.batch_norm(first(call, x), mean, variance, gamma, beta, False, 0.0, call.f32("epsilon")))


def batch_norm_training(call: Call, x: Tensor, mean: Tensor, variance: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    return last(call, F.batch_norm(first(call, x), None, None, gamma, beta, True, 0.0, call.f32("epsilon")))


def batch_norm_backward(
    call: Call, x: Tensor, dy: Tensor, mean: Tensor, variance: Tensor, gamma: Tensor = None
) -> Tensor:
    epsilon = call.f32("epsilon")
    ends = first(call, dy), first(call, x)
    how = (gamma, None, None, mean, (variance + epsilon).rsqrt(), True, epsilon, [True, True, True])
    return last(call, aten.native_batch_norm_backward(*ends, *how)[0])


def layer_norm(call: Call, x: Tensor, gamma: Tensor = None, beta: Tensor = None) -> Tensor:
    shape = x.shape[call.s64("begin_norm_axis") % x.ndim :]
    parts = [None if part is None else part.reshape(shape) for part in (gamma, beta)]
    return F.layer_norm(x, shape, *parts, call.f32("epsilon"))


def layer_norm_backward(
    call: Call, x: Tensor, dy: Tensor, mean: Tensor, variance: Tensor, gamma: Tensor = None, beta: Tensor = None
) -> Tensor:
    axis = call.s64("begin_norm_axis") % x.ndim
    shape, ones = x.shape[axis:], (1,) * (x.ndim - axis)
    stats = [part.reshape(*x.shape[:axis], *ones) for part in (mean, (variance + call.f32("epsilon")).rsqrt())]
    mask = [True, gamma is not None, beta is not None]
    return aten.native_layer_norm_backward(dy, x, shape, *stats, gamma, beta, mask)[0]


def group_norm(call: Call, x: Tensor, gamma: Tensor = None, beta: Tensor = None) -> Tensor:
    return last(call, F.group_norm(first(call, x), call.s64("groups"), gamma, beta, call.f32("epsilon")))


def window(call: Call, x: Tensor) -> tuple[list[int], list[int], list[int]]:
    if call.string("rounding_type") != "floor":
        raise UntranslatableError("windows beyond the edge")
    rank = x.ndim - 2
    return list(call.s64s("kernel")), list(call.s64s("strides", rank)), pads(call, rank)


def max_pool(call: Call, x: Tensor) -> Tensor:
    op = of_rank("max_pool", x.ndim - 2)
    return last(call, op(first(call, x), *window(call, x), list(call.s64s("dilations", x.ndim - 2))))


def avg_pool(call: Call, x: Tensor) -> Tensor:
    op, wide = of_rank("avg_pool", x.ndim - 2), not call.flag("exclude_pad")
    return last(call, op(first(call, x), *window(call, x), False, wide))


def avg_pool_backward(call: Call, dy: Tensor, shape: Tensor = None) -> Tensor:
    x = first(call, torch.empty(call.schema.shape(call)[0], dtype=dy.dtype))
    dy, (size, strides, pad), rank = first(call, dy), window_of_gradient(call, dy), dy.ndim - 2
    if rank == 1:  # torch has no such gradient; images of one row are as fast
        dy, x, size, strides, pad = dy.unsqueeze(2), x.unsqueeze(2), [1, *size], [1, *strides], [0, *pad]
    gradient = getattr(aten, f"avg_pool{max(rank, 2)}d_backward")
    dx = gradient(dy, x, size, strides, pad, False, not call.flag("exclude_pad"), None)
    return last(call, dx.squeeze(2) if rank == 1 else dx)


def max_pool_backward(call: Call, x: Tensor, dy: Tensor) -> Tensor:
    """With the search for the largest elements, which other libraries keep from the forward pass."""
    (size, strides, pad), rank = window_of_gradient(call, dy), dy.ndim - 2
    dilations = list(call.s64s("dilations", rank))
    x, dy = first(call, x), first(call, dy)
    if rank == 1:
        x, dy, size, strides, pad = x.unsqueeze(2), dy.unsqueeze(2), [1, *size], [1, *strides], [0, *pad]
        dilations = [1, *dilations]
    name = f"max_pool{max(rank, 2)}d_with_indices"
    _, places = getattr(aten, name)(x, size, strides, pad, dilations, False)
    dx = getattr(aten, f"{name}_backward")(dy, x, size, strides, pad, dilations, False, places)
    return last(call, dx.squeeze(2) if rank == 1 else dx)


def window_of_gradient(call: Call, dy: Tensor) -> tuple[list[int], list[int], list[int]]:
    rank = dy.ndim - 2
    return list(call.s64s("kernel")), list(call.s64s("strides", rank)), pads(call, rank)


def interpolate(call: Call, x: Tensor, sizes: Tensor = None) -> Tensor:
    if call.string("coordinate_transformation_mode") != "half_pixel" or not call.has("sizes"):
        raise UntranslatableError("Interpolate by other coordinates")
    rank = x.ndim - 2
    linear = ("linear", "bilinear", "trilinear")[rank - 1]
    mode = "nearest-exact" if call.string("mode") == "nearest" else linear
    return last(call, F.interpolate(first(call, x), list(call.s64s("sizes")), mode=mode))


def interpolate_backward(call: Call, x: Tensor, dy: Tensor, sizes: Tensor = None) -> Tensor:
    if call.string("coordinate_transformation_mode") != "half_pixel":
        raise UntranslatableError("InterpolateBackward by other coordinates")
    rank, source = x.ndim - 2, first(call, x)
    name = f"_upsample_nearest_exact{rank}d" if call.string("mode") == "nearest" else UPSAMPLES[rank - 1]
    how = () if call.string("mode") == "nearest" else (False,)
    dy = first(call, dy)
    dx = getattr(aten, f"{name}_backward")(dy, list(dy.shape[2:]), list(source.shape), *how, *[None] * rank)
    return last(call, dx)


def scales(call: Call, x: Tensor, values: Tensor) -> Tensor:
    """Numbers of an op in the shape that broadcasts to its tensor."""
    if values.numel() == 1 and call.string("qtype") == "per_tensor":
        return values.reshape(())
    if call.string("qtype") != "per_channel":
        raise UntranslatableError("groups of scales")
    shape = [1] * x.ndim
    shape[call.s64("axis")] = -1
    return values.reshape(shape)


def static(call: Call, x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.tensor(call.f32s("scales")), torch.tensor(call.s64s("zps") or (0,), dtype=torch.float32)


def quantize(call: Call, x: Tensor, *given: Tensor) -> Tensor:
    size, zero = given if given else static(call, x)
    dtype = DTYPES[call.output_type(0)]
    limits = torch.iinfo(dtype)
    y = torch.round(x / scales(call, x, size))
    y = y if zero is None else y.add_(scales(call, x, zero))
    return y.clamp_(limits.min, limits.max).to(dtype)


def dequantize(call: Call, x: Tensor, *given: Tensor) -> Tensor:
    size, zero = given if given else static(call, x)
    y = x.float()
    y = y if zero is None else y.sub_(scales(call, x, zero))
    return y.mul_(scales(call, x, size))


def padded(call: Call, x: Tensor, size: Tensor, zero: Tensor = None) -> tuple[Tensor, Tensor, Tensor]:
    return x, size, zero


def reduced(function: Function) -> Function:
    def reduce(call: Call, x: Tensor, axes: Tensor = None) -> Tensor:
        if axes is not None:
            raise UntranslatableError("axes that are a tensor")
        return function(x, list(call.s64s("axes")), call.flag("keep_dims"))

    return reduce


def product_of(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    for axis in sorted(axes, key=lambda axis: -(axis % x.ndim)):
        x = torch.prod(x, axis, keep)
    return x


def prelu(call: Call, x: Tensor, slope: Tensor) -> Tensor:
    if slope.ndim == 1 and slope.numel() > 1 and call.string("data_format") == "NCX":
        slope = slope.reshape(-1, *[1] * (x.ndim - 2))
    return torch.where(x > 0, x, x * slope)


def prelu_backward(call: Call, x: Tensor, slope: Tensor, dy: Tensor) -> Tensor:
    x, dy = first(call, x), first(call, dy)
    return last(call, aten._prelu_kernel_backward(dy, x, slope.reshape(-1, *[1] * (x.ndim - 2)))[0])


def gradient(function: Function, of_result: bool = False) -> Function:
    """The gradient of an elementwise op, by its source or by its result; ``function`` gets the op, dy and that."""

    def backward(call: Call, x: Tensor, dy: Tensor) -> Tensor:
        uses_result = call.schema.has_attribute("use_dst") and call.flag("use_dst")
        if uses_result != of_result:
            raise UntranslatableError(f"{call.schema.kind} by its {'result' if uses_result else 'source'}")
        return function(call, dy, x)

    return backward


def of(function: Function, *names: str) -> Function:
    """An op of one or two tensors, with numbers of these attributes."""
    return lambda call, *tensors: function(*tensors, *(call.f32(name) for name in names))


UNARY = {
    "Abs": of(torch.abs), "Clamp": of(torch.clamp, "min", "max"), "Elu": of(F.elu, "alpha"), "Exp": of(torch.exp),
    "GELU": of(F.gelu), "HardSwish": of(F.hardswish), "LeakyReLU": of(F.leaky_relu, "alpha"), "Log": of(torch.log),
    "Mish": of(F.mish), "Pow": of(torch.pow, "beta"), "Reciprocal": of(torch.reciprocal), "ReLU": of(torch.relu),
    "Round": of(torch.round), "Sigmoid": of(torch.sigmoid), "SoftPlus": of(F.softplus, "beta"), "Sqrt": of(torch.sqrt),
    "Square": of(torch.square), "Tanh": of(torch.tanh),
    "HardSigmoid": lambda call, x: torch.clamp(x * call.f32("alpha") + call.f32("beta"), 0, 1),
}  # fmt: skip
BINARY = {
    "Add": of(torch.add), "Divide": of(torch.div), "Maximum": of(torch.maximum), "Minimum": of(torch.minimum),
    "Multiply": of(torch.mul), "Subtract": of(torch.sub), "Select": of(torch.where), "PReLU": prelu,
    "SquaredDifference": lambda call, x, y: (x - y).square_(),
}  # fmt: skip
REDUCTIONS = {
    "ReduceL1": lambda x, axes, keep: torch.linalg.vector_norm(x, 1, axes, keep),
    "ReduceL2": lambda x, axes, keep: torch.linalg.vector_norm(x, 2, axes, keep),
    "ReduceMax": torch.amax, "ReduceMean": torch.mean, "ReduceMin": torch.amin, "ReduceProd": product_of,
    "ReduceSum": torch.sum,
}  # fmt: skip
GRADIENTS = {
    "ClampBackward": gradient(lambda call, dy, y: dy * ((y > call.f32("min")) & (y < call.f32("max"))), of_result=True),
    "EluBackward": gradient(
        lambda call, dy, y: aten.elu_backward(dy, call.f32("alpha"), 1, 1, True, y), of_result=True
    ),
    "HardSigmoidBackward": gradient(
        lambda call, dy, x: dy * call.f32("alpha") * ((x * call.f32("alpha") + call.f32("beta") - 0.5).abs() < 0.5)
    ),
    "AbsBackward": gradient(lambda call, dy, x: dy * torch.sign(x)),
    "GELUBackward": gradient(lambda call, dy, x: aten.gelu_backward(dy, x)),
    "HardSwishBackward": gradient(lambda call, dy, x: aten.hardswish_backward(dy, x)),
    "MishBackward": gradient(lambda call, dy, x: aten.mish_backward(dy, x)),
    "ReLUBackward": gradient(lambda call, dy, y: aten.threshold_backward(dy, y, 0), of_result=True),
    "SigmoidBackward": gradient(lambda call, dy, y: aten.sigmoid_backward(dy, y), of_result=True),
    "SoftPlusBackward": gradient(lambda call, dy, x: aten.softplus_backward(dy, x, call.f32("beta"), 20)),
    "SqrtBackward": gradient(lambda call, dy, y: dy / (2 * y), of_result=True),
    "TanhBackward": gradient(lambda call, dy, y: aten.tanh_backward(dy, y), of_result=True),
}
OPS: dict[str, Function] = {
    **UNARY, **BINARY, **GRADIENTS, **{kind: reduced(function) for kind, function in REDUCTIONS.items()},
    "AvgPool": avg_pool,
    "AvgPoolBackward": avg_pool_backward,
    "BatchNormForwardTraining": batch_norm_training,
    "BatchNormInference": batch_norm,
    "BatchNormTrainingBackward": batch_norm_backward,
    "BiasAdd": bias_add,
    "BiasAddBackward": bias_add_backward,
    "Concat": lambda call, *parts: torch.cat(parts, call.s64("axis")),
    "ConvTranspose": conv_transpose,
    "ConvTransposeBackwardData": convolution,
    "ConvTransposeBackwardWeights": conv_transpose_backward_weights,
    "Convolution": convolution,
    "ConvolutionBackwardData": convolution_backward_data,
    "ConvolutionBackwardWeights": convolution_backward_weights,
    "Dequantize": dequantize,
    "DynamicDequantize": lambda call, *ends: dequantize(call, *padded(call, *ends)),
    "DynamicQuantize": lambda call, *ends: quantize(call, *padded(call, *ends)),
    "GroupNorm": group_norm,
    "Interpolate": interpolate,
    "InterpolateBackward": interpolate_backward,
    "LayerNorm": layer_norm,
    "LayerNormBackward": layer_norm_backward,
    "LogSoftmax": lambda call, x: torch.log_softmax(x, call.s64("axis")),
    "LogSoftmaxBackward": lambda call, dy, y: aten._log_softmax_backward_data(dy, y, call.s64("axis"), y.dtype),
    "MatMul": matmul,
    "MaxPool": max_pool,
    "MaxPoolBackward": max_pool_backward,
    "PReLUBackward": prelu_backward,
    "Quantize": quantize,
    "SoftMax": lambda call, x: torch.softmax(x, call.s64("axis")),
    "SoftMaxBackward": lambda call, dy, y: aten._softmax_backward_data(dy, y, call.s64("axis"), y.dtype),
    "StaticReshape": lambda call, x, *_: x.reshape(call.schema.shape(call)[0]),
    "StaticTranspose": lambda call, x, *_: x.permute(call.s64s("order")),
    "TypeCast": lambda call, x: x.to(DTYPES[call.output_type(0)]),
}  # fmt: skip
