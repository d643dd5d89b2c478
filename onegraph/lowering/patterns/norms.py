"""Recognizes normalizations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...arrays.mapped_files import give_back
from ...ir.op import LogicalTensor, Op
from ...opset.bodies.normalization import factor_and_shift
from ...opset.dtypes import DataType
from ...opset.shapes import known, known_dims
from ..elementwise import binary
from ..emitter import Array, Emitter, Value, integers, numbers, rank_of
from ..movement import NATIVE, reshape
from ..norms import group_norm, in_f32, rms_norm
from .table import again, contents, either, known_inputs, made, number, operand_of, rewrites


def folded_norm(norm: Op) -> tuple[Array, Array] | None:
    """The factors and shifts of a BatchNormInference by known vectors; what is not finite is left to the ops."""
    vectors = known_inputs(norm)
    return None if vectors is None else factor_and_shift(vectors, float(str(norm.attrs["epsilon"])))


@rewrites("BatchNormInference")
def normalized_product(emit: Emitter, op: Op) -> Value | None:
    """A MatMul by known weights and the normalization behind it as one MatMul and an Add."""
    src, norm_factors = operand_of(op), folded_norm(op)
    if norm_factors is None or not known(src.shape) or src.dtype is not DataType.f32:
        return None
    if op.attrs.get("data_format", "NXC") != "NXC" and len(src.shape) != 2:
        return None
    (factor, shift), view = norm_factors, made(emit, src, "StaticReshape")
    inner = src if view is None else operand_of(view)
    total, shifts = made(emit, inner, "Add"), list[Array]()
    for addend, summand in () if total is None else either(total):
        if summand.value is not None and summand.value.shape == factor.shape:
            inner, shifts = addend, [summand.value]
    product = made(emit, inner, "MatMul")
    constants = None if product is None else known_inputs(product)
    if product is None or constants is None or constants[0].ndim != 2 or known_dims(inner.shape)[-1:] != factor.shape:
        return None
    with np.errstate(all="ignore"):
        weights = constants[0] * (factor[:, None] if product.attrs.get("transpose_b") else factor)
        shift = sum((addend * factor for addend in (*constants[1:], *shifts)), start=shift)
        folded = [np.asarray(array, np.float32) for array in (weights, shift)]
    give_back(constants)
    if not all(np.isfinite(array).all() for array in folded):
        return None
    normal = binary(emit, "Add", again(emit, product, [product.inputs[0], folded[0]]), folded[1])
    return normal if view is None else reshape(emit, normal, src.shape)


@rewrites("Convolution", "MatMul")
def product_of_normal(emit: Emitter, op: Op) -> Value | None:
    """A product by known weights takes in the normalization before it: W(f * x + s) = (W * f)x + Ws.

    A convolution with padding cannot: the elements around the normalized image are 0.
    """
    norm, constants = made(emit, op.inputs[0], "BatchNormInference"), known_inputs(op)
    folded = None if norm is None else folded_norm(norm)
    if norm is None or constants is None or folded is None or op.outputs[0].dtype is not DataType.f32:
        return None
    if norm.attrs.get("data_format", "NXC") != "NXC" and rank_of(norm.outputs[0]) != 2:
        return None
    weights = _by_output(op, constants[0])
    if weights is None:
        return None
    groups, group_channels = int(str(op.attrs.get("groups", 1))), weights.shape[1]
    rows = [np.repeat(vector.reshape(groups, group_channels), len(weights) // groups, axis=0) for vector in folded]
    factor, shift = (row.reshape(*row.shape, *(1,) * (weights.ndim - 2)) for row in rows)
    with np.errstate(all="ignore"):
        bias = (weights * shift).sum(tuple(range(1, weights.ndim))) + sum(constants[1:], start=0.0)
        arrays = [np.asarray(array, np.float32) for array in (_as_given(op, weights * factor), bias)]
    give_back(constants)
    if not all(np.isfinite(array).all() for array in arrays):
        return None
    return again(emit, op, [norm.inputs[0], *arrays])


@rewrites("ReduceMean")
def mean_of_normal(emit: Emitter, op: Op) -> Value | None:
    """The normalization of the mean over an image, instead of the mean of the normalized image."""
    norm, rank, axes = made(emit, op.inputs[0], "BatchNormInference"), rank_of(operand_of(op)), op.attrs.get("axes")
    if norm is None or rank is None or not isinstance(axes, tuple):
        return None
    reduced = {int(str(axis)) % rank for axis in axes}
    is_last = norm.attrs.get("data_format", "NXC") == "NXC" and rank - 1 not in reduced
    if not is_last or len(known_dims(op.outputs[0].shape)) < 2:
        return None
    return again(emit, norm, [again(emit, op, [norm.inputs[0]]), *norm.inputs[1:]])


def _by_output(op: Op, weights: Array) -> Array | None:
    """Weights (outputs, inputs of a group, window) of a product that sums the same inputs everywhere; else None."""
    if op.kind == "MatMul":
        if weights.ndim != 2 or op.attrs.get("transpose_a"):
            return None
        return weights if op.attrs.get("transpose_b") else weights.T
    if op.attrs.get("data_format", "NXC") != "NXC" or op.attrs.get("auto_pad", "none") != "none":
        return None
    if any(integers(op, "pads_begin")) or any(integers(op, "pads_end")):
        return None
    return weights if op.attrs.get("weights_format", "XIO") == "OIX" else np.moveaxis(weights, (-1, -2), (0, 1))


def _as_given(op: Op, weights: Array) -> Array:
    """Weights of ``_by_output`` in the layout of the op."""
    if op.kind == "MatMul":
        return weights if op.attrs.get("transpose_b") else np.ascontiguousarray(weights.T)
    is_oix = op.attrs.get("weights_format", "XIO") == "OIX"
    return weights if is_oix else np.ascontiguousarray(np.moveaxis(weights, (0, 1), (-1, -2)))


def _last_axes(op: Op) -> int | None:
    """The first axis, counted from the end, of a ReduceMean over the last axes that keeps them; else None."""
    rank, axes = rank_of(operand_of(op)), op.attrs.get("axes")
    if rank is None or not isinstance(axes, tuple) or not op.attrs.get("keep_dims"):
        return None
    count = len(axes)
    return -count if sorted(int(str(axis)) % rank for axis in axes) == [*range(rank - count, rank)] else None


def _squared(emit: Emitter, value: Value) -> LogicalTensor | None:
    """The tensor whose square a value is."""
    op = made(emit, value, "Square", "Multiply", "Pow")
    if op is None:
        return None
    if op.kind == "Multiply":
        return op.inputs[0] if op.inputs[0] is op.inputs[1] else None
    return op.inputs[0] if op.kind == "Square" or op.attrs.get("beta") == 2 else None


def _over_root(emit: Emitter, op: Op) -> Iterator[tuple[LogicalTensor, LogicalTensor]]:
    """x and r of x / sqrt(r), in each way of writing it."""
    if op.kind == "Divide":
        root = made(emit, op.inputs[1], "Sqrt")
        if root is not None:
            yield operand_of(op), operand_of(root)
        return
    for source, factor in either(op):
        inverse = made(emit, factor, "Reciprocal", "Pow", "Divide")
        if inverse is None:
            continue
        if inverse.kind == "Pow":
            if inverse.attrs.get("beta") == -0.5:
                yield source, operand_of(inverse)
            continue
        is_one = inverse.kind == "Reciprocal" or number(inverse.inputs[0]) == 1
        root = made(emit, inverse.inputs[-1], "Sqrt")
        if is_one and root is not None:
            yield source, operand_of(root)


def _mean_square(emit: Emitter, op: Op) -> tuple[LogicalTensor, LogicalTensor, int, float] | None:
    """For x / sqrt(mean(y ** 2) + epsilon): x, y, the first axis from the end, epsilon."""
    for source, radicand in _over_root(emit, op):
        total = made(emit, radicand, "Add")
        for inner, constant in () if total is None else either(total):
            mean, epsilon = made(emit, inner, "ReduceMean"), number(constant)
            if mean is not None and epsilon is not None and epsilon > 0:
                squared, begin = _squared(emit, operand_of(mean)), _last_axes(mean)
                if squared is not None and begin is not None:
                    return source, squared, begin, epsilon
    return None


@rewrites("Divide", "Multiply")
def plain_norm(emit: Emitter, op: Op) -> Value | None:
    """LayerNorm without gamma and beta of x - mean(x), RMSNorm of another tensor."""
    mean_square = _mean_square(emit, op)
    if mean_square is None:
        return None
    source, squared, begin, epsilon = mean_square
    if source is not squared or source.dtype not in NATIVE:
        return None
    apart = made(emit, source, "Subtract")
    mean = None if apart is None else made(emit, apart.inputs[1], "ReduceMean")
    if apart is not None and mean is not None and mean.inputs[0] is apart.inputs[0] and _last_axes(mean) == begin:
        if begin != -1:
            return None
        attrs = {"epsilon": epsilon, "use_affine": False, "keep_stats": False}
        return emit.op("LayerNorm", [operand_of(apart)], attrs)
    return rms_norm(emit, source, None, begin, epsilon)


@rewrites("Add")
def layer_norm(emit: Emitter, op: Op) -> Value | None:
    """LayerNorm(x) * gamma + beta."""
    for product, beta in either(op):
        scaled = made(emit, product, "Multiply")
        for normal, gamma in () if scaled is None else either(scaled):
            norm = made(emit, normal, "LayerNorm")
            if norm is None or len(norm.inputs) > 1:
                continue
            if gamma.shape == beta.shape == known_dims(norm.outputs[0].shape)[-1:]:
                attrs = {"epsilon": norm.attrs["epsilon"], "keep_stats": False}
                return emit.op("LayerNorm", [operand_of(norm), *in_f32(emit, gamma, beta)], attrs)
    return None


@rewrites("Multiply")
def rms_norm_scaled(emit: Emitter, op: Op) -> Value | None:
    """RMSNorm(x) * gamma."""
    for normal, gamma in either(op):
        norm = made(emit, normal, "RMSNorm")
        if norm is None or len(norm.inputs) > 1 or norm.attrs["begin_norm_axis"] != -1:
            continue
        if gamma.shape == known_dims(norm.outputs[0].shape)[-1:]:
            return rms_norm(emit, operand_of(norm), gamma, -1, float(str(norm.attrs["epsilon"])))
    return None


def _turned(emit: Emitter, value: Value | None) -> Value | None:
    """The tensor before a transpose, which keeps the channels of images last; else the value itself."""
    op = made(emit, value, "StaticTranspose")
    return value if op is None else op.inputs[0]


@rewrites("StaticReshape", of_known_dims=True)
def grouped_norm(emit: Emitter, op: Op) -> Value | None:
    """GroupNorm of (N, groups, size) seen as (N, C, X): a GroupNorm with these groups."""
    norm = made(emit, _turned(emit, op.inputs[0]), "GroupNorm")
    inner = None if norm is None else made(emit, _turned(emit, norm.inputs[0]), "StaticReshape")
    if norm is None or inner is None or op.outputs[0].shape != operand_of(inner).shape:
        return None
    shape, rows = operand_of(inner).shape, inner.outputs[0].shape
    if not known(shape) or not known(rows) or len(rows) != 3 or shape[0] != rows[0] or rows[1] != norm.attrs["groups"]:
        return None
    gamma, beta = (contents(input_) for input_ in norm.inputs[1:3])
    if gamma is None or beta is None or shape[1] % rows[1]:
        return None
    group_channels = shape[1] // rows[1]
    spread = [np.repeat(np.asarray(vector), group_channels) for vector in (gamma, beta)]
    return group_norm(emit, operand_of(inner), spread[0], spread[1], rows[1], float(str(norm.attrs["epsilon"])))


@rewrites("Add", of_known_dims=True)
def affine_group_norm(emit: Emitter, op: Op) -> Value | None:
    """GroupNorm(x) * gamma + beta for each channel, where the norm itself has ones and zeros."""
    for product, beta in either(op):
        scaled = made(emit, product, "Multiply")
        for normal, gamma in () if scaled is None else either(scaled):
            norm = made(emit, normal, "GroupNorm")
            if norm is None or not (_holds(norm.inputs[1], 1) and _holds(norm.inputs[2], 0)):
                continue
            rank = len(known_dims(norm.outputs[0].shape))
            axis = 1 if norm.attrs.get("data_format", "NXC") == "NCX" else rank - 1
            if all(_is_channels(parameter, norm.outputs[0], axis) for parameter in (gamma, beta)):
                vectors = [reshape(emit, _known(parameter), numbers(-1)) for parameter in (gamma, beta)]
                return emit.op("GroupNorm", [operand_of(norm), *in_f32(emit, *vectors)], norm.attrs)
    return None


def _is_channels(vector: LogicalTensor, image: LogicalTensor, axis: int) -> bool:
    """Whether a tensor broadcasts to an image with one element for each channel."""
    shape, vector_shape = known_dims(image.shape), vector.shape
    if vector_shape is None:
        return False
    channel_shape = tuple(dim if place == axis else 1 for place, dim in enumerate(shape))
    return (1,) * (len(shape) - len(vector_shape)) + vector_shape == channel_shape


def _holds(value: Value | None, expected: float) -> bool:
    """Whether a known value has one number everywhere."""
    constant = contents(value)
    return constant is not None and bool((np.asarray(constant) == expected).all())


def _known(tensor: LogicalTensor) -> Value:
    return tensor if tensor.value is None else np.asarray(tensor.value)


@rewrites("Multiply", "Add")
def affine_batch_norm(emit: Emitter, op: Op) -> Value | None:
    """BatchNormInference(x) * scale + shift for each channel, with known numbers: a norm with these in it."""
    for normal, factor in either(op):
        norm = made(emit, normal, "BatchNormInference")
        constants = [] if norm is None else [contents(input_) for input_ in (*norm.inputs[1:3], factor)]
        if norm is None or any(constant is None for constant in constants):
            continue
        rank, inner = len(known_dims(normal.shape)), norm.attrs.get("data_format", "NXC") == "NCX"
        gamma, beta, vector = (np.asarray(constant) for constant in constants)
        channel_shapes = [(gamma.size, *(1,) * (rank - 2)), (1, gamma.size, *(1,) * (rank - 2))]
        if not inner:
            channel_shapes = [(1,) * count + (gamma.size,) for count in range(rank)]
        if vector.shape not in channel_shapes:
            continue
        vector = vector.ravel().astype(gamma.dtype)
        pair = (gamma * vector, beta * vector) if op.kind == "Multiply" else (gamma, beta + vector)
        return emit.op("BatchNormInference", [norm.inputs[0], *pair, *norm.inputs[3:]], norm.attrs)
    return None
