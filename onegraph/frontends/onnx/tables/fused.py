"""Lowers nodes that ONNX Runtime's optimizer makes of several: layers with activations, embeddings, attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from ....lowering import attention as lowering
from ....lowering import integer_products, layers, norms, quantization
from ....lowering.attention import Masking
from ....lowering.elementwise import add, binary, clamp, filled, multiply, unary
from ....lowering.emitter import Array, Emitter, Value, dtype_of, numbers, rank_of, shape_of
from ....lowering.movement import cast, concat, part, reshape, transpose, unsqueeze
from ....lowering.quantization import Scale
from ....lowering.reduction import reduce
from ....opset.dtypes import DataType
from ....opset.shapes import known_dims
from ..node import Node, NotLowered, lowers
from .contrib import DOMAIN
from .layers import convolution, gemm, native
from .norms import results_wanted

Activation = Callable[[Emitter, Value, Sequence[float]], Value]


def _clip(emit: Emitter, src: Value, limits: Sequence[float]) -> Value:
    low, high = (np.array(limit, dtype_of(src).numpy) for limit in limits[:2])
    return clamp(emit, src, low, high)


def _hard_sigmoid(emit: Emitter, src: Value, parameters: Sequence[float]) -> Value:
    alpha, beta = parameters[:2] if len(parameters) > 1 else (0.2, 0.5)
    return unary(emit, "HardSigmoid", src, {"alpha": alpha, "beta": beta})


# By the name in an attribute; the numbers are activation_params, or activation_alpha and activation_beta.
ACTIVATIONS: dict[str, Activation] = {
    "Relu": lambda emit, src, _: unary(emit, "ReLU", src),
    "Sigmoid": lambda emit, src, _: unary(emit, "Sigmoid", src),
    "Tanh": lambda emit, src, _: unary(emit, "Tanh", src),
    "LeakyRelu": lambda emit, src, given: unary(emit, "LeakyReLU", src, {"alpha": given[0] if given else 0.01}),
    "Clip": _clip,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": lambda emit, src, _: unary(emit, "HardSwish", src),
}


def activated(node: Node, src: Value) -> Value:
    """The activation that attributes name, if there is one."""
    name = node.attr("activation", "")
    if not name:
        return src
    if name not in ACTIVATIONS:
        raise NotLowered(f"activation {name}")
    parameters = node.attr("activation_params", [])
    parameters = parameters or [
        node.attr(f"activation_{each}") for each in ("alpha", "beta") if node.has(f"activation_{each}")
    ]
    return ACTIVATIONS[name](node.emit, src, parameters)


@lowers("FusedConv", domain=DOMAIN)
def fused_convolution(node: Node) -> Value:
    """A convolution, a tensor that is added, and an activation."""
    result, residual = convolution(node), node.optional(3)
    return activated(node, result if residual is None else add(node.emit, result, residual))


@lowers("FusedGemm", domain=DOMAIN)
def fused_gemm(node: Node) -> Value:
    """A Gemm and an activation."""
    return activated(node, gemm(node))


@lowers("FusedMatMul", "TransposeMatMul", domain=DOMAIN)
def fused_matmul(node: Node) -> Value:
    """alpha * A @ B; transBatch makes the first axis of an operand the one before the last two."""
    operands = []
    for index, name in enumerate("AB"):
        src, rank = node.value(index), node.rank(index)
        if node.attr(f"transBatch{name}", 0):
            src = transpose(node.emit, src, [*range(1, rank - 1), 0, rank - 1])
        operands.append(src)
    flags = bool(node.attr("transA", 0)), bool(node.attr("transB", 0))
    result = layers.matmul(node.emit, *operands, transpose_a=flags[0], transpose_b=flags[1])
    return multiply(node.emit, result, filled(node.attr("alpha", 1.0), result))


@lowers("MatMulIntegerToFloat", domain=DOMAIN)
def integers_to_floats(node: Node) -> Value:
    """An exact product of codes, times their scales, plus a bias."""
    emit = node.emit
    result = integer_products.integer_matmul(emit, node.value(0), node.value(1), node.optional(4), node.optional(5))
    result = cast(emit, result, dtype_of(node.value(2)))
    result = multiply(emit, result, multiply(emit, node.value(2), node.value(3)))
    return result if node.optional(6) is None else add(emit, result, node.value(6))


@lowers("EmbedLayerNormalization", domain=DOMAIN)
def embedding(node: Node) -> tuple[Value | None, ...]:
    """The normalized sum of rows of tables for words, places and segments; then the tokens of each row, and the sum."""
    emit, (batch, tokens) = node.emit, node.dims()
    total = emit.op("Gather", [node.value(2), node.value(0)], {"axis": 0})
    if node.optional(8) is not None:
        places = emit.op("Gather", [node.value(3), node.value(8)], {"axis": 0})
    else:
        if tokens is None:
            raise NotLowered("an unknown number of tokens")
        places = part(emit, node.value(3), 0, 0, tokens)
    total = add(emit, total, places)
    if node.optional(1) is not None and node.optional(4) is not None:
        total = add(emit, total, emit.op("Gather", [node.value(4), node.value(1)], {"axis": 0}))
    normal = norms.layer_norm(emit, total, node.value(5), node.value(6), -1, node.attr("epsilon", 1e-12))[0]
    counts: Value | None = None
    if node.proto.output[1:2] and node.proto.output[1]:
        if node.optional(7) is not None:
            counts = emit.op("ReduceSum", [cast(emit, node.value(7), DataType.s32)], {"axes": [1], "keep_dims": False})
        elif batch is not None:
            counts = np.zeros(batch, np.int32)
        else:
            raise NotLowered("an unknown batch")
    return (normal, counts, total)[: len(node.proto.output)]


@lowers("QLinearSoftmax", domain=DOMAIN)
def quantized_softmax(node: Node) -> Value:
    """A softmax between Dequantize and Quantize; up to op set 12 over all axes from ``axis`` on."""
    emit, axis, rank = node.emit, node.attr("axis", -1), node.rank()
    if node.attr("opset", 13) < 13 and axis % rank != rank - 1:
        raise NotLowered("several axes as one")
    src = quantization.dequantize(emit, node.value(0), Scale(node.value(1), node.optional(2)))
    shares = emit.op("SoftMax", [src], {"axis": axis}, dtype=DataType.f32, outputs=[])
    return quantization.quantize(emit, shares, Scale(node.value(3), node.optional(4)), node.dtype())


@lowers("Attention", domain=DOMAIN)
def attention(node: Node) -> tuple[Value, ...]:
    """Attention of queries, keys and values that one product makes."""
    native(node)
    emit, bias = node.emit, node.optional(2)
    packed = layers.matmul(emit, node.value(0), node.value(1))
    return _attention(node, packed if bias is None else add(emit, packed, bias), past=4, mask=3, bias=5)


@lowers("QAttention", domain=DOMAIN)
def quantized_attention(node: Node) -> tuple[Value, ...]:
    """The same of 8-bit codes and weights; their product is that of an int8 kernel."""
    emit = node.emit
    src = quantization.dequantize(emit, node.value(0), Scale(node.value(3), node.optional(6)))
    weights, scale = quantization.symmetric(node.value(1), Scale(node.value(4), node.optional(7), -1))
    packed = layers.matmul(emit, src, quantization.dequantize(emit, weights, scale))
    return _attention(node, add(emit, packed, node.value(2)), past=8, mask=5, bias=None)


def _attention(node: Node, packed: Value, past: int, mask: int, bias: int | None) -> tuple[Value, ...]:
    emit, heads, shape = node.emit, node.attr("num_heads"), shape_of(packed)
    if node.attr("do_rotary", 0) or node.attr("past_present_share_buffer", 0):
        raise NotLowered("do_rotary or past_present_share_buffer")
    if shape is None or None in shape or node.rank() != 3:
        raise NotLowered("queries of unknown dims")
    _, tokens, width = known_dims(shape)
    sizes = node.attr("qkv_hidden_sizes") or [width // 3] * 3
    ends = np.cumsum([0, *sizes]).tolist()
    rows = [part(emit, packed, 2, *pair) for pair in pairwise(ends)]
    query, key, value = (lowering.heads_apart(emit, each, heads) for each in rows)
    before, start = None, 0
    if node.optional(past) is not None:
        halves = [reshape(emit, part(emit, node.value(past), 0, at, at + 1), _inner(node, past)) for at in (0, 1)]
        before, start = (halves[0], halves[1]), node.whole_shape(past)[3]
    hidden = _mask(node, mask, start + tokens)
    if bias is not None and node.optional(bias) is not None:
        hidden = node.value(bias) if hidden is None else add(emit, hidden, node.value(bias))
    masking = Masking(hidden, bool(node.attr("unidirectional", 0)), past=start)
    scale = node.attr("scale", 0.0) or None
    attended = lowering.attention(emit, query, key, value, scale=scale, masking=masking, past=before)
    output = lowering.heads_together(emit, attended.output)
    if results_wanted(node) < 2:
        return (output,)
    return output, concat(emit, [unsqueeze(emit, one, [0]) for one in (attended.key, attended.value)], 0)


def _inner(node: Node, index: int) -> Array:
    return numbers(*node.whole_shape(index)[1:])


def _mask(node: Node, index: int, keys: int) -> Value | None:
    """The numbers that hide keys: those behind the length of a row, or those that a mask marks by 0."""
    if node.optional(index) is None:
        return None
    emit, mask, rank = node.emit, node.value(index), rank_of(node.value(index))
    shape = shape_of(mask) or ()
    if rank == 1:
        if shape[0] != node.dims()[0]:
            raise NotLowered("a mask_index with the first token of each row")
        lengths = reshape(emit, cast(emit, mask, DataType.s64), numbers(-1, 1, 1, 1))
        shown = emit.op("Less", [np.arange(keys).reshape(1, 1, 1, -1), lengths])
    elif rank in (2, 3) and shape[-1] == keys:
        shown = unsqueeze(emit, mask, [1, 2] if rank == 2 else [1])
    else:
        raise NotLowered(f"a mask_index of shape {list(shape)} for {keys} keys")
    wide = cast(emit, shown, DataType.f32)
    fill = node.attr("mask_filter_value", -10000.0)
    return multiply(emit, binary(emit, "Subtract", filled(1, wide), wide), filled(fill, wide))


@lowers("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=DOMAIN)
def skip_layer_norm(node: Node) -> tuple[Value | None, ...]:
    """A normalization of a sum; then the mean, the inverse root of the variance, and the sum."""
    native(node)
    emit, simple = node.emit, node.proto.op_type == "SkipSimplifiedLayerNormalization"
    total, bias = add(emit, node.value(0), node.value(1)), node.optional(3 if simple else 4)
    total = total if bias is None else add(emit, total, bias)
    epsilon, gamma = node.attr("epsilon", 1e-12), node.value(2)
    wanted = [bool(name) for name in (*node.proto.output, "", "", "")][1:3]
    wide = cast(emit, total, DataType.f32) if any(wanted) else total
    mean = reduce(emit, "ReduceMean", wide, [-1], keep=True) if any(wanted) and not simple else None
    inverse: Value | None = None
    if wanted[1] or (simple and wanted[0]):
        away = wide if mean is None else binary(emit, "Subtract", wide, mean)
        square = reduce(emit, "ReduceMean", multiply(emit, away, away), [-1], keep=True)
        root = unary(emit, "Sqrt", add(emit, square, filled(epsilon, square)))
        inverse = binary(emit, "Divide", filled(1, root), root)
        if mean is None:  # zeros
            mean = cast(emit, emit.op("Less", [inverse, filled(0, inverse)]), DataType.f32)
    normal = (
        norms.rms_norm(emit, total, gamma, -1, epsilon)
        if simple
        else norms.layer_norm(emit, total, gamma, node.optional(3), -1, epsilon)[0]
    )
    return (normal, mean if wanted[0] else None, inverse, total)[: len(node.proto.output)]
