"""Lowers normalizations and SoftMax."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ....lowering import norms as lowering
from ....lowering.elementwise import binary, filled, multiply, unary
from ....lowering.emitter import Value, dtype_of, known_rank
from ....lowering.movement import NATIVE, cast, rounded
from ....lowering.patterns.table import contents, either, made
from ....opset.dtypes import DataType
from ..node import AtenNode, NotLowered, lowers
from ..types import DTYPES
from .elementwise import native
from .movement import reshape
from .reduction import correction

# Numbers so far below 0 that a SoftMax makes 0 of them, and that their sums with scores are finite.
LEAST = {DataType.f32: -1e38, DataType.bf16: -1e38, DataType.f16: -6e4}


def inverse_root(node: AtenNode, src: Value) -> Value:
    """1 / sqrt(src), rounded twice; Pow is less exact."""
    return unary(node.emit, "Reciprocal", unary(node.emit, "Sqrt", src))


def _vectors(node: AtenNode, names: tuple[str, ...]) -> list[Value]:
    """The vectors of a normalization in f32."""
    return [cast(node.emit, node.value(name), DataType.f32) for name in names]


def _channel_defaults(node: AtenNode, channels: int) -> tuple[Value, Value]:
    gamma, beta = node["weight"], node["bias"]
    gamma = np.ones(channels, np.float32) if gamma is None else cast(node.emit, gamma, DataType.f32)
    beta = np.zeros(channels, np.float32) if beta is None else cast(node.emit, beta, DataType.f32)
    return gamma, beta


@lowers("_native_batch_norm_legit_no_training.default")
def batch_norm(node: AtenNode) -> list[Value | None]:
    """A batch normalization with given mean and variance."""
    src = native(node, "input")
    gamma, beta = _channel_defaults(node, node.shape("input")[1])
    mean, variance = _vectors(node, ("running_mean", "running_var"))
    shape = [*node.shape("input")]
    if dtype_of(src) is not DataType.f32 and len(shape) == 2:  # the library has kernels for images alone
        src = reshape(node, src, [*shape, 1])
    result = lowering.batch_norm(node.emit, src, gamma, beta, mean, variance, epsilon=node["eps"])
    return [reshape(node, result, shape), None, None]


@lowers("_native_batch_norm_legit_functional.default", "_native_batch_norm_legit.no_stats")
def batch_norm_training(node: AtenNode) -> list[Value | None]:
    """A batch normalization by the mean and variance of the batch; the running ones are updated."""
    src, shape = native(node, "input"), node.shape("input")
    channels = shape[1]
    count = prod(shape) // max(channels, 1)
    if count < 2:
        raise NotLowered("a channel of one number")
    running: list[Value] = [np.zeros(channels, np.float32), np.ones(channels, np.float32)]
    if "functional" in node.name:
        if not node["training"]:
            raise NotLowered("running statistics")
        running = _vectors(node, ("running_mean", "running_var"))
    gamma, beta = _channel_defaults(node, channels)
    momentum = float(node["momentum"])
    attrs = {"epsilon": node["eps"], "momentum": 1 - momentum}
    emit = node.emit
    normal = lowering.batch_norm_of_images(emit, "BatchNormForwardTraining", [src], [*running, gamma, beta], **attrs)
    result, mean, variance = normal[0], normal[3], normal[4]
    inverse = inverse_root(node, binary(emit, "Add", variance, filled(node["eps"], variance)))
    ends = zip((mean, inverse), node.like[1:3], strict=True)
    statistics = [cast(emit, one, DTYPES[like.dtype]) for one, like in ends]
    if "functional" not in node.name:
        return [result, *statistics]
    # PyTorch keeps the unbiased variance; the op of the specification mixes in that of the batch as it is.
    updated = [
        binary(
            emit,
            "Add",
            multiply(emit, running[index], filled(1 - momentum, running[index])),
            multiply(emit, statistic, correction(node, count, 1, momentum) if index else filled(momentum, statistic)),
        )
        for index, statistic in enumerate((mean, variance))
    ]
    kept = zip(updated, node.like[3:], strict=True)
    return [result, *statistics, *(cast(emit, one, DTYPES[like.dtype]) for one, like in kept)]


@lowers("native_layer_norm.default")
def layer_norm(node: AtenNode) -> list[Value | None]:
    """A layer normalization; the mean, and the reciprocal of the standard deviation."""
    src, emit = native(node, "input"), node.emit
    axis = len(node.shape("input")) - len(node["normalized_shape"])
    gamma, beta = node["weight"], node["bias"]
    normal = lowering.layer_norm(emit, src, gamma, beta, axis, float(node["eps"]))
    return [normal[0], *_row_statistics(node, normal[1:])]


def _row_statistics(node: AtenNode, statistics: Sequence[Value]) -> list[Value | None]:
    """Of the means and variances of rows, the means and the reciprocals of the standard deviation."""
    rows: list[Value | None] = []
    for place, statistic in enumerate(statistics, 1):
        if place == 2:
            statistic = inverse_root(node, binary(node.emit, "Add", statistic, filled(float(node["eps"]), statistic)))
        like = node.like[place]
        rows.append(reshape(node, cast(node.emit, statistic, DTYPES[like.dtype]), [*like.shape]))
    return rows


@lowers("native_group_norm.default")
def group_norm(node: AtenNode) -> list[Value | None]:
    """A normalization over groups of channels."""
    src, shape = native(node, "input"), [*node.shape("input")]
    if {1, 2} & node.read:
        return _group_norm_with_statistics(node, src, shape)
    images = src if len(shape) > 2 else reshape(node, src, [*shape, 1])
    is_plain = node["weight"] is None and node["bias"] is None
    gamma, beta = (None, None) if is_plain else _channel_defaults(node, shape[1])
    result = lowering.group_norm(node.emit, images, gamma, beta, node["group"], float(node["eps"]))
    return [reshape(node, result, shape), None, None]


def _group_norm_with_statistics(node: AtenNode, src: Value, shape: list[int]) -> list[Value | None]:
    """A normalization of groups whose statistics are read: each group is a row that a layer normalization takes."""
    emit, eps = node.emit, float(node["eps"])
    rows = reshape(node, src, [shape[0] * node["group"], -1])
    normal, *moments = lowering.layer_norm(emit, rows, None, None, 1, eps)
    result = reshape(node, normal, shape)
    for name, kind in (("weight", "Multiply"), ("bias", "Add")):
        if node[name] is not None:
            vector = reshape(node, cast(emit, node.value(name), dtype_of(src)), [1, shape[1], *[1] * (len(shape) - 2)])
            result = binary(emit, kind, result, vector)
    return [result, *_row_statistics(node, moments)]


@lowers("_softmax.default", "_log_softmax.default", "_safe_softmax.default", "softmax.int", "log_softmax.int")
def softmax(node: AtenNode) -> Value:
    """SoftMax or its logarithm."""
    src, wanted = node.value("self"), node.result_dtype
    if wanted not in NATIVE:
        raise NotLowered(f"{wanted} is no data type of SoftMax")
    src = cast(node.emit, src, wanted)
    axis = node.axis("dim")
    factor = None
    if "safe" in node.name and not _sees_a_key(node, src, axis):
        # A row that is minus infinity alone is equal after the clamp; the factor makes its elements 0.
        factor = _is_finite(node, src)
        src = unary(node.emit, "Clamp", src, {"min": LEAST[dtype_of(src)], "max": np.inf})
    if "log" in node.name:
        return unary(node.emit, "LogSoftmax", src, {"axis": axis})
    result = node.emit.op("SoftMax", [src], {"axis": axis}, dtype=wanted, outputs=[])
    return result if factor is None else multiply(node.emit, result, factor)


def _is_finite(node: AtenNode, src: Value) -> Value:
    """0 for minus infinity, else 1."""
    # The exponential of a small multiple is 0 for minus infinity alone.
    seen = unary(node.emit, "Exp", multiply(node.emit, src, filled(-1 / LEAST[dtype_of(src)], src)))
    result: Value = unary(node.emit, "Clamp", multiply(node.emit, seen, filled(1e3, seen)), {"min": 0.0, "max": 1.0})
    return result


def _sees_a_key(node: AtenNode, scores: Value, axis: int) -> bool:
    """Whether scores are products plus a known mask that is finite for a key of each query."""
    added = made(node.emit, scores, "Add")
    for product, mask in () if added is None else either(added):
        known = contents(mask)
        if made(node.emit, product, "MatMul", "Multiply", "Divide") is None or known is None or not known.ndim:
            continue
        if axis == known_rank(scores) - 1 and np.isfinite(known.astype(np.float32)).any(-1).all():
            return True
    return False


def finite(node: AtenNode, mask: Value) -> tuple[Value, Value]:
    """A mask with a finite number for minus infinity; and 0 for each row that is minus infinity alone, else 1."""
    factor = node.emit.op("ReduceMax", [_is_finite(node, mask)], {"axes": [-1], "keep_dims": True})
    return unary(node.emit, "Clamp", mask, {"min": LEAST[dtype_of(mask)], "max": np.inf}), factor


@lowers("_fused_rms_norm.default")
def rms_norm(node: AtenNode) -> list[Value | None]:
    """src divided by the root of the mean of its squares; and the reciprocal of that root."""
    src, emit = native(node, "input"), node.emit
    rank = len(node.shape("input"))
    axes = [*range(rank - len(node["normalized_shape"]), rank)]
    eps = node["eps"]
    if eps is None:
        raise NotLowered("epsilon of the data type")
    wide = cast(emit, src, DataType.f32)
    mean = emit.op("ReduceMean", [unary(emit, "Square", wide)], {"axes": axes, "keep_dims": True})
    root = inverse_root(node, binary(emit, "Add", mean, filled(eps, mean)))
    result = rounded(emit, multiply(emit, wide, root), dtype_of(src))
    if node["weight"] is not None:
        result = multiply(emit, result, node.value("weight"))
    return [result, root]
